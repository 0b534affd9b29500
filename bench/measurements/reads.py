"""Compare each source with its library's own read of one random row: CPU time, in turns, on one
thread, from the page cache.

    python bench/speed.py reads [--rounds 7] [TABLE …]

Both open their files once, and both return what a user would use: a dict of NumPy values, bytes, or
an array. The ratio is the library's time divided by the source's: above 1, the source is faster.
For TFRecord, the library is `os.pread` at known offsets, which checks nothing. Parquet is read
without a cache of row groups, as if the file were larger than a cache.
"""

from __future__ import annotations

import itertools
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module as imported
from pathlib import Path
from typing import Any

import numpy as np
from loaders.files import write_array_record, write_tar, write_tfrecord
from measurement import Table
from measuring import processor_rate

import headrace
from headrace.formats.tfrecord import FRAME_BYTES, HEADER_BYTES
from headrace.sources import reader_of

OPTIONS = {"rounds": 7}
COUNT, BATCH, TURN = 4096, 64, 256
KINDS = "iiiifT"

Found = tuple[Any, Callable[[int], Any], dict[str, Any]]
"""A source, the library's read of the row of a key, and further contenders."""


def columns(kinds: str = KINDS, count: int = COUNT) -> dict[str, Any]:
    """A column for each letter: integers, floats, texts or longer Texts."""
    rng = np.random.default_rng(0)
    make: dict[str, Callable[[], Any]] = {
        "i": lambda: rng.integers(0, 1000, count),
        "f": lambda: rng.random(count).astype(np.float32),
        "t": lambda: [f"text {row % 977}" for row in range(count)],
        "T": lambda: [f"text {row % 977}" * 10 for row in range(count)],
    }
    return {f"{kind}{number}": make[kind]() for number, kind in enumerate(kinds)}


def rows() -> list[dict[str, Any]]:
    """The same as rows of plain Python values."""
    table = {name: np.asarray(column).tolist() for name, column in columns().items()}
    return [dict(zip(table, values)) for values in zip(*table.values())]


def arrays() -> Any:
    """Rows of 4 KB."""
    return np.random.default_rng(0).random((COUNT, 32, 32)).astype(np.float32)


def samples() -> list[dict[str, Any]]:
    """Each such a row, a number and a text."""
    return [{"x": array, "label": row, "text": "text"} for row, array in enumerate(arrays())]


def _in_memory(folder: Path) -> Found:
    found = rows()
    return headrace.MemorySource(found), found.__getitem__, {}


def _pandas(folder: Path) -> Found:
    frame = imported("pandas").DataFrame(columns())
    return headrace.sources.as_source(frame), lambda key: frame.iloc[key].to_dict(), {}


def _polars(folder: Path) -> Found:
    frame = imported("polars").DataFrame(columns())
    return headrace.sources.as_source(frame), lambda key: frame.row(key, named=True), {}


def _array_record(folder: Path) -> Found:
    theirs = imported("array_record.python.array_record_data_source").ArrayRecordDataSource
    path = write_array_record((json.dumps(row).encode() for row in rows()), folder)
    return headrace.ArrayRecordDataSource(path), theirs(path).__getitem__, {}


