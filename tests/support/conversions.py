"""Conversions to be tested. In: records. Out: files of them, conversions of those, and what is in
folders.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace
from headrace.formats.example_writer import encode_example
from headrace.formats.tfrecord import framed

RECORDS = [b"record %d " % number * (number % 7) for number in range(100)]
ROWS = [{"text": f"text {n}", "label": n, "score": n / 4} for n in range(40)]


def convert(source, target, *arguments, **options):
    """In this process and silently, unless options say something else."""
    return headrace.convert(
        source, target, *arguments, **{"workers": 0, "progress": False, **options}
    )


def write_tfrecord(path, records):
    """A file of framed records, compressed as its name says."""
    path.parent.mkdir(exist_ok=True)
    data = b"".join(map(framed, records))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_tfrecords(folder):
    """Three files with the records, one of them compressed."""
    names = ["a.tfrecord", "b.tfrecord.gz", "c.tfrecord-00000-of-00001"]
    for name, some in zip(names, (RECORDS[:30], RECORDS[30:31], RECORDS[31:])):
        write_tfrecord(folder / name, some)
    return folder


def read(folder):
    """All records of the ArrayRecord files of a folder."""
    with headrace.ArrayRecordDataSource(folder) as source:
        return source.__getitems__(np.arange(len(source)))


def content(folder):
    """All files under a folder, by their bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def flip(path, place):
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)


def _csv(path):
    lines = ["text,label,score", *(f"{row['text']},{row['label']},{row['score']}" for row in ROWS)]
    path.write_text("\n".join(lines))


def _zstd(path):
    from headrace.files.streams import zstd_library as library

    path.write_bytes(library().compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))


WRITE = {
    "x.jsonl.zst": _zstd,
    "x.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
    "x.jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)),
    "x.jsonl.gz": lambda path: path.write_bytes(
        gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode())
    ),
    "x.csv": _csv,
    "x.tfrecord": lambda path: write_tfrecord(path, map(encode_example, ROWS)),
}
"""How files with the rows are written, by their names."""
