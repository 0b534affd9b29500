"""TFRecord files: framing, checksums, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from headrace import TFRecordDataSource
from headrace.errors import SourceError
from headrace.files.opened import open_file
from headrace.formats import tfrecord
from headrace.formats.tfrecord import first_damaged, framed, masked, read_records, record_table

RECORDS = [b"", b"one", bytes(range(256)) * 300, b"x" * 5000, b"last"]
WHOLE = b"".join(map(framed, RECORDS))


def read(data, on_damage=None):
    """The records of a file with these bytes."""
    return [record for _, record in read_records(io.BytesIO(data), "x.tfrecord", on_damage)]


def test_records_come_back_with_their_offsets(tmp_path):
    """What was framed is read, in order, with the offset of each frame; the index says the same."""
    offsets = np.cumsum([0] + [len(record) + 16 for record in RECORDS]).tolist()
    assert list(read_records(io.BytesIO(WHOLE), "x")) == list(zip(offsets, RECORDS))
    path = tmp_path / "x.tfrecord"
    path.write_bytes(WHOLE * 20)
    file = open_file(str(path))
    table = record_table(file)
    expected = [turn * len(WHOLE) + offset for turn in range(20) for offset in offsets[:-1]]
    assert table.offsets.tolist() == [*expected, 20 * len(WHOLE)]
    assert first_damaged(RECORDS * 20, table.checksums.tolist()) is None
    file.close()


def test_checksums_are_those_of_the_standard():
    """The crc32c of 32 zeros is that of RFC 3720, and is stored masked."""
    assert framed(bytes(32))[-4:] == masked(0x8A9136AA).to_bytes(4, "little")


def test_grain_reads_what_is_written_here(tmp_path):
    """A reader of TFRecord that others wrote gives the same records."""
    import grain

    path = tmp_path / "x.tfrecord"
    path.write_bytes(WHOLE)
    assert list(grain.experimental.TFRecordIterDataset(str(path))) == RECORDS


@pytest.mark.parametrize("cut", [1, 4, 11, 12, 30, 77000])
def test_a_file_that_is_cut_off_is_an_error(cut, tmp_path):
    """Wherever it ends inside a record: file and offset are named, by the reader and by
    the index.
    """
    data = WHOLE[: len(WHOLE) - cut]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(data)
    file = open_file(str(path))
    for act in (lambda: read(data), lambda: record_table(file)):
        with pytest.raises(
            SourceError, match=r"x\.tfrecord: the file ends inside the record at byte \d+"
        ):
            act()
    file.close()
    told = []
    found = read(data, told.append)
    assert (found, len(told)) == (RECORDS[: len(found)], 1)


def test_a_damaged_record_is_named_or_left_out():
    """Its checksum is wrong: an error with file and offset, or all others come and it is told."""
    data = bytearray(WHOLE)
    data[16 + 12 + 1] ^= 1
    with pytest.raises(SourceError, match=r"x\.tfrecord: the record at byte 16 is damaged"):
        read(bytes(data))
    told = []
    assert read(bytes(data), told.append) == [RECORDS[0], *RECORDS[2:]]
    assert [str(error) for error in told] == [
        "x.tfrecord: the record at byte 16 is damaged, because its checksum is wrong. Write the file again."
    ]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 1000, bytes(range(256)) * 50, framed(b"inner")[:15] * 9]
)
@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_after_a_damaged_length_one_goes_on_at_the_next_record(content, at_once, monkeypatch):
    """Whatever lies between; the file ends there, if no record is left. Without `on_damage` it is
    an error.
    """
    monkeypatch.setattr(tfrecord, "AT_ONCE", at_once)
    damaged = bytearray(framed(content))
    damaged[9] ^= 1
    data = framed(b"first") + bytes(damaged) + framed(b"second") * 2
    with pytest.raises(
        SourceError, match=r"x\.tfrecord: the length of the record at byte 21 is damaged"
    ):
        read(data)
    told = []
    assert read(data, told.append) == [b"first", b"second", b"second"]
    assert read(framed(b"first") + bytes(damaged), told.append) == [b"first"]
    assert len(told) == 2


def test_a_damaged_first_length_is_an_error_whatever_is_asked_for():
    """Most often the file is of another format: it would be gone through for nothing."""
    with pytest.raises(SourceError, match="not a TFRecord file, or its first record is damaged"):
        read(b"\1" + WHOLE, print)


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"no records at all", "not a TFRecord file"), (gzip.compress(WHOLE), "compressed with gzip")],
)
def test_another_kind_of_file_is_an_error(data, text):
    """Of foreign files, and of compressed ones, it is said what they are."""
    with pytest.raises(SourceError, match=text):
        read(data)


def test_no_flipped_bit_is_silent(tmp_path):
    """Wherever it is: a stream tells of it, a source refuses it, and no record comes that was not
    written.
    """
    records = [b"", b"one", b"second", bytes(20)]
    data = b"".join(map(framed, records))
    path = tmp_path / "x.tfrecord"
    for place in range(len(data)):
        bad = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        told = []
        try:
            assert all(record in records for record in read(bad, told.append))
            assert told, place
        except SourceError:
            assert place < 12
        path.write_bytes(bad)
        with pytest.raises(SourceError, match=r"damaged|cut off"):
            TFRecordDataSource(path, index_dir=tmp_path / str(place)).__getitems__(range(4))
