"""What people pass as a source and is none, though it may look like one; and what to write instead.

In: any object. Out: nothing, or an error. Other libraries are told by the names of their classes: none is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..wording import TEXT, shown

_READERS = {
    ".npy": "np.load(path, mmap_mode='r') if its rows are records, or millrace.TokenSource(path) for documents of tokens",
    ".parquet": "millrace.ParquetDataSource(path)",
    ".array_record": "millrace.ArrayRecordDataSource(path)",
    ".tfrecord": "an ArrayRecord file with its records: TFRecord files have no random access. TFDS writes one with "
    "file_format='array_record', for millrace.TfdsDataSource(name, split)",
}

_TABLES = {
    ("pandas", "DataFrame"): "its columns, {name: table[name].to_numpy() for name in table}",
    ("pandas", "Series"): "its array, series.to_numpy()",
    ("polars", "DataFrame"): "its columns, {name: table[name].to_numpy() for name in table.columns}",
    ("pyarrow", "Table"): "its columns, {name: table[name].to_numpy() for name in table.column_names}",
    ("torch", "DataLoader"): "its dataset, loader.dataset, with the batch size in a millrace.Batch",
    (
        "torch",
        "IterableDataset",
    ): "a dataset with __len__ and __getitem__: a place in a stream must be found without reading",
    ("datasets", "IterableDatasetDict"): "a split of the dataset loaded without streaming=True",
    (
        "datasets",
        "IterableDataset",
    ): "the dataset loaded without streaming=True: a place in it must be found without reading",
}


def refuse_no_source(data: Any) -> None:
    """Raise for a path, a table or a dict of datasets.

    Raises:
        TypeError: it is one; the message says what to write instead.
    """
    if isinstance(data, (str, bytes, os.PathLike)):
        raise TypeError(f"{shown(data, TEXT)} is a path, not a source; pass {_reader_of(os.fsdecode(data))}.")
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__}
    for kind, remedy in _TABLES.items():
        if kind in kinds:
            raise TypeError(f"a {'.'.join(kind)} is no source of records; pass {remedy}.")
    if isinstance(data, Mapping) and data and all(map(_is_dataset, data.values())):
        raise TypeError(
            f"a dict of datasets is no source; pass one of them, data[{shown(next(iter(data)))}], or mix them: "
            "sampler=millrace.MixSampler(data, weights=…)."
        )


def _reader_of(path: str) -> str:
    """What reads the files of a path."""
    found = [reader for suffix, reader in _READERS.items() if suffix in path.lower()]
    return found[0] if found else "what reads it, millrace.ArrayRecordDataSource(path) or ParquetDataSource(path)"


def _is_dataset(value: Any) -> bool:
    """Whether it gives records by number and is none of the containers that hold leaves."""
    plain = (str, bytes, list, tuple, range, Mapping)
    is_array = hasattr(value, "__array__")
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not is_array and not isinstance(value, plain)
