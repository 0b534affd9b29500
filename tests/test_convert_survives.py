"""`millrace.convert` survives: damaged records, kills at any moment, full disks, other processes."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zlib

import numpy as np
import psutil
import pytest
from conversions import RECORDS, content, convert, read, write_tfrecord, write_tfrecords
from pipelines import chosen
from source_conformance import exit_code

import millrace
from millrace.conversion.target import Target
from millrace.errors import ConversionError, SourceError, WorkerCrashedError
from millrace.formats.tfrecord import framed


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


def flip(path, place):
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)


def test_a_damaged_record_is_named_by_file_and_offset(tfrecords, tmp_path):
    """Nothing of its shard is left, and what was whole before stays."""
    flip(tfrecords / "c.tfrecord-00000-of-00001", 20)
    with pytest.raises(SourceError, match=r"c\.tfrecord-00000-of-00001: the record at byte 0 is damaged"):
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


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a.jsonl", "a.jsonl.gz"])
def test_damaged_records_of_divided_files_are_counted_once(name, tmp_path):
    """At the beginning, in the middle and at the end, whichever part they are in; all others are in one part each."""
    if "jsonl" in name:
        lines = [b"{" if number in (0, 50, 99) else b"%d" % number for number in range(100)]
        data, expected = b"".join(line + b"\n" for line in lines), [line for line in lines if line != b"{"]
    else:
        frames = [bytearray(framed(record)) for record in RECORDS]
        for number in (0, 50, 99):
            frames[number][-1] ^= 1
        data, expected = b"".join(frames), [record for n, record in enumerate(RECORDS) if n not in (0, 50, 99)]
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
    """The bytes of a file, not yet compressed; where each of its records ends; and what it becomes."""
    texts = [random.Random(number).randbytes(300).hex() for number in range(count)]
    if "jsonl" in name:
        records, parts = [f'"{text}"'.encode() for text in texts], [f'"{text}"\n'.encode() for text in texts]
    elif "csv" in name:
        parts = [*(f"{text}\n".encode() for text in texts)]
        records = [millrace.encode_example({"x": text}) for text in texts]
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


@pytest.mark.parametrize("name", ["a.tfrecord.gz", "a.jsonl.gz", "a.csv.gz"])
@pytest.mark.parametrize("share", [0.0002, 0.01, 0.7, pytest.param(0.99999, marks=pytest.mark.long)])
def test_all_records_before_the_cut_of_a_compressed_file_are_kept(name, share, tmp_path):
    """Whichever part they come into; the loss is counted once, and told by file and offset. Without "skip" it is an error."""
    path = tmp_path / name
    data, ends, records = packed_records(name, 2000)
    there = int((ends <= cut_off_gzip(path, data, share)).sum())
    with pytest.raises(SourceError, match=rf"{name} cannot be unpacked, near byte \d+ of the file: .*cut off"):
        convert(path, tmp_path / "out")
    for shards in (None, 3) if there else (None,):
        made = convert(path, tmp_path / f"skipped {shards}", on_error="skip", shards=shards)
        assert (made.records, made.left_out) == (there, 1)
        assert f"{name} cannot be unpacked, near byte" in made.damage[0]
        if there:
            assert read(tmp_path / f"skipped {shards}") == records[:there]


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
    """A line that is no JSON, and one with another type than the first ones, by file and offset."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"x": 1}\n{"x": \n{"x": "text"}\n{"x": 4}\n{"y": 1}\n')
    with pytest.raises(SourceError, match=r"x\.jsonl: the line at byte 9 is no JSON"):
        convert(path, tmp_path / "out")
    made = convert(path, tmp_path / "lines", on_error="skip")
    assert (made.records, made.left_out) == (4, 1)
    with pytest.raises(ConversionError, match="no one type"):
        convert(path, tmp_path / "rows", "parquet", on_error="skip")
    lines = [f'{{"x": {number}}}\n' for number in range(1000)]
    path.write_text("".join(lines) + '{"x": "text"}\n{"x": 1000}\n{"y": 1}\n')
    made = convert(path, tmp_path / "rows", "parquet", on_error="skip")
    assert (made.records, made.left_out) == (1001, 2)
    assert f"byte {len(''.join(lines))}: " in made.damage[0]
    assert "a record has the columns y, which the first records have not" in made.damage[1]


def test_another_version_of_a_function_is_another_conversion(tmp_path):
    """Told by its code and what is in its closure; the same written again is the same."""

    def reverse(by):
        return lambda record: record[::by]

    convert(RECORDS, tmp_path / "out", transform=reverse(-1))
    assert convert(RECORDS, tmp_path / "out", transform=reverse(-1)).records == 100
    for other in (reverse(2), lambda record: record[::-1], lambda record: record):
        with pytest.raises(ConversionError, match="differs in: transform"):
            convert(RECORDS, tmp_path / "out", transform=other)


