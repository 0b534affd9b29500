"""Formats of input files: find the format of a file by its name, and open files.

The library of a format is imported when its first file is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import sources
from ...common.messages import first_few, short_repr, shorten
from ...errors import ConversionError, SourceError
from ...files.opened import local_copy
from ...files.paths import file_system_of
from ...files.storage_options import StorageOptions
from ...files.streams import open_stream
from ...files.urls import is_remote, name_of
from ...sources.facts import SourceFacts, facts_of
from ...sources.tokens.files import map_npy, offsets_path
from ..job import OnDamage

COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")

Records = Iterator[tuple[int, Any]]
"""Iterator of records, each with its place in the file."""


@dataclass(frozen=True)
class Opening:
    """Arguments for opening files, besides their paths.

    Attributes:
        types: type of each column of CSV files.
        index_dir: folder for indices of files that are read with random access.
        storage: how files in a store are reached.
        max_expansion: maximum ratio of unpacked to compressed size of a file.
        document_length: length of the documents into which `.npy` files with one axis are divided;
            None: not divided.
    """

    types: Mapping[str, str]
    index_dir: str
    storage: StorageOptions
    max_expansion: int
    document_length: int | None = None


@dataclass(frozen=True)
class Format:
    """File format. It is read as a stream, by a source with random access, or in both ways.

    Attributes:
        name: name of the format.
        suffixes: suffixes of file names. A compression suffix, or a number as in
            `.tfrecord-00000-of-00010`, may follow.
        place: unit of a record's place in a stream: "byte", "line" or "record".
        stream: module whose `read_records` reads a stream; None: files are not read as streams.
        source: function that opens a file as a source with random access; None: there is no such
            source.
        schema: function that returns the Arrow schema of a file, or None. For formats whose schema
            is known without reading records.
        encode: how records that are not bytes are encoded: "example" or "json".
    """

    name: str
    suffixes: tuple[str, ...]
    place: str  # what a record's place counts, in a stream
    stream: str | None = None
    source: Callable[[Any, Opening], Any] | None = None
    schema: Callable[[str, Opening], Any] | None = None
    encode: str = "example"

    @property
    def all_files(self) -> Callable[[list[str], Opening], Any] | None:
        """Function that opens several files as one source, as a loader would read them.

        It is None if there is no such function.
        """
        return _tokens if self.name == "npy" else self.source

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of the files that are read from a folder."""
        ends = ("", "-*-of-*", *(COMPRESSED if self.stream is not None else ()))
        return tuple(f"*{suffix}{end}" for suffix in self.suffixes for end in ends)

    def records(self, path: str, opening: Opening, on_damage: OnDamage) -> Records:
        """Yield all records of a file that is read as a stream.

        Args:
            path: path or URL of the file.
            opening: arguments for opening files.
            on_damage: function that is called with the error for each record that is skipped. None:
                the error is raised.
        """
        assert self.stream is not None, self.name
        read = import_module(self.stream, __package__).read_records
        types = {"types": opening.types} if self.name == "csv" else {}
        with open_stream(path, "auto", opening.storage, opening.max_expansion) as stream:
            yield from read(stream, path, on_damage=on_damage, **types)


def _of_class(name: str, path: Any, opening: Opening, **more: Any) -> Any:
    return getattr(sources, name)(path, storage_options=opening.storage, **more)


def _indexed(name: str, path: Any, opening: Opening) -> Any:
    return _of_class(name, path, opening, index_dir=opening.index_dir)


def _parquet_schema(path: str, opening: Opening) -> Any:
    if is_remote(path):
        return None
    from ...sources.arrow.inspection import schema_of_file

    return schema_of_file(path)


def _npy(path: str, opening: Opening) -> Any:
    """Open a `.npy` file as a source: documents if a `TokenWriter` wrote it.

    Otherwise rows, or pieces of one length.
    """
    if file_system_of(path, opening.storage).is_file(offsets_path(path)):
        return sources.TokenSource(path, storage_options=opening.storage)
    return (NpyRows if opening.document_length is None else NpyPieces)(path, opening)


def _tokens(paths: list[str], opening: Opening) -> Any:
    """Open `.npy` files as one source of documents.

    Return None if a `TokenWriter` did not write them.
    """
    storage = opening.storage
    if not all(file_system_of(path, storage).is_file(offsets_path(path)) for path in paths):
        return None
    return sources.TokenSource(paths, storage_options=opening.storage)


def _npy_schema(path: str, opening: Opening) -> Any:
    from .from_source import schema_of_columns

    return schema_of_columns(facts_of(_npy(path, opening)).columns())