def _parquet(kinds: str, groups: int, size: int, folder: Path) -> Found:
    pa, pq = imported("pyarrow"), imported("pyarrow.parquet")
    path = folder / "x.parquet"
    pq.write_table(pa.table(columns(kinds, groups * size)), path, row_group_size=size)
    file, source = pq.ParquetFile(path), headrace.ParquetDataSource(path, cache_bytes=0)
    keys = np.random.default_rng(2)
    order = {"shuffle": True, "seed": 0, "batch_size": 32, "worker_count": 0}

    def group(key: int) -> Any:
        return file.read_row_group(key // size, use_threads=False).slice(key % size, 1)

    def loaded() -> float:  # its threads read ahead: so it is the time of many rows
        with iter(headrace.load(source, **order)) as batches:
            return 32 * processor_rate(len, itertools.islice(batches, 100))

    def decoded() -> float:
        return processor_rate(group, keys.integers(0, groups * size, TURN).tolist())

    ways = {"library, a row group decoded": decoded, "source, in a loader, batches of 32": loaded}
    return source, lambda key: group(key).to_pylist()[0], ways


def _lance(folder: Path) -> Found:
    table = imported("pyarrow").table(columns())
    dataset = imported("lance").write_dataset(table, folder / "x.lance")
    source = headrace.LanceSource(str(folder / "x.lance"))
    return source, lambda key: dataset.take([key]).to_pylist()[0], {}


def _hugging_face(folder: Path) -> Found:
    dataset = imported("datasets").Dataset.from_dict(columns())
    return headrace.HuggingFaceDataSource(dataset), dataset.__getitem__, {}


def _hdf5(folder: Path) -> Found:
    h5py = imported("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=arrays(), chunks=(1, 32, 32))
    source = headrace.HDF5Source(folder / "x.h5", "x", cache_bytes=1)
    return source, h5py.File(folder / "x.h5")["x"].__getitem__, {}


def _zarr(folder: Path) -> Found:
    library = imported("zarr")
    library.create_array(str(folder / "x.zarr"), data=arrays(), chunks=(1, 32, 32))
    opened = library.open_array(str(folder / "x.zarr"), mode="r")
    return headrace.ZarrSource(folder / "x.zarr", cache_bytes=1), opened.__getitem__, {}


def _xarray(folder: Path) -> Found:
    library = imported("xarray")
    data = library.Dataset({"field": (("row", "y", "x"), arrays())})
    data.to_zarr(folder / "x.zarr", consolidated=False, encoding={"field": {"chunks": (1, 32, 32)}})
    opened = library.open_zarr(folder / "x.zarr", chunks=None, consolidated=False)
    source = headrace.XarraySource(opened, cache_bytes=1)
    return source, lambda key: {"field": opened["field"][key].values}, {}


def _mds(folder: Path) -> Found:
    library = imported("streaming")
    kinds = {"x": "ndarray:float32:32,32", "label": "int", "text": "str"}
    with library.MDSWriter(out=str(folder), columns=kinds, size_limit=1 << 20) as writer:
        for sample in samples():
            writer.write(sample)
    return headrace.MdsSource(folder), library.LocalDataset(str(folder)).get_item, {}


def _litdata(make: Callable[[], list[dict[str, Any]]], folder: Path) -> Found:
    writer = imported("litdata.streaming.writer").BinaryWriter(str(folder), chunk_bytes=1 << 20)
    for key, sample in enumerate(make()):
        writer[key] = sample
    writer.done()
    writer.merge()
    theirs = imported("litdata").StreamingDataset(str(folder), batch_decode=0).__getitem__
    return headrace.LitDataSource(folder), theirs, {}


def _json_lines(folder: Path) -> Found:
    lines = [json.dumps(row) + "\n" for row in rows()]
    (folder / "x.jsonl").write_text("".join(lines))
    places, file = np.cumsum([0, *map(len, lines)]), open(folder / "x.jsonl", "rb")  # noqa: SIM115

    def theirs(key: int) -> Any:
        file.seek(places[key])
        return json.loads(file.readline())

    return headrace.JsonLinesDataSource(folder / "x.jsonl"), theirs, {}


def _tar(folder: Path) -> Found:
    path = folder / "x.tar"
    files = ((f"{key:05d}.json", json.dumps(row).encode()) for key, row in enumerate(rows()))
    write_tar(files, path)
    opened = tarfile.open(path)  # noqa: SIM115
    members, source = opened.getmembers(), headrace.TarDataSource(path)
    return source, lambda key: {"json": opened.extractfile(members[key]).read()}, {}


def _image_folder(folder: Path) -> Found:
    (folder / "a").mkdir()
    paths = [folder / "a" / f"{key:05d}.jpg" for key in range(COUNT)]
    for path in paths:
        path.write_bytes(bytes(10_000))
    source = headrace.ImageFolderDataSource(folder)
    return source, lambda key: {"image": paths[key].read_bytes(), "label": 0}, {}


def _tokens(folder: Path) -> Found:
    lengths = [100 + key % 50 for key in range(COUNT)]
    with headrace.TokenWriter(folder / "x.npy", np.uint16) as writer:
        writer.extend(np.arange(length, dtype=np.uint16) for length in lengths)
    ends, stored = np.cumsum([0, *lengths]).tolist(), np.load(folder / "x.npy", mmap_mode="r")
    source = headrace.TokenSource(folder / "x.npy")
    return source, lambda key: stored[ends[key] : ends[key + 1]], {}


def _tfrecord(size: int, count: int, folder: Path) -> Found:
    rng, path = np.random.default_rng(0), folder / "x.tfrecord"
    write_tfrecord((rng.bytes(size) for _ in range(count)), path)
    began = time.process_time()
    source = headrace.TFRecordDataSource(path)
    indexed = {"records indexed": count / (time.process_time() - began)}
    descriptor = os.open(path, os.O_RDONLY)
    places = (np.arange(count) * (size + FRAME_BYTES) + HEADER_BYTES).tolist()
    return source, lambda key: os.pread(descriptor, size, places[key]), indexed


TABULAR = (_in_memory, _pandas, _polars, _array_record, _lance, _hugging_face, _json_lines, _tar)
ARRAYS = (_hdf5, _zarr, _xarray, _mds, _image_folder, _tokens)
SIZES = {100: 200_000, 1_000: 100_000, 10_000: 20_000, 100_000: 3_000}
SOURCES: dict[str, Callable[[Path], Found]] = {
    **{each.__name__.removeprefix("_"): each for each in TABULAR + ARRAYS},
    "litdata": partial(_litdata, samples),
    "litdata_of_tables": partial(_litdata, rows),
    **{f"tfrecord_{size}": partial(_tfrecord, size, count) for size, count in SIZES.items()},
    "parquet": partial(_parquet, KINDS, COUNT // 64, 64),
    "parquet_20_columns": partial(_parquet, "iifft" * 4, 1000, 100),
    "parquet_57_columns": partial(_parquet, ("iifft" * 12)[:57], 800, 200),
    "parquet_29_columns": partial(_parquet, ("iifft" * 6)[:29], 150, 2000),
}


def reads(name: str, options: Any) -> Iterator[Table]:
    """Rows for each second of the processor, for each way to read them."""
    with tempfile.TemporaryDirectory() as folder:
        opened, theirs, ways = SOURCES[name](Path(folder))
        many, rng = reader_of(opened), np.random.default_rng(1)

        def keys() -> np.ndarray:
            return rng.integers(0, len(opened), TURN)

        contenders = {
            "library": lambda: processor_rate(theirs, keys().tolist()),
            "source, alone": lambda: processor_rate(opened.__getitem__, keys().tolist()),
            "source, in a batch of 64": lambda: (
                BATCH * processor_rate(many, keys().reshape(-1, BATCH))
            ),
        }
        title = f"{name} (rows for each second of the processor)"
        yield Table(title, contenders | ways, "more")


TABLES = {name: partial(reads, name) for name in SOURCES}
