"""Convert data that a user passes to a source, or raise an error that says what to pass instead.

Other libraries are recognised by the names of their classes. None is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sized
from typing import Any, cast

import numpy as np

from ..common.messages import TEXT, a_kind_of, short_repr
from .arrays.tables import arrays_of, refuse_lists_of_tables
from .memory import MemorySource
from .protocol import DataSource, is_asynchronous, is_hugging_face

_READERS = {
    ".npy": "np.load(path, mmap_mode='r') if its rows are records, or headrace.TokenSource(path) "
    "for documents of tokens",
    ".parquet": "headrace.ParquetDataSource(path)",
    ".lance": "headrace.LanceSource(path)",
    ".idx": "headrace.MegatronSource(path)",
    ".bin": "headrace.MegatronSource(path) where an .idx is beside it, or "
    "headrace.TokenSource(path, dtype=…)",
    ".array_record": "headrace.ArrayRecordDataSource(path)",
    ".tfrecord": "headrace.TFRecordDataSource(path)",
    ".jsonl": "headrace.JsonLinesDataSource(path)",
    ".tar": "headrace.TarDataSource(path)",
    ".txt": "headrace.TextLinesSource(path)",
    ".h5": "headrace.HDF5Source(path)",
    ".hdf5": "headrace.HDF5Source(path)",
    ".zarr": "headrace.ZarrSource(path)",
    ".npz": "headrace.NpzSource(path)",
    ".csv": "the table that pandas.read_csv(path) returns, or headrace.TextLinesSource(path) for "
    "lines to split in a map",
}

_TABLES = {
    "polars.LazyFrame": "what it computes, frame.collect()",
    "pyarrow.RecordBatchReader": "its table, reader.read_all()",
    # first, as it is a pyarrow.Dataset too
    "lance.LanceDataset": "headrace.LanceSource(dataset.uri, version=dataset.version)",
    "pyarrow.Dataset": "headrace.ParquetDataSource(dataset.files), or its table, "
    "dataset.to_table()",
    "torch.DataLoader": "its dataset, loader.dataset, with the batch size in a headrace.Batch",
    "headrace.DataLoader": "the source that it reads, with all operations in one loader: "
    "headrace.load(source, transformations=[function, …])",
    "headrace.IterDataset": "the source from which it is made, or call its own methods in place of "
    "load: stream.map(function).batch(32).mp_prefetch(2)",
    "headrace.Resumable": "the source that its loader reads, because an iterator cannot return a "
    "record by its number",
    "headrace.DeviceLoader": "the source of the loader from which it gets batches",
    "tensorflow.DatasetV2": "its records in a list, list(dataset.as_numpy_iterator()), or files, "
    "with headrace.convert",
    "grain.IterDataset": "the source from which it is made, because a stream cannot return a "
    "record by its number",
    "torch.IterableDataset": "a dataset with __len__ and __getitem__, because a stream cannot "
    "return a record by its number",
    "datasets.IterableDatasetDict": "a split of the dataset loaded without streaming=True",
    "datasets.IterableDataset": "headrace.HuggingFaceStream(dataset), a stream with methods such "
    "as map and batch, or the dataset loaded without streaming=True",
}


def as_source(data: Any) -> DataSource[Any]:
    """Return a source for an object that a user passes.

    | `data` | result |
    |---|---|
    | list, tuple, range, array, dict of arrays | `MemorySource` |
    | table or column of pandas, polars, pyarrow; dict of columns | `MemorySource` of its columns |
    | `datasets.Dataset` | `HuggingFaceDataSource` |
    | dataset, group or file of h5py, in a file | `HDF5Source` |
    | array or group of Zarr, in a file | `ZarrSource` |
    | Dataset or DataArray of xarray | `MemorySource` if it is in memory, else `XarraySource` |
    | a source whose reads are coroutines (`async def`) | `AsyncSource` |
    | any other object with `__len__` and `__getitem__` | `data` itself |

    Raises:
        TypeError: `data` has no random access (a generator, a set, an iterator); or it is a path, a
            class, a loader, a lazy table (`polars.LazyFrame`, `lance.LanceDataset`), a dict of
            datasets, a dict of lists without arrays, a list of record batches, or a tuple of
            columns, `(X, y)`, which must be a dict: `{"x": X, "y": y}`.
        ValueError: a list, tuple, range, array or dict is empty, or its arrays have unequal
            lengths.

    >>> as_source([1, 2, 3])[1]
    2
    """
    refuse_lists_of_tables(data)
    data = arrays_of(data)
    if (opened := _opened_again(data)) is not None:
        return opened
    _refuse_no_source(data)
    if isinstance(data, (list, tuple, range, np.ndarray, Mapping)):
        return MemorySource(data)
    if is_hugging_face(data):
        from .arrow.hugging_face import HuggingFaceDataSource

        return HuggingFaceDataSource(data)
    asynchronous = is_asynchronous(data)
    needed = ("__len__",) if asynchronous else ("__len__", "__getitem__")
    missing = [name for name in needed if not hasattr(type(data), name)]
    if missing:
        listed = (
            "list(data) if it ends and its records fit into memory"
            if _is_iterable(data)
            else "a list or an array"
        )
        raise TypeError(
            f"a data source needs {' and '.join(needed)}, but {type(data).__name__} has no "
            f"{' and no '.join(missing)}. Pass {listed}, or an object of a class with these "
            "methods."
        )
    if asynchronous:
        from .asynchronous.source import AsyncSource

        return AsyncSource(data)
    return cast(DataSource[Any], data)


def _refuse_no_source(data: Any) -> None:
    """Raise TypeError for an object that is no source.

    These are: a path, class, lazy table, stream or loader, a dict of datasets, or one of lists
    without arrays.

    The message says what to pass instead.
    """
    if isinstance(data, (str, bytes, os.PathLike)):
        path = os.fsdecode(data).lower()
        readers = [reader for suffix, reader in _READERS.items() if suffix in path]
        reader = (
            readers[0]
            if readers
            else "the source that reads files of this kind, such as "
            "headrace.ParquetDataSource(path)"
        )
        raise TypeError(
            f"{short_repr(data, TEXT)} is a text or a path, not a source. Pass {reader}."
        )
    if isinstance(data, type):
        raise TypeError(
            f"{data.__name__} is a class, not a source. Pass an instance, {data.__name__}(…)."
        )
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(data).__mro__}
    for kind, remedy in _TABLES.items():
        if kind in kinds:
            what = a_kind_of(data) if kind.startswith("headrace.") else f"a {kind}"
            raise TypeError(f"{what} is not a source of records. Pass {remedy}.")
    if isinstance(data, Mapping) and data and all(map(_is_dataset, data.values())):
        raise TypeError(
            "a dict of datasets is not a source. Pass one of them, "
            f"data[{short_repr(next(iter(data)))}]; or mix them, "
            "headrace.DataLoader(data_source=data, sampler=headrace.MixSampler(data))."
        )
    lists = isinstance(data, Mapping) and all(
        isinstance(value, (list, tuple, range)) for value in data.values()
    )
    if lists and data and not any(map(_has_array, data.values())):  # a tree of columns has some
        raise TypeError(
            "a dict of lists, tuples or ranges is not a source. To pass columns, make them arrays, "
            "{name: np.asarray(column) for name, column in data.items()}. To mix the records of "
            "the lists, pass headrace.DataLoader(data_source=data, "
            "sampler=headrace.MixSampler(data))."
        )


def _opened_again(data: Any) -> DataSource[Any] | None:
    """Return the source of an open dataset, group or array of h5py, Zarr or xarray.

    Return None for any other object.
    """
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "h5py" and kind in ("Dataset", "Group", "File"):
        from .arrays.hdf5 import HDF5Source

        return HDF5Source.of(data)
    if library == "zarr" and kind in ("Array", "Group"):
        from .arrays.zarr import ZarrSource

        return ZarrSource.of(data)
    if library == "xarray" and kind in ("Dataset", "DataArray"):
        from .arrays.xarray import XarraySource

        opened: DataSource[Any] = XarraySource.of(data)
        return opened
    return None


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) or hasattr(value, "__next__")


def _is_dataset(value: Any) -> bool:
    """Return True if a value has `__len__` and `__getitem__` and is no usual container.

    Usual containers are array, list, tuple, range, mapping or text.
    """
    plain = (str, bytes, list, tuple, range, Mapping)
    return (
        isinstance(value, Sized)
        and hasattr(value, "__getitem__")
        and not isinstance(value, plain)
        and not _has_array(value)
    )


def _has_array(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_array, value.values()))
    return (
        any(map(_has_array, value))
        if isinstance(value, (list, tuple))
        else hasattr(value, "__array__")
    )
