"""Compare each source with its library's own read of one random row: CPU time, in turns, on one thread, from the page cache.

    python bench/speed.py reads [--rounds 7] [SOURCE ...]

Both open their files once, and both return what a user would use: a dict of NumPy values, bytes, or an array. The figure is the
library's time divided by the source's: above 1, the source is faster. For TFRecord, the library is `os.pread` at known offsets,
which checks nothing. Parquet is read without a cache of row groups, as if the file were larger than a cache; the sources with
a number of columns have further ways to read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from adapters.files import write_tar
from measuring import cpu_of_each, medians

import headrace
from headrace.formats.tfrecord import FRAME_BYTES, HEADER_BYTES, framed
from headrace.sources import reader_of

COUNT = 4096
GROUP = 64
"""Rows of a row group, chunk or shard page, where the format has them."""
TURN = 256

Read = Callable[[int], Any]
BATCH = 64

More = dict[str, Callable[[int], float]]
"""Further ways to read: each takes a number of rows, and returns seconds of the processor for a row."""


def columns() -> dict[str, Any]:
    """Columns of a table: numbers and a text."""
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {f"n{number}": rng.integers(0, 1000, COUNT) for number in range(4)}
    return {
        **table,
        "x": rng.random(COUNT).astype(np.float32),
        "text": [f"text {row % 977}" * 10 for row in range(COUNT)],
    }


def rows() -> list[dict[str, Any]]:
    """The same as rows of plain Python values."""
    table = columns()
    return [{name: np.asarray(column)[row].item() for name, column in table.items()} for row in range(COUNT)]


def _in_memory(folder: Path) -> tuple[Any, Read]:
    found = rows()
    return headrace.MemorySource(found), found.__getitem__


def _pandas(folder: Path) -> tuple[Any, Read]:
    import pandas as pd

    frame = pd.DataFrame(columns())
    return headrace.sources.as_source(frame), lambda key: frame.iloc[key].to_dict()


def _polars(folder: Path) -> tuple[Any, Read]:
    import polars as pl

    frame = pl.DataFrame(columns())
    return headrace.sources.as_source(frame), lambda key: frame.row(key, named=True)


def _array_record(folder: Path) -> tuple[Any, Read]:
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / "x.array_record"), "group_size:1")
    for row in rows():
        writer.write(json.dumps(row).encode())
    writer.close()
    theirs = ArrayRecordDataSource(str(folder / "x.array_record"))
    return headrace.ArrayRecordDataSource(folder / "x.array_record"), theirs.__getitem__


def _parquet(folder: Path) -> tuple[Any, Read]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns()), folder / "x.parquet", row_group_size=GROUP)
    file = pq.ParquetFile(folder / "x.parquet")

    def theirs(key: int) -> Any:
        return file.read_row_group(key // GROUP, use_threads=False).slice(key % GROUP, 1).to_pylist()[0]

    # Without a cache of row groups, as if the file were larger than the cache.
    return headrace.ParquetDataSource(folder / "x.parquet", cache_bytes=0), theirs


def _lance(folder: Path) -> tuple[Any, Read]:
    import lance as library
    import pyarrow as pa

    dataset = library.write_dataset(pa.table(columns()), folder / "x.lance")
    source = headrace.LanceSource(str(folder / "x.lance"))
    return source, lambda key: dataset.take([key]).to_pylist()[0]


def _hugging_face(folder: Path) -> tuple[Any, Read]:
    from datasets import Dataset

    dataset = Dataset.from_dict(columns())
    return headrace.HuggingFaceDataSource(dataset), dataset.__getitem__


def _hdf5(folder: Path) -> tuple[Any, Read]:
    import h5py

    array = np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(1, 32, 32))
    opened = h5py.File(folder / "x.h5")["x"]
    return headrace.HDF5Source(folder / "x.h5", "x", cache_bytes=1), opened.__getitem__


def _zarr(folder: Path) -> tuple[Any, Read]:
    import zarr as library

    array = np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)
    written = library.create_array(str(folder / "x.zarr"), shape=array.shape, dtype="float32", chunks=(1, 32, 32))
    written[:] = array
    opened = library.open_array(str(folder / "x.zarr"), mode="r")
    return headrace.ZarrSource(folder / "x.zarr", cache_bytes=1), lambda key: opened[key]


def _xarray(folder: Path) -> tuple[Any, Read]:
    import xarray as library

    array = np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)
    data = library.Dataset({"field": (("row", "y", "x"), array)})
    data.to_zarr(folder / "x.zarr", consolidated=False, encoding={"field": {"chunks": (1, 32, 32)}})
    opened = library.open_zarr(folder / "x.zarr", chunks=None, consolidated=False)
    return headrace.XarraySource(opened, cache_bytes=1), lambda key: {"field": opened["field"][key].values}


def _mds(folder: Path) -> tuple[Any, Read]:
    from streaming import LocalDataset, MDSWriter

    array = np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)
    kinds = {"x": "ndarray:float32:32,32", "label": "int", "text": "str"}
    with MDSWriter(out=str(folder), columns=kinds, size_limit=1 << 20) as writer:
        for row in range(COUNT):
            writer.write({"x": array[row], "label": row, "text": "text"})
    return headrace.MdsSource(folder), LocalDataset(str(folder)).get_item


def _litdata(folder: Path) -> tuple[Any, Read]:
    array = np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)
    return _written_by_litdata(folder, [{"x": array[row], "label": row, "text": "text"} for row in range(COUNT)])


def _litdata_of_tables(folder: Path) -> tuple[Any, Read]:
    return _written_by_litdata(folder, rows())


def _written_by_litdata(folder: Path, samples: list[dict[str, Any]]) -> tuple[Any, Read]:
    from litdata import StreamingDataset
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes=1 << 20)
    for key, sample in enumerate(samples):
        writer[key] = sample
    writer.done()
    writer.merge()
    return headrace.LitDataSource(folder), StreamingDataset(str(folder), batch_decode=0).__getitem__


def _json_lines(folder: Path) -> tuple[Any, Read]:
    lines = [json.dumps(row) + "\n" for row in rows()]
    (folder / "x.jsonl").write_text("".join(lines))
    places, file = np.cumsum([0, *map(len, lines)]), open(folder / "x.jsonl", "rb")  # noqa: SIM115

    def theirs(key: int) -> Any:
        file.seek(places[key])
        return json.loads(file.readline())

    return headrace.JsonLinesDataSource(folder / "x.jsonl"), theirs


def _tar(folder: Path) -> tuple[Any, Read]:
    write_tar(((f"{key:05d}.json", json.dumps(row).encode()) for key, row in enumerate(rows())), folder / "x.tar")
    opened = tarfile.open(folder / "x.tar")  # noqa: SIM115
    members = opened.getmembers()

    def theirs(key: int) -> Any:
        file = opened.extractfile(members[key])
        assert file is not None
        return {"json": file.read()}

    return headrace.TarDataSource(folder / "x.tar"), theirs


def _image_folder(folder: Path) -> tuple[Any, Read]:
    (folder / "a").mkdir()
    paths = [folder / "a" / f"{key:05d}.jpg" for key in range(COUNT)]
    for path in paths:
        path.write_bytes(bytes(10_000))
    return headrace.ImageFolderDataSource(folder), lambda key: {"image": paths[key].read_bytes(), "label": 0}


def _tokens(folder: Path) -> tuple[Any, Read]:
    with headrace.TokenWriter(folder / "x.npy", np.uint16) as writer:
        for key in range(COUNT):
            writer.append(np.arange(100 + key % 50, dtype=np.uint16))
    source = headrace.TokenSource(folder / "x.npy")
    ends = np.cumsum([100 + key % 50 for key in range(COUNT)]).tolist()
    stored = np.load(folder / "x.npy", mmap_mode="r")
    return source, lambda key: stored[ends[key] - 100 - key % 50 : ends[key]]


def _tfrecord(size: int, count: int, folder: Path) -> tuple[Any, Read]:
    rng, path = np.random.default_rng(0), folder / "x.tfrecord"
    with open(path, "wb") as file:
        for _ in range(count):
            file.write(framed(rng.bytes(size)))
    began = time.process_time()
    source = headrace.TFRecordDataSource(path)
    print(f"index of TFRecord: {count / (time.process_time() - began):,.0f} records/s")
    descriptor = os.open(path, os.O_RDONLY)
    places = (np.arange(count) * (size + FRAME_BYTES) + HEADER_BYTES).tolist()
    return source, lambda key: os.pread(descriptor, size, places[key])


def _parquet_of_columns(groups: int, columns: int, size: int, folder: Path) -> tuple[Any, Read, More]:
    """Row groups of one size: two of five columns are integers, two are floats, one is text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(number: int, count: int) -> Any:
        rng = np.random.default_rng(number)
        if number % 5 < 2:
            return rng.integers(0, 1000, count)
        texts = number % 5 == 4
        return [f"text {row % 977}" for row in range(count)] if texts else rng.random(count).astype(np.float32)

    table = pa.table({f"c{number}": column(number, groups * size) for number in range(columns)})
    pq.write_table(table, folder / "x.parquet", row_group_size=size)
    file, source = pq.ParquetFile(folder / "x.parquet"), headrace.ParquetDataSource(folder, cache_bytes=0)
    keys = np.random.default_rng(2)

    def group(key: int) -> Any:
        return file.read_row_group(key // size, use_threads=False).slice(key % size, 1)

    def alone(count: int) -> float:
        return cpu_of_each(group, keys.integers(0, groups * size, count).tolist())

    return (
        source,
        lambda key: group(key).to_pylist()[0],
        {"a row group": alone, "in a loader": partial(_loader, source)},
    )


def _loader(source: Any, rows: int) -> float:
    """Rows of shuffled batches of 32, which are read ahead: so it is the time of many of them."""
    with iter(headrace.load(source, shuffle=True, seed=0, batch_size=32, worker_count=0)) as batches:
        return cpu_of_each(len, itertools.islice(batches, max(rows // 32, 100))) / 32


SOURCES: dict[str, Callable[[Path], Any]] = {
    "in_memory": _in_memory,
    "pandas": _pandas,
    "polars": _polars,
    "array_record": _array_record,
    "parquet": _parquet,
    "lance": _lance,
    "hugging_face": _hugging_face,
    "hdf5": _hdf5,
    "zarr": _zarr,
    "xarray": _xarray,
    "mds": _mds,
    "litdata": _litdata,
    "litdata_of_tables": _litdata_of_tables,
    "json_lines": _json_lines,
    "tar": _tar,
    "image_folder": _image_folder,
    "tokens": _tokens,
    **{
        f"tfrecord_{size}": partial(_tfrecord, size, count)
        for size, count in {100: 200_000, 1_000: 100_000, 10_000: 20_000, 100_000: 3_000}.items()
    },
    **{
        f"parquet_{columns}_columns": partial(_parquet_of_columns, groups, columns, size)
        for groups, columns, size in ((1000, 20, 100), (800, 57, 200), (150, 29, 2000))
    },
}


def measured(rounds: int, source: Any, theirs: Read, more: More | None = None) -> dict[str, float]:
    """Microseconds of one row, for each way to read it."""
    many, rng = reader_of(source), np.random.default_rng(1)

    def keys() -> np.ndarray:
        return rng.integers(0, len(source), TURN)

    found = medians(
        rounds,
        {
            "library": lambda: cpu_of_each(theirs, keys().tolist()),
            "alone": lambda: cpu_of_each(source.__getitem__, keys().tolist()),
            "in a batch": lambda: cpu_of_each(many, keys().reshape(-1, BATCH)) / BATCH,
            **{name: partial(read, TURN) for name, read in (more or {}).items()},
        },
    )
    return {name: seconds * 1e6 for name, seconds in found.items()}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", nargs="*", choices=[[], *SOURCES], metavar="SOURCE")
    parser.add_argument("--rounds", type=int, default=7)


def main(options: argparse.Namespace) -> None:
    """Print a line for each source that is named, or for all."""
    for name in options.sources or SOURCES:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(options.rounds, *SOURCES[name](Path(folder)))
        library = found.pop("library")
        figures = ", ".join(f"{way} {time:7.1f} µs ({library / time:.2f} ×)" for way, time in found.items())
        print(f"{name:>18}: library {library:7.1f} µs, source {figures}", flush=True)
