"""Records of bytes in mapped files, as a conversion writes them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.conversions import convert, write_tfrecord
from support.source_conformance import SourceConformance

import headrace
from headrace import BytesSource, TokenWriter
from headrace.errors import ConversionError, SourceError
from headrace.sources.facts import facts_of


def _record(key):
    """Record `key`; each seventh is empty."""
    return bytes([key % 251]) * (key % 7 * 50)


class TestConverted(SourceConformance):
    """One file."""

    on_files = True

    def write(self, folder, count):
        convert([_record(key) for key in range(count)], folder, "bytes")

    def open(self, folder, count):
        return BytesSource(folder)

    def expected_record(self, key):
        return _record(key)


class TestSeveral(SourceConformance):
    """Several files in a folder."""

    on_files = True

    def write(self, folder, count):
        convert([_record(key) for key in range(count)], folder, "bytes", shards=3)

    def open(self, folder, count):
        return BytesSource(folder / "*.npy")

    def expected_record(self, key):
        return _record(key)


def test_records_of_bytes_stay_what_they_are(tmp_path):
    """A conversion of TFRecord files leaves each record as it is, file for file, and `verify` finds
    nothing wrong.
    """
    for name, start in (("a", 0), ("b", 30)):
        write_tfrecord(
            tmp_path / "in" / f"{name}.tfrecord", [_record(key) for key in range(start, start + 30)]
        )
    convert(str(tmp_path / "in" / "*.tfrecord"), tmp_path / "out", "bytes")
    assert {path.name for path in (tmp_path / "out").glob("*.npy")} == {"a.npy", "b.npy"}
    assert list(BytesSource(tmp_path / "out")) == [_record(key) for key in range(60)]
    assert headrace.verify(tmp_path / "out") == []


def test_other_records_are_encoded_as_for_array_record(tmp_path):
    """By `encode=`, JSON here; without it a dict becomes an Example."""
    rows = [{"n": number} for number in range(5)]
    convert(rows, tmp_path / "json", "bytes", encode="json")
    assert [json.loads(record) for record in BytesSource(tmp_path / "json")] == rows
    convert(rows, tmp_path / "example", "bytes")
    assert headrace.decode_example(BytesSource(tmp_path / "example")[3])["n"] == 3


def test_the_sizes_of_records_are_known_without_reading_them(tmp_path):
    """`record_bytes` has them, as of other files of bytes; there are no `lengths`, which are those
    of arrays.
    """
    convert([_record(key) for key in range(20)], tmp_path, "bytes", shards=2)
    source = BytesSource(tmp_path)
    sizes = [len(_record(key)) for key in range(20)]
    assert (
        facts_of(source).record_bytes().tolist()
        == headrace.lengths_of(source, "bytes").tolist()
        == sizes
    )
    assert facts_of(source).lengths() is None


def test_files_of_tokens_are_refused(tmp_path):
    """The error names the dtype, and the source that reads them."""
    with TokenWriter(tmp_path / "tokens.npy", dtype=np.uint16) as writer:
        writer.append([1, 2])
    with pytest.raises(
        SourceError, match=r"dtype uint16, but records of bytes have dtype uint8\. If it contains"
    ):
        BytesSource(tmp_path)


def test_options_are_refused(tmp_path):
    """There are none for files of bytes, and none is ignored."""
    with pytest.raises(
        ConversionError, match='to="bytes" takes no options, but options= has group_size'
    ):
        convert([b"a"], tmp_path, "bytes", options={"group_size": 2})
