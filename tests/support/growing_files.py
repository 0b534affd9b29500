"""Formats whose files may become more: how to write a file of some numbers, open a source, and tell
a record's number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headrace import (
    ArrayRecordDataSource,
    JsonLinesDataSource,
    ParquetDataSource,
    TokenSource,
    TokenWriter,
)


class GrowingFormat(NamedTuple):
    suffix: str
    write: Callable[..., None]
    """Takes the path of a file, and its numbers."""
    source: Callable[..., Any]
    number_of: Callable[[Any], int]

    def numbers(self, source):
        """The numbers of all records of a source, in their order."""
        return list(map(self.number_of, source.__getitems__(range(len(source)))))


def write_tokens(path, *numbers):
    """A file of documents of one token."""
    with TokenWriter(path, dtype=np.uint16) as writer:
        writer.extend([[number] for number in numbers])


def write_json_lines(path, *numbers):
    """A file that nobody has written to for long."""
    path.write_text("".join(f"{number}\n" for number in numbers))
    os.utime(path, (len(numbers), len(numbers)))


def write_array_record(path, *numbers):
    """A file of numbers as JSON."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1")
    for number in numbers:
        writer.write(json.dumps(number).encode())
    writer.close()


def write_parquet(path, *numbers):
    """A file of one column, with row groups of two."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"number": pa.array(numbers, pa.int32())}), path, row_group_size=2)


FORMATS = {
    "tokens": GrowingFormat(
        "npy", write_tokens, TokenSource, lambda record: int(record["tokens"][0])
    ),
    "json_lines": GrowingFormat("jsonl", write_json_lines, JsonLinesDataSource, int),
    "array_record": GrowingFormat(
        "array_record", write_array_record, ArrayRecordDataSource, json.loads
    ),
    "parquet": GrowingFormat(
        "parquet", write_parquet, ParquetDataSource, lambda record: int(record["number"])
    ),
}