def test_a_conversion_of_which_nothing_is_left_is_forgotten(tmp_path):
    """Another one takes its place; nothing of its receipts is believed."""
    calls = []

    def stop(record):
        calls.append(record)
        if len(calls) > 60:
            raise KeyError
        return record

    with pytest.raises(KeyError):
        convert(RECORDS, tmp_path / "out", shards=2, transform=stop)
    next((tmp_path / "out").glob("*.array_record")).unlink()
    convert(RECORDS[::-1], tmp_path / "out", shards=2)
    assert millrace.verify(tmp_path / "out") == []
    assert read(tmp_path / "out") == RECORDS[::-1]


def test_a_source_that_was_changed_is_told(tfrecords, tmp_path):
    """A finished conversion, and one that was stopped, are not mixed with other data, options or damage."""
    convert(tfrecords, tmp_path / "out")
    for options in ({"shards": 2}, {"options": {"group_size": 4}}, {"transform": len}, {"on_error": "skip"}):
        with pytest.raises(ConversionError, match="holds another conversion, which differs in: "):
            convert(tfrecords, tmp_path / "out", **options)
    os.utime(tfrecords / "a.tfrecord", (1, 1))
    with pytest.raises(ConversionError, match=r"differs in: files\. Remove it"):
        convert(tfrecords, tmp_path / "out")


def test_what_is_missing_is_made_again(tfrecords, tmp_path):
    """Files of a finished conversion that were removed or cut off; the bytes are the same."""
    convert(tfrecords, tmp_path / "out")
    before = content(tmp_path / "out")
    (tmp_path / "out" / "a.array_record").unlink()
    os.truncate(tmp_path / "out" / "b.array_record", 100)
    assert millrace.verify(tmp_path / "out") == [
        "a.array_record is missing",
        "b.array_record has 100 bytes, not 131,072",
    ]
    convert(tfrecords, tmp_path / "out")
    assert content(tmp_path / "out") == before


def test_verify_finds_a_flipped_bit_and_a_file_too_many(tfrecords, tmp_path):
    """And says so of a folder that is not done, or is none."""
    with pytest.raises(ConversionError, match=r"has no manifest\.json"):
        millrace.verify(tmp_path)
    convert(tfrecords, tmp_path / "out")
    flip(tmp_path / "out" / "a.array_record", 70_000)
    (tmp_path / "out" / "z.array_record").write_bytes(b"")
    assert millrace.verify(tmp_path / "out") == [
        "a.array_record has another content (SHA-256)",
        "z.array_record is not in the manifest",
    ]


def test_two_processes_do_not_write_to_one_folder(tfrecords, tmp_path):
    """The second one is told, at once."""
    with (
        Target(str(tmp_path / "out")).folder.locked(),
        pytest.raises(ConversionError, match="another process converts to"),
    ):
        convert(tfrecords, tmp_path / "out")
    assert convert(tfrecords, tmp_path / "out").records == 100


PROGRAM = """
import sys, millrace
if __name__ != "__main__":
    raise SystemExit("a worker imports the user's program")
millrace.convert(sys.argv[1], sys.argv[2], workers=2, progress=False, shards=int(sys.argv[3]) or None)
"""


def start(*arguments, **options):
    """A program that converts, in a process group of its own."""
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *map(str, arguments)], start_new_session=True, **options)


def workers_of(process):
    """The processes that a conversion has started."""
    return psutil.Process(process.pid).children()


def killed_until_done(source, target, shards, kills, seed):
    """Convert, killed so often at random moments: all of it, one worker, or the parent alone."""
    dice, times = random.Random(seed), 0
    while times < kills:
        process = start(source, target, shards, stderr=subprocess.DEVNULL)
        time.sleep(dice.random() * 0.6)
        if process.poll() is None:
            _kill(process, dice.choice(["all", "worker", "parent"]))
            times += 1
        if process.wait() == 0:
            assert millrace.verify(target) == []
            _damage(target, dice)
    process = start(source, target, shards)
    assert process.wait() == 0


def _kill(process, which):
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, IndexError):
        if which == "all":
            os.killpg(process.pid, signal.SIGKILL)
        elif which == "parent":
            process.kill()
        else:
            workers_of(process)[0].kill()


def _damage(target, dice):
    """So that there is something left to do."""
    dice.choice(sorted(target.glob("*.array_record"))).unlink()


@pytest.mark.parametrize(
    ("shards", "kills"),
    chosen([(5, 4), (0, 100), (5, 100)], (5, 4)),
)
def test_a_conversion_that_was_killed_goes_on_to_the_same_bytes(shards, kills, tmp_path):
    """At random moments: the whole of it, a worker, or the parent alone. No file appears that is not whole."""
    for name in ("a.tfrecord", "b.tfrecord.gz", "c.tfrecord"):
        write_tfrecord(tmp_path / "in" / name, [random.Random(number).randbytes(1000) for number in range(2000)])
    convert(tmp_path / "in", tmp_path / "whole" / "out", shards=shards or None)
    killed_until_done(tmp_path / "in", tmp_path / "killed" / "out", shards, kills, seed=shards)
    assert content(tmp_path / "killed" / "out") == content(tmp_path / "whole" / "out")


DOCUMENTS = [{"tokens": list(range(number))} for number in range(4)]
OURS = tuple(f"/conversion/{name}.py" for name in ("target", "folders", "conversion", "shards"))


