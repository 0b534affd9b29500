"""Compare each source with its library's own read of one random row: CPU time, in turns, on one thread, from the page cache.

    python benchmarks/rows.py [--rounds 7] [SOURCE ...]

Both open their files once, and both return what a user would use: a dict of NumPy values, bytes, or an array. The figure is the
library's time divided by the source's: above 1, the source is faster.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import headrace
from headrace.sources import reader_of

COUNT = 4096
GROUP = 64
"""Rows of a row group, chunk or shard page, where the format has them."""
TURN = 256

Read = Callable[[int], Any]
BATCH = 64


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
    with tarfile.open(folder / "x.tar", "w") as file:
        for key, row in enumerate(rows()):
            data = json.dumps(row).encode()
            member = tarfile.TarInfo(f"{key:05d}.json")
            member.size = len(data)
            file.addfile(member, BytesIO(data))
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


SOURCES = [
    _in_memory,
    _pandas,
    _polars,
    _array_record,
    _parquet,
    _lance,
    _hugging_face,
    _hdf5,
    _zarr,
    _xarray,
    _mds,
    _litdata,
    _litdata_of_tables,
    _json_lines,
    _tar,
    _image_folder,
    _tokens,
]


def seconds(read: Read, keys: list[int]) -> float:
    """CPU time of one row, if each is read by a call."""
    began = time.process_time()
    for key in keys:
        read(key)
    return (time.process_time() - began) / len(keys)


def seconds_in_batches(read: Callable[[np.ndarray], Any], keys: list[int]) -> float:
    """CPU time of one row, if a call reads a batch, as a loader does."""
    began = time.process_time()
    for batch in np.array(keys).reshape(-1, BATCH):
        read(batch)
    return (time.process_time() - began) / len(keys)


def measured(source: Any, theirs: Read, rounds: int) -> dict[str, float]:
    """Microseconds of one row, for each way to read it."""
    many = reader_of(source)
    contenders = {
        "library": lambda keys: seconds(theirs, keys),
        "alone": lambda keys: seconds(source.__getitem__, keys),
        "in a batch": lambda keys: seconds_in_batches(many, keys),
    }
    rng, order = np.random.default_rng(1), list(contenders)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(3 * rounds):
        for name in (order * 2)[turn % 3 :][:3]:
            times[name].append(contenders[name](rng.integers(0, COUNT, TURN).tolist()))
    return {name: median(each[2:]) * 1e6 for name, each in times.items()}


def main(names: list[str], rounds: int) -> None:
    """Prints a line for each source."""
    for make in SOURCES:
        name = make.__name__[1:]
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = measured(*make(Path(folder)), rounds)
        figures = ", ".join(
            f"{way} {found[way]:7.1f} µs ({found['library'] / found[way]:.2f} ×)" for way in ("alone", "in a batch")
        )
        print(f"{name:>12}: library {found['library']:7.1f} µs, source {figures}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    main(given.sources, given.rounds)
