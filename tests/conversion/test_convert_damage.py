"""`headrace.convert` of damaged files: errors that name file and offset, or records that are left
out and counted.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
import zlib

import numpy as np
import pytest
from support.conversions import RECORDS, convert, flip, read, write_tfrecord, write_tfrecords

import headrace
from headrace.errors import ConversionError, SourceError
from headrace.formats.tfrecord import framed


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


def test_a_damaged_record_is_named_by_file_and_offset(tfrecords, tmp_path):
    """Nothing of its shard is left, and what was whole before stays."""
    flip(tfrecords / "c.tfrecord-00000-of-00001", 20)
    with pytest.raises(
        SourceError, match=r"c\.tfrecord-00000-of-00001: the record at byte 0 is damaged"
    ):
        convert(tfrecords, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*")) == [
        ".conversion",
        "a.array_record",
        "b.array_record",
    ]


def test_damaged_records_can_be_left_out_and_are_counted(tfrecords, tmp_path):
    """The manifest says how many, and why; all others are there, and another run says the same."""
    flip(tfrecords / "c.tfrecord-00000-of-00001", 20)
    made = convert(tfrecords, tmp_path / "out", on_error="skip")
    assert (made.records, made.left_out) == (99, 1)
    assert "the record at byte 0 is damaged" in made.damage[0]
    assert read(tmp_path / "out") == RECORDS[:31] + RECORDS[32:]
    assert convert(tfrecords, tmp_path / "out", on_error="skip") == made


def test_a_damaged_file_of_a_format_without_streams_is_an_error(tmp_path):
    """Even with `on_error="skip"`: none of its records can be found."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"a\.parquet"):
        convert(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")


@pytest.mark.parametrize("shards", [None, 3])
def test_a_conversion_that_damage_stopped_goes_on_without_it(shards, tfrecords, tmp_path):
    """What is whole stays; but what left records out is no conversion without damage, finished or
    not.
    """
    flip(tfrecords / "c.tfrecord-00000-of-00001", 20)
    with pytest.raises(SourceError, match="damaged"):
        convert(tfrecords, tmp_path / "out", shards=shards)
    whole = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.array_record")}
    made = convert(tfrecords, tmp_path / "out", shards=shards, on_error="skip")
    assert (len(whole), made.left_out, headrace.verify(tmp_path / "out")) == (
        2 if shards is None else 0,
        1,
        [],
    )
    assert all(path.stat().st_mtime_ns == before for path, before in whole.items())
    assert read(tmp_path / "out") == RECORDS[:31] + RECORDS[32:]
    for _ in range(2):
        with pytest.raises(ConversionError, match=r"differs in: on_error\."):
            convert(tfrecords, tmp_path / "out", shards=shards)
        next((tmp_path / "out").glob("*.array_record")).unlink()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a.jsonl", "a.jsonl.gz"])
def test_damaged_records_of_divided_files_are_counted_once(name, tmp_path):
    """At the beginning, in the middle and at the end, whichever part they are in; all others are in
    one part each.
    """
    if "jsonl" in name:
        lines = [b"{" if number in (0, 50, 99) else b"%d" % number for number in range(100)]
        data, expected = (
            b"".join(line + b"\n" for line in lines),
            [line for line in lines if line != b"{"],
        )
    else:
        frames = [bytearray(framed(record)) for record in RECORDS]
        for number in (0, 50, 99):
            frames[number][-1] ^= 1
        data, expected = (
            b"".join(frames),
            [record for n, record in enumerate(RECORDS) if n not in (0, 50, 99)],
        )
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    for shards in (None, 1, 2, 7):
        made = convert(tmp_path / name, tmp_path / f"out {shards}", shards=shards, on_error="skip")
        assert (made.left_out, made.records) == (3, 97)
        assert read(tmp_path / f"out {shards}") == expected


def test_a_file_that_is_cut_off_is_an_error_or_counted(tmp_path):
    """With "skip", what was whole before the end is there."""
    records = [os.urandom(5000) for _ in range(50)]
    path = write_tfrecord(tmp_path / "in" / "a.tfrecord", records)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(SourceError, match="cut off"):
        convert(path, tmp_path / "out")
    made = convert(path, tmp_path / "skipped", on_error="skip")
    assert (made.left_out, made.records) == (1, 49)
    assert read(tmp_path / "skipped") == records[:-1]


def packed_records(name, count):
    """The bytes of a file, not yet compressed; where each of its records ends; and what
    it becomes.
    """
    texts = [random.Random(number).randbytes(300).hex() for number in range(count)]
    if "jsonl" in name:
        records, parts = (
            [f'"{text}"'.encode() for text in texts],
            [f'"{text}"\n'.encode() for text in texts],
        )
    elif "csv" in name:
        parts = [*(f"{text}\n".encode() for text in texts)]
        records = [headrace.encode_example({"x": text}) for text in texts]
    else:
        records = [text.encode() for text in texts]
        parts = list(map(framed, records))
    begin = b"x\n" if "csv" in name else b""
    return begin + b"".join(parts), len(begin) + np.cumsum(list(map(len, parts))), records


def cut_off_gzip(path, data, share):
    """A part of a compressed file; what can be unpacked of it, in bytes."""
    packed = gzip.compress(data, 1)
    kept = packed[: int(len(packed) * share)]
    path.write_bytes(kept)
    return len(zlib.decompressobj(wbits=31).decompress(kept))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.tfrecord.gz", "a.jsonl.gz", "a.csv.gz"])
@pytest.mark.parametrize(
    "share", [0.0002, 0.01, 0.7, pytest.param(0.99999, marks=pytest.mark.long)]
)
@pytest.mark.one_in(4)
def test_all_records_before_the_cut_of_a_compressed_file_are_kept(name, share, tmp_path):
    """Whichever part they come into; the loss is counted once, and told by file and offset. Without
    "skip" it is an error.
    """
    path = tmp_path / name
    data, ends, records = packed_records(name, 2000)
    there = int((ends <= cut_off_gzip(path, data, share)).sum())
    with pytest.raises(
        SourceError, match=rf"{name} cannot be unpacked, near byte \d+ of the file: .*cut off"
    ):
        convert(path, tmp_path / "out")
    for shards in (None, 3) if there else (None,):
        made = convert(path, tmp_path / f"skipped {shards}", on_error="skip", shards=shards)
        assert (made.records, made.left_out) == (there, 1)
        assert f"{name} cannot be unpacked, near byte" in made.damage[0]
        if there:
            assert read(tmp_path / f"skipped {shards}") == records[:there]


def test_a_compressed_file_that_is_cut_off_at_its_beginning_is_left_out(tmp_path):
    """All of it, counted as one; the others are there. A file that is not compressed at all is an
    error also then.
    """
    write_tfrecord(tmp_path / "in" / "a.tfrecord.gz", RECORDS)
    write_tfrecord(tmp_path / "in" / "b.tfrecord.gz", RECORDS)
    os.truncate(tmp_path / "in" / "a.tfrecord.gz", 20)
    made = convert(tmp_path / "in", tmp_path / "out", on_error="skip")
    assert (made.records, made.left_out, read(tmp_path / "out")) == (100, 1, RECORDS)
    (tmp_path / "in" / "a.tfrecord.gz").write_bytes(b"text")
    with pytest.raises(SourceError, match="is not compressed with gzip although"):
        convert(tmp_path / "in", tmp_path / "two", on_error="skip")


@pytest.mark.slow
def test_all_samples_before_the_cut_of_a_compressed_tar_file_are_kept(tmp_path):
    """But for the one that may lack a part; the cut and that one are counted."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for number in range(300):
            for kind in ("a", "b"):
                member = tarfile.TarInfo(f"{number:05}.{kind}")
                member.size = 2000
                tar.addfile(member, io.BytesIO(random.Random(number).randbytes(2000)))
    there = cut_off_gzip(tmp_path / "x.tar.gz", data.getvalue(), 0.7) // (2 * (512 + 2048))
    made = convert(tmp_path / "x.tar.gz", tmp_path / "out", on_error="skip")
    assert (made.records, made.left_out) in ((there, 2), (there - 1, 2))
    assert "x.tar.gz cannot be unpacked, near byte" in made.damage[0]
    with pytest.raises(SourceError, match=r"x\.tar\.gz cannot be unpacked, near byte \d+"):
        convert(tmp_path / "x.tar.gz", tmp_path / "whole")


def test_values_that_cannot_be_written_are_damaged_records_too(tmp_path):
    """A line that is not valid JSON, and one with another type than the first ones, by file and
    offset.
    """
    path = tmp_path / "x.jsonl"
    path.write_text('{"x": 1}\n{"x": \n{"x": "text"}\n{"x": 4}\n{"y": 1}\n')
    with pytest.raises(SourceError, match="the line at byte 9 cannot be read as JSON"):
        convert(path, tmp_path / "out")
    made = convert(path, tmp_path / "lines", on_error="skip")
    assert (made.records, made.left_out) == (4, 1)
    with pytest.raises(ConversionError, match="one type"):
        convert(path, tmp_path / "rows", "parquet", on_error="skip")
    lines = [f'{{"x": {number}}}\n' for number in range(1000)]
    path.write_text("".join(lines) + '{"x": "text"}\n{"x": 1000}\n{"y": 1}\n')
    made = convert(path, tmp_path / "rows", "parquet", on_error="skip")
    assert (made.records, made.left_out) == (1001, 2)
    assert f"byte {len(''.join(lines))}: " in made.damage[0]
    assert "a record has the columns y, which the first records do not have" in made.damage[1]