def killed_after(target, lines):
    """Convert in a child that is killed after so many lines of our code; whether it was."""
    child = os.fork()
    if child:
        return exit_code(child) == -signal.SIGKILL
    left = iter(range(lines))

    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith(OURS):
            return None
        if event == "line" and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    code = 1
    try:
        sys.settrace(trace)
        convert(DOCUMENTS, target, "tokens", shards=2)
        code = 0
    finally:
        os._exit(code)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("stride", chosen([1, 37], 37))
def test_a_conversion_that_is_killed_at_a_line_leaves_what_is_whole(stride, tmp_path):
    """Killed before any line of our code: files have all their bytes or are not there, and another run makes the same."""
    convert(DOCUMENTS, tmp_path / "whole" / "out", "tokens", shards=2)
    whole = content(tmp_path / "whole" / "out")
    counts = []
    for lines in range(0, 10_000, stride):
        target = tmp_path / f"{lines}" / "out"
        killed = killed_after(target, lines)
        there = content(target) if target.exists() else {}
        counts.append(len(there.keys() & whole.keys()))
        assert {name: there[name] for name in there.keys() & whole.keys()}.items() <= whole.items()
        convert(DOCUMENTS, target, "tokens", shards=2)
        assert content(target) == whole
        shutil.rmtree(target.parent)
        if not killed:
            break
    assert len(counts) > 200 // stride
    assert (counts == sorted(counts), counts[0], counts[-1]) == (True, 0, 5)


def test_a_worker_that_is_killed_is_told_and_what_was_whole_stays(tmp_path):
    """With its signal; another run does the rest."""
    calls = tmp_path / "calls"

    def kill_once(record):
        if record == RECORDS[99] and not calls.exists():
            calls.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    write_tfrecords(tmp_path / "in")
    with pytest.raises(WorkerCrashedError, match=r"signal SIGKILL .* run the same again"):
        convert(tmp_path / "in", tmp_path / "out", workers=1, transform=kill_once)
    assert (tmp_path / "out" / "a.array_record").exists()
    convert(tmp_path / "in", tmp_path / "out", workers=1, transform=kill_once)
    assert read(tmp_path / "out") == RECORDS


def test_an_interrupt_ends_a_conversion_and_its_workers(tmp_path):
    """Ctrl-C goes to all of them, as from a terminal; nothing is left but what is whole."""
    write_tfrecord(tmp_path / "in" / "a.tfrecord", [bytes(1000)] * 20_000)
    write_tfrecord(tmp_path / "in" / "b.tfrecord", RECORDS)
    process = start(tmp_path / "in", tmp_path / "out", 0, stderr=subprocess.PIPE)
    while not list((tmp_path / "out").glob(".conversion/writing-*")) and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate()[1]
    assert not list((tmp_path / "out").glob(".conversion/writing-*"))
    assert {path.name for path in (tmp_path / "out").glob("*.array_record")} <= {"b.array_record"}


@pytest.mark.parametrize("to", ["array_record", "parquet", "tokens"])
def test_a_disk_that_is_full_is_told_and_leaves_nothing_half(to, tmp_path):
    """Here by a limit on the size of files; with room, another run goes on."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    rows = [{"tokens": list(os.urandom(1000))} for _ in range(500)]
    source = [json.dumps(row).encode() for row in rows] if to == "array_record" else rows
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(ConversionError, match=r"out-00000-of-00001.* cannot be written: .*File too large"):
            convert(source, tmp_path / "out", to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".conversion"]
    assert not list((tmp_path / "out").glob(".conversion/writing-*"))
    assert convert(source, tmp_path / "out", to).records == 500


def test_an_os_error_of_the_users_stays_what_it_is(tmp_path):
    """It is not taken for one of the disk."""

    def missing(record):
        raise FileNotFoundError("my table")

    with pytest.raises(FileNotFoundError, match="my table") as caught:
        convert(RECORDS, tmp_path / "out", transform=missing)
    assert caught.value.__notes__ == ["at MemorySource: record 0"]


def test_a_target_that_is_no_folder_is_told(tmp_path):
    """A file in its place, or a name that the system does not take."""
    (tmp_path / "out").write_text("a file")
    for target, message in (
        ("out", "is no folder"),
        ("out/in", "Not a directory"),
        ("x" * 10**5, "File name too long"),
    ):
        with pytest.raises(ConversionError, match=message) as caught:
            convert(RECORDS, tmp_path / target)
        assert len(str(caught.value)) < 500


def test_gzip_that_is_none_is_told(tmp_path):
    """By the file, and not with a traceback of a library."""
    (tmp_path / "a.tfrecord.gz").write_bytes(b"nothing of the kind")
    (tmp_path / "b.tfrecord").write_bytes(gzip.compress(b"x" * 100))
    for name, message in (("a.tfrecord.gz", "cannot be unpacked"), ("b.tfrecord", "is compressed with gzip")):
        with pytest.raises(SourceError, match=message):
            convert(tmp_path / name, tmp_path / "out", on_error="skip")
