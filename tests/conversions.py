"""Conversions to be tested. In: records. Out: files of them, conversions of those, and what is in folders."""

from __future__ import annotations

import gzip

import numpy as np

import millrace
from millrace.formats.tfrecord import framed

RECORDS = [b"record %d " % number * (number % 7) for number in range(100)]


def convert(source, target, *arguments, **options):
    """In this process and silently, unless options say something else."""
    return millrace.convert(source, target, *arguments, **{"workers": 0, "progress": False, **options})


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
    with millrace.ArrayRecordDataSource(folder) as source:
        return source.__getitems__(np.arange(len(source)))


def content(folder):
    """All files under a folder, by their bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
