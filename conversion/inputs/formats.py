"""The formats of files that are read. In: a format's name, or that of a file. Out: what opens a file of it, from begin to end.

Each format's library is imported when the first file is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from ... import sources
from ...common.messages import first_few, short_repr
from ...errors import ConversionError
from ...files.paths import file_system_of
from ...files.storage_options import StorageOptions
from ...files.streams import MAX_EXPANSION, open_stream
from ...files.urls import is_remote, name_of
from ...sources.tokens.files import offsets_path
from ..job import OnDamage

COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")

Records = Iterator[tuple[int, Any]]
"""Records with their places."""


@dataclass(frozen=True)
class Opening:
    """The arguments to open files with, besides their paths."""

    types: Mapping[str, str]
    """Of the columns of CSV files."""
    index_dir: str
    """Where indices are kept, of files that are read at random."""
    storage: StorageOptions
    max_expansion: int = MAX_EXPANSION
    """How many times its size a compressed file may unpack to."""
    document_length: int | None = None
    """Into pieces of which length `.npy` files with one axis are divided."""


@dataclass(frozen=True)
class Format:
    """A format of files: read as a stream, or by a source with random access. Some have both."""

    name: str
    suffixes: tuple[str, ...]
    """What names of files have; also before a compression's suffix, or a number as in `.tfrecord-00000-of-00010`."""
    place: str
    """What a record's place counts, in a stream."""
    encode: str
    """How records that are no bytes become bytes: "example" or "json"."""
    stream: Callable[[str, Opening, OnDamage], Records] | None = None
    source: Callable[[str, Opening], Any] | None = None
    schema: Callable[[str, Opening], Any] | None = None
    """The Arrow schema of a file's records, or None; where one is known without reading them."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The files of a folder that count."""
        ends = ("", "-*-of-*", *(COMPRESSED if self.stream is not None else ()))
        return tuple(f"*{suffix}{end}" for suffix in self.suffixes for end in ends)


def _stream(module: str, path: str, opening: Opening, on_damage: OnDamage) -> Records:
    read = import_module(f"...formats.{module}", __package__).read_records
    with open_stream(path, "auto", opening.storage, opening.max_expansion) as stream:
        yield from read(stream, path, on_damage)


def _csv(path: str, opening: Opening, on_damage: OnDamage) -> Records:
    from .comma_separated import read_records

    with open_stream(path, "auto", opening.storage, opening.max_expansion) as stream:
        yield from read_records(stream, path, opening.types, on_damage)


def _indexed(name: str, path: str, opening: Opening) -> Any:
    source = getattr(sources, name)
    return source(path, index_dir=opening.index_dir, storage_options=opening.storage)


def _array_record(path: str, opening: Opening) -> Any:
    return sources.ArrayRecordDataSource(path, storage_options=opening.storage)


def _parquet(path: str, opening: Opening) -> Any:
    return sources.ParquetDataSource(path, storage_options=opening.storage)


def _parquet_schema(path: str, opening: Opening) -> Any:
    if is_remote(path):
        return None
    from ...sources.arrow.parquet import schema_of_file

    return schema_of_file(path)


def _npy(path: str, opening: Opening) -> Any:
    """Documents, where a `TokenWriter` wrote the file; else rows, or pieces."""
    from .rows import NpyPieces, NpyRows

    if file_system_of(path, opening.storage).is_file(offsets_path(path)):
        return sources.TokenSource(path, storage_options=opening.storage)
    rows = NpyRows(path, opening.storage)
    return rows if opening.document_length is None else NpyPieces(path, rows.columns, opening.document_length)


def _npy_schema(path: str, opening: Opening) -> Any:
    from .from_source import schema_of_columns

    return schema_of_columns(getattr(_npy(path, opening), "columns", None))


FORMATS = {
    format.name: format
    for format in (
        Format(
            "tfrecord",
            (".tfrecord", ".tfrecords"),
            "byte",
            "example",
            partial(_stream, "tfrecord"),
            partial(_indexed, "TFRecordDataSource"),
        ),
        Format("tar", (".tar",), "byte", "example", partial(_stream, "tar"), partial(_indexed, "TarDataSource")),
        Format(
            "json_lines",
            (".jsonl", ".ndjson"),
            "byte",
            "json",
            partial(_stream, "json_lines"),
            partial(_indexed, "JsonLinesDataSource"),
        ),
        Format("csv", (".csv",), "line", "example", _csv),
        Format("parquet", (".parquet", ".parq", ".pq"), "record", "example", source=_parquet, schema=_parquet_schema),
        Format("array_record", (".array_record", ".arrayrecord"), "record", "example", source=_array_record),
        Format("npy", (".npy",), "record", "example", source=_npy, schema=_npy_schema),
    )
}


def split_name(name: str) -> tuple[str, str, str]:
    """The stem of a file's name, the suffix that says its format, and what stands after it: a number, not a compression.

    >>> split_name("mnist-train.tfrecord-00000-of-00010"), split_name("a.jsonl.gz"), split_name("README")
    (('mnist-train', '.tfrecord', '-00000-of-00010'), ('a', '.jsonl', ''), ('README', '', ''))
    """
    bare, end = os.path.splitext(name)
    if end.lower() in COMPRESSED:
        name = bare
    known = [suffix for format in FORMATS.values() for suffix in format.suffixes]
    for suffix in sorted(known, key=len, reverse=True):
        stem, found, rest = name.rpartition(suffix)
        if found and stem and (not rest or rest.startswith("-")):
            return stem, suffix, rest
    return name, "", ""


def format_of(names: list[str]) -> Format:
    """The format of files, by their names.

    Raises:
        ConversionError: it cannot be told, or there are several.
    """
    suffixes = {split_name(name_of(name))[1]: name for name in names}
    found = {format.name: format for format in FORMATS.values() if set(format.suffixes) & set(suffixes)}
    if len(found) == 1 and "" not in suffixes:
        return next(iter(found.values()))
    told = (
        f"files of several formats: {first_few(sorted(found))}"
        if found
        else f"{short_repr(names[0])}: an unknown format"
    )
    raise ConversionError(f"{told}; pass source_format= (--from), one of {', '.join(FORMATS)}, and only files of it.")
