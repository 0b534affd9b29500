"""Measure the lengths of records by reading all of them once, and store the lengths in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from ..common.costs import as_length, length_of_field
from ..common.identity.functions import function_identity
from ..common.messages import a_kind_of, short_repr, shorten
from ..errors import ConversionError
from ..files.paths import PathLike
from ..files.urls import is_remote
from ..formats.example import decode_example
from ..formats.index import SUFFIX
from ..loader import DataLoader
from ..operations import Batch, MapWithIndexTransform
from ..samplers import IndexSampler
from ..sources import ArrayRecordDataSource, BytesSource, ParquetDataSource, TokenSource, as_source
from ..sources.lengths import BYTES, keep_lengths, lengths_in_file, lengths_of

_AT_A_TIME = 1024


def measure_lengths(
    source: Any,
    function: Callable[[Any], Any] | str,
    path: PathLike | None = None,
    *,
    worker_count: int | None = 0,
    progress: bool = True,
) -> npt.NDArray[np.int64]:
    """Measure the length of each record. All records are read once.

    Args:
        source: anything that `DataLoader` accepts as a source.
        function: function that takes a record and returns its length, a whole number; or the name
            of a field. The length of a field is the length of its array, list or text, or the
            number in the field.
        path: file in which the lengths are stored. If it contains the lengths of this source and
            function, no record is read; otherwise it is replaced. Pass it to other functions as
            `lengths=pathlib.Path(path)`. None (default): no file.
        worker_count: as in `DataLoader`. 0 (default): the calling thread reads the records.
        progress: True (default): show a progress bar if standard error is a terminal.

    Returns:
        `int64[len(source)]`, in the order of keys.

    Raises:
        TypeError: `function` is neither a function nor a name.
        LengthsError: a length is not a whole number of at least 0, or a record has no such field.
            The message names the record.
        OutputError: the file cannot be written.

    The source of a stored file is recognised by its fingerprint. If your own source class has no
    attribute `fingerprint`, that is the name of the class and the number of records.

    >>> import headrace
    >>> headrace.measure_lengths(["one", "three"], len)
    array([3, 5])
    """
    records = as_source(source)
    if not callable(function) and not isinstance(function, str):
        raise TypeError(
            f"function={short_repr(function)} is {a_kind_of(function)}. Pass a function that takes "
            "a record, or the name of a field."
        )
    kept = None if path is None else lengths_in_file(path, records, function)
    if kept is not None:
        return kept
    identity = function_identity(function)
    lengths = np.empty(len(records), np.int64)
    loader = DataLoader(
        data_source=records,
        sampler=IndexSampler(len(records), num_epochs=1),
        operations=[_Length(function), Batch(_AT_A_TIME)],
        worker_count=worker_count,
    )
    done = 0
    with (
        iter(loader) as batches,
        tqdm(total=len(records), unit=" records", disable=None if progress else True) as bar,
    ):
        for batch in batches:
            lengths[done : done + len(batch)] = batch
            done += len(batch)
            bar.update(len(batch))
    if path is not None:
        keep_lengths(path, records, identity, lengths)
    return lengths


class _Length(MapWithIndexTransform):
    """Operation that maps a record to its length."""

    def __init__(self, function: Callable[[Any], Any] | str) -> None:
        self._measure = (
            partial(_field, function) if isinstance(function, str) else partial(_by, function)
        )

    def map_with_index(self, index: int, element: Any) -> Any:
        """Return the length of a record, `element`, whose key is `index`."""
        return np.int64(self._measure(element, index))


def _field(name: str, element: Any, key: int) -> int:
    return length_of_field(element, name, key)


def _by(function: Callable[[Any], Any], element: Any, key: int) -> int:
    return (
        function(element, key)
        if isinstance(function, _ConvertedField)
        else as_length(function(element), key)
    )


LENGTHS = f"lengths{SUFFIX}"
"""Name of the file of lengths in a folder of converted files."""


def measure_converted(
    target: str, to: str, name: str, worker_count: int | None = 0, progress: bool = True
) -> str:
    """Measure the lengths of converted records, and store them beside the files.

    Records of ArrayRecord files and of bytes are not read again if their lengths are stored
    already.

    Args:
        target: folder of the converted files.
        to: format of the files: "array_record", "bytes", "parquet" or "tokens".
        name: name of a field. If records are bytes, "bytes" means their sizes, and any other name
            needs records that are `tf.train.Example`s or JSON. For tokens, the name is not used: a
            length is the number of tokens.
        worker_count: as in `measure_lengths`.
        progress: as in `measure_lengths`.

    Returns:
        The path of the file of lengths.

    Raises:
        ConversionError: the target is in a store.
        LengthsError: a record has no such field, or the field has no length.
    """
    if is_remote(target):
        raise ConversionError(
            f"--lengths {name}: the target {shorten(target)} is in an object store, but lengths "
            "can be written to local folders only. Leave --lengths out, or convert into a local "
            "folder."
        )
    path = os.path.join(target, LENGTHS)
    if to in ("array_record", "bytes"):
        function: Any = len if name == BYTES else _ConvertedField(name)
        records = ArrayRecordDataSource(target) if to == "array_record" else BytesSource(target)
        measure_lengths(records, function, path, worker_count=worker_count, progress=progress)
    else:
        source = ParquetDataSource(target) if to == "parquet" else TokenSource(target)
        keep_lengths(
            path,
            source,
            function_identity(name),
            lengths_of(source, name if to == "parquet" else None),
        )
    return path


class _ConvertedField:
    """Function of a record of bytes and its key, which returns the length of a field.

    The record is JSON or an example.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, record: bytes, key: int) -> int:
        is_json = record.lstrip()[:1] in (b"{", b"[")
        return length_of_field(
            json.loads(record) if is_json else decode_example(record), self.name, key
        )
