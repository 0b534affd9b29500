"""JSON lines: values and their places, whatever the ends of lines."""

from __future__ import annotations

import io

import numpy as np
import pytest

from headrace.errors import SourceError
from headrace.files.opened import open_file
from headrace.formats import json_lines
from headrace.formats.json_lines import line_ranges, parsed, read_records

FILES = [
    b"",
    b"\n",
    b"1",
    b"1\n",
    b"\n\n1\n\n2",
    b'{"x": "\xc3\xa9"}\r\n \t\r\n[2]\r\n',
    b'\xef\xbb\xbf{"x": 1}\n2\n',
    b'"' + b"long" * 40 + b'"\n3\n\n   \n4',
    b"\n".join(b"%d" % number for number in range(100)),
]


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("at_once", [1, 3, 7, 1 << 22])
def test_the_index_finds_the_lines_that_are_read(content, at_once, tmp_path, monkeypatch):
    """Pieces of any size give the places of exactly the lines that hold something."""
    monkeypatch.setattr(json_lines, "AT_ONCE", at_once)
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    file = open_file(str(path))
    ranges = line_ranges(file)
    found = [
        (offset, parsed(file.read(offset, length), "x", offset))
        for offset, length in ranges.tolist()
    ]
    file.close()
    assert found == list(read_records(io.BytesIO(content), "x"))
    assert ranges.dtype == np.int64


def test_a_line_that_is_no_json_is_named_or_left_out():
    """File, offset and beginning of the line are named; or all others come and it is told."""
    content = b'{"x": 1}\n{"x": \n\xff\n[3]'
    with pytest.raises(
        SourceError,
        match=(
            r"x\.jsonl: the line at byte 9 cannot be read as JSON: Expecting value: line 2 column "
            r"1 \(char 7\)\. It begins"
        ),
    ):
        list(read_records(io.BytesIO(content), "x.jsonl"))
    told = []
    assert list(read_records(io.BytesIO(content), "x.jsonl", told.append)) == [
        (0, {"x": 1}),
        (18, [3]),
    ]
    assert len(told) == 2
