"""Files that several libraries and measurements share. Needs NumPy, and what writes a format."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def write_array_record(
    records: Iterable[bytes], folder: Path, name: str = "0", options: str = "group_size:1"
) -> str:
    """One ArrayRecord file, of which each record is read alone; its path."""
    from array_record.python.array_record_module import ArrayRecordWriter

    path = str(folder / f"{name}.array_record")
    writer = ArrayRecordWriter(path, options)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def write_array_record_shards(records: list[list[list[int]]], folder: Path) -> None:
    """Numbers by source and shard, in a file for each shard."""
    for source, files in enumerate(records):
        for number, file in enumerate(files):
            lines = (str(record).encode() for record in file)
            write_array_record(lines, folder, f"{source}-{number:03}")


def write_tfrecord(records: Iterable[bytes], path: Path) -> None:
    """A TFRecord file."""
    from headrace.formats.tfrecord import framed

    with open(path, "wb") as file:
        file.writelines(map(framed, records))


def write_tar(rows: Iterable[tuple[str, bytes]], path: Path) -> None:
    """A tar file in the form of webdataset, of names and contents."""
    with tarfile.open(path, "w") as tar:
        for name, content in rows:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def write_tars(records: Iterable[bytes], folder: Path, files: int = 4) -> None:
    """Tar files of neighbours, with as many records each."""
    rows = list(records)
    for file, places in enumerate(np.array_split(np.arange(len(rows)), files)):
        write_tar(((f"{place:07}.bin", rows[place]) for place in places), folder / f"{file:03}.tar")


def write_parquet(records: Iterable[int], folder: Path, files: int = 4) -> None:
    """Parquet files of neighbours, in row groups of 10,000."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file, part in enumerate(np.array_split(np.array(list(records)), files)):
        table = pa.table({"number": part.astype(np.int64), "value": part.astype(np.float32) / 2})
        pq.write_table(table, folder / f"{file:03}.parquet", row_group_size=10_000)


def write_array(workload: Any, records: Iterable[Any], folder: Path) -> None:
    """Rows of one shape become one array; others are joined, and the end of each is stored."""
    rows = [np.frombuffer(row, np.uint8) if isinstance(row, bytes) else row for row in records]
    if rows[0].ndim > 1:
        np.save(folder / "rows.npy", np.stack(rows))
    else:
        np.save(folder / "rows.npy", np.concatenate(rows))
        np.save(folder / "ends.npy", np.cumsum([len(row) for row in rows]))


class Rows:
    """What `write_array` has written: rows of one shape in memory, others in a mapped file."""

    def __init__(self, folder: Path) -> None:
        ends = folder / "ends.npy"
        self.ends = np.load(ends) if ends.exists() else None
        mode = None if self.ends is None else "r"
        self.rows = np.asarray(np.load(folder / "rows.npy", mmap_mode=mode))

    def __len__(self) -> int:
        return len(self.rows if self.ends is None else self.ends)

    def __getitem__(self, index: int) -> Any:
        if self.ends is None:
            return self.rows[index]
        return self.rows[self.ends[index - 1] if index else 0 : self.ends[index]]


def as_jpeg(pixels: Any, **options: Any) -> bytes:
    """A JPEG file; the options are Pillow's."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def jpegs(parts: Iterable[Any], **options: Any) -> Iterator[bytes]:
    """Parts of the two photographs that come with scikit-learn."""
    from sklearn.datasets import load_sample_images

    for photograph in load_sample_images().images:
        yield from (as_jpeg(photograph[part], **options) for part in parts)