class NpyRows:
    """Source of the rows of an array in a mapped `.npy` file.

    Raises:
        SourceError: the file is not a `.npy` file, is cut off, or contains a single number or
            Python objects.

    Attributes:
        columns: the array.
    """

    columns: npt.NDArray[Any]

    def __init__(self, path: str, opening: Opening) -> None:
        with local_copy(path, opening.storage) as copy:
            self.columns = map_npy(copy, path, "Save an array without Python objects by np.save")
        if not self.columns.ndim:
            raise SourceError(
                f"{shorten(path)} contains a single number, not an array with rows. Save an array "
                "that has at least one axis."
            )

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(array_keys=True, columns=lambda: self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, key: int) -> Any:
        return np.array(self.columns[key])

    def __getitems__(self, keys: npt.NDArray[np.int64]) -> list[Any]:
        return list(np.asarray(self.columns[keys]))


class NpyPieces:
    """Source of pieces of one length of an array with one axis. The last piece may be shorter.

    Raises:
        ConversionError: the array has several axes.
    """

    def __init__(self, path: str, opening: Opening) -> None:
        self._array, self._length = NpyRows(path, opening).columns, opening.document_length or 1
        if self._array.ndim != 1:
            raise ConversionError(
                f"{shorten(path)} contains an array of shape {self._array.shape}, but "
                "document_length= is for arrays with one axis. If each row is a document, leave "
                "document_length= out. Otherwise save array.reshape(-1)."
            )

    def __len__(self) -> int:
        return -(-len(self._array) // self._length)

    def __getitem__(self, key: int) -> Any:
        return np.array(self._array[key * self._length : (key + 1) * self._length])


_TFRECORD, _TAR, _JSON_LINES = (f"...formats.{name}" for name in ("tfrecord", "tar", "json_lines"))
_TABLE = (
    Format(
        "tfrecord",
        (".tfrecord", ".tfrecords"),
        "byte",
        _TFRECORD,
        partial(_indexed, "TFRecordDataSource"),
    ),
    Format("tar", (".tar",), "byte", _TAR, partial(_indexed, "TarDataSource")),
    Format(
        "json_lines",
        (".jsonl", ".ndjson"),
        "byte",
        _JSON_LINES,
        partial(_indexed, "JsonLinesDataSource"),
        encode="json",
    ),
    Format("csv", (".csv",), "line", ".comma_separated"),
    Format(
        "parquet",
        (".parquet", ".parq", ".pq"),
        "record",
        None,
        partial(_of_class, "ParquetDataSource"),
        _parquet_schema,
    ),
    Format(
        "array_record",
        (".array_record", ".arrayrecord"),
        "record",
        None,
        partial(_of_class, "ArrayRecordDataSource"),
    ),
    Format("npy", (".npy",), "record", None, _npy, _npy_schema),
)
FORMATS = {format.name: format for format in _TABLE}


def split_name(name: str) -> tuple[str, str, str]:
    """Split a file name into its stem, the suffix of its format, and the number after it.

    A compression suffix is dropped.

    >>> split_name("mnist-train.tfrecord-00000-of-00010")
    ('mnist-train', '.tfrecord', '-00000-of-00010')
    >>> split_name("a.jsonl.gz"), split_name("README")
    (('a', '.jsonl', ''), ('README', '', ''))
    """
    bare, end = os.path.splitext(name)
    if end.lower() in COMPRESSED:
        name = bare
    known = [suffix for format in _TABLE for suffix in format.suffixes]
    for suffix in sorted(known, key=len, reverse=True):
        stem, found, rest = name.rpartition(suffix)
        if found and stem and (not rest or rest.startswith("-")):
            return stem, suffix, rest
    return name, "", ""


def format_of(names: list[str]) -> Format:
    """Return the format of files, determined from their names.

    Raises:
        ConversionError: the format cannot be determined, or the files have several formats.
    """
    suffixes = {split_name(name_of(name))[1] for name in names}
    found = [format for format in _TABLE if suffixes.intersection(format.suffixes)]
    if len(found) == 1 and "" not in suffixes:
        return found[0]
    known = {suffix for format in found for suffix in format.suffixes}
    unknown = next((name for name in names if split_name(name_of(name))[1] not in known), "")
    several = f"files of several formats: {first_few(sorted(format.name for format in found))}"
    raise ConversionError(
        f"{several if len(found) > 1 else f'the format of {short_repr(unknown)} is unknown'}. Pass "
        f"only files of one format, and its name as source_format= (--from): {', '.join(FORMATS)}."
    )
