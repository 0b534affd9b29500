"""Files that several libraries read: ArrayRecord, tar and Parquet."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np


def write_array_record(records: Iterable[bytes], folder: Path, name: str = "0") -> None:
    """One ArrayRecord file, of which each record is read alone."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / f"{name}.array_record"), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()


def write_array_record_shards(records: list[list[list[int]]], folder: Path) -> None:
    """Numbers by source and shard, in a file for each shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            write_array_record((str(record).encode() for record in file), folder, f"{source}-{number:03}")


def write_tar(rows: Iterable[tuple[str, bytes]], path: Path) -> None:
    """A tar file in the form of webdataset, of names and contents."""
    with tarfile.open(path, "w") as tar:
        for name, content in rows:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def write_tars(records: Iterator[bytes], folder: Path, files: int = 4) -> None:
    """Tar files of neighbours, with as many records each."""
    rows = list(records)
    for file, places in enumerate(np.array_split(np.arange(len(rows)), files)):
        write_tar(((f"{place:07}.bin", rows[place]) for place in places), folder / f"{file:03}.tar")


def write_parquet(records: Iterator[int], folder: Path, files: int = 4) -> None:
    """Parquet files of neighbours, in row groups of 10,000."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file, part in enumerate(np.array_split(np.array(list(records)), files)):
        table = pa.table({"number": part.astype(np.int64), "value": part.astype(np.float32) / 2})
        pq.write_table(table, folder / f"{file:03}.parquet", row_group_size=10_000)
