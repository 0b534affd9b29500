"""In: record keys (row numbers over all files). Out: rows as dicts of column name to value.

Parquet has no access to a single row: the unit is the row group. The source keeps an index of row groups, decodes those
that a call touches, each once, and keeps the last used ones in memory. So a shuffle over a dataset larger than
`cache_bytes` decodes a row group per record: write such files with small row groups (a few hundred rows).
File format: https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...checks import whole_number
from ...errors import NoRecordsError, SourceError
from ...files.paths import Paths, expand, path_list
from ...files.remote.parallel import in_background
from ...files.stamps import Stamp, check_unchanged, stamp_of
from ...files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ...wording import brief, first_few, shown
from ..block_cache import BlockCache
from ..keys import Keys, check_key, check_keys
from ..parts import part_of, read_by_part
from ..used_records import FilePlace
from .columns import Column, column_of
from .files import is_local, listing_of, parquet_library, resolve
from .stores import StoreFile, StoreFiles, chunks_of

DIRECTORY_PATTERNS = ("*.parquet", "*.parq", "*.pq")
"""The files of a directory that count."""

DEFAULT_CACHE_BYTES = 256 * 2**20

_SCATTERED = 8
"""Of so many rows of a row group at least one is wanted, where it is brought ahead of time."""


@dataclass(frozen=True)
class _File:
    """What is known of one file after its footer was read."""

    path: str
    stamp: Stamp
    group_rows: tuple[int, ...]
    index: str
    """A digest of the footer: row groups, their places and the statistics of their columns."""


@dataclass(frozen=True)
class _RowGroups:
    """All row groups of all files, and how to decode one; it can be pickled and holds nothing open."""

    filesystem: Any
    columns: tuple[str, ...]
    files: tuple[_File, ...]

    def place(self, number: int) -> tuple[_File, int]:
        """The file that holds row group `number`, and the group's number in it."""
        for file in self.files:
            if number < len(file.group_rows):
                return file, number
            number -= len(file.group_rows)
        raise IndexError(number)

    def decode(self, number: int) -> _Block:
        """Reads and decodes one row group; the file is open for just that time."""
        found, group = self.place(number)
        with _open(self.filesystem, found.path, found.stamp) as (handle, stamp):
            check_unchanged(found.path, found.stamp, stamp)
            # On the calling thread: the loader has threads of its own, and worker processes besides.
            file = parquet_library().ParquetFile(handle)
            if isinstance(handle, StoreFile):
                handle.load(chunks_of(file.metadata.row_group(group), self.columns))
            table = file.read_row_group(group, columns=list(self.columns), use_threads=False)
            block = _Block({name: column_of(table.column(name)) for name in self.columns})
            check_unchanged(found.path, found.stamp, _stamp(self.filesystem, found.path, handle))  # written meanwhile?
            return block

    def bring_ahead(self, numbers: Sequence[int]) -> None:
        """Begin to bring row groups of files in stores into the cache on disk."""
        wanted: dict[_File, list[int]] = {}
        for file, group in map(self.place, numbers):
            wanted.setdefault(file, []).append(group)
        in_background([functools.partial(self._bring, file, groups) for file, groups in wanted.items()])

    def _bring(self, file: _File, groups: Sequence[int]) -> None:
        with suppress(*_unreadable()), _open(self.filesystem, file.path, file.stamp) as (handle, _):
            metadata = parquet_library().ParquetFile(handle).metadata
            handle.prefetch([chunk for group in groups for chunk in chunks_of(metadata.row_group(group), self.columns)])


class _Block:
    """A decoded row group."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self.nbytes = sum(column.nbytes for column in columns.values())

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = [{} for _ in rows]
        for name, column in self._columns.items():
            for record, value in zip(records, column.take(rows)):
                record[name] = value
        return records


class ParquetDataSource:
    """The rows of Parquet files, in the order of the files. Thread-safe, picklable, safe to fork.

    A record is a dict of column name to NumPy scalar, read-only NumPy array (lists of numbers), `str`, `bytes`, None
    (nulls) or nested Python objects (structs, maps, lists of strings).

    Args:
        paths: a path, a glob, a directory (its `*.parquet` files) or a list of these. A glob and a directory are sorted
            by name; a list keeps its order.
        columns: the columns to read, in this order; default all.
        filesystem: a pyarrow (or fsspec) file system; default the local one, or what a URL such as `s3://…` names.
        cache_bytes: bytes of decoded row groups that stay in memory, default 256 MiB; the last one always stays.
        storage_options: how files in stores are reached and kept (docs/how-to/remote-files.md).

    Raises:
        SourceNotFoundError: nothing is found under a path.
        SourceError: a file is empty, truncated or not Parquet; files have different columns; there are no rows.
        ValueError: a name in `columns` is no column of the files, or `cache_bytes` is negative.
        TypeError: a path is no path, or `cache_bytes` is no integer.
        MissingExtraError: pyarrow is not installed.

    Example (needs a file):
        `ParquetDataSource("train.parquet", columns=["image", "label"])[0]` is a dict with these two keys.
    """

    reads_ahead: ClassVar[bool] = True
    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    _groups: _RowGroups
    _cache_bytes: int
    _ends: npt.NDArray[np.int64]
    """`int64[row groups]`: the first key after each row group."""

    def __init__(
        self,
        paths: Paths,
        columns: Sequence[str] | None = None,
        filesystem: Any = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        storage_options: StorageOptionsLike = None,
    ) -> None:
        parquet_library()
        self._cache_bytes = whole_number("cache_bytes", cache_bytes, 0, None, "a number of bytes, such as 2**30")
        found, names = _find(paths, filesystem, storage_options_of(storage_options))
        inspected = [_inspect(found, name) for name in names]
        # A file without rows, as parallel writers leave, often lacks the types of the others: it has no say.
        filled = [(file, schema) for file, schema in inspected if any(file.group_rows)] or inspected[:1]
        chosen = _chosen(columns, filled[0][1].names, filled[0][0].path)
        _check_schemas(filled, chosen, columns is None)
        self._groups = _RowGroups(found, chosen, tuple(file for file, _ in inspected))
        self._prepare()
        if not len(self):
            raise NoRecordsError(f"no rows in {first_few(names)}")

    def _prepare(self) -> None:
        rows = [count for file in self._groups.files for count in file.group_rows]
        self._ends = np.cumsum(rows or [0], dtype=np.int64)
        self._cache = BlockCache(self._groups.decode, self._cache_bytes)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def file_count(self) -> int:
        """In how many files the records lie."""
        return len(self._groups.files)

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        checked = check_key(key, len(self), "ParquetDataSource")
        return self.__getitems__(np.array([checked], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[dict[str, Any]]:
        """The rows of `keys`, in their order; each row group that they touch is looked up once.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a row group cannot be read, or its file was changed; the message names the file and the key.
        """
        checked = check_keys(keys, len(self), "ParquetDataSource")
        return read_by_part(checked, self._ends, self._rows)

    def _rows(self, group: int, keys: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
        first = int(self._ends[group - 1]) if group else 0
        try:
            return self._cache.get(group).rows((keys - first).tolist())
        except _unreadable() as error:
            file, number = self._groups.place(group)
            raise SourceError(
                f"{brief(file.path)}: record key {keys[0]} (row group {number}) cannot be read: {brief(error)}"
            ) from error

    def file_place(self, key: int) -> FilePlace:
        """Where a row lies."""
        ends, groups = self._ends_of_files
        number, row = part_of(key, ends)
        group = part_of(key, self._ends)[0] - (int(groups[number - 1]) if number else 0)
        return FilePlace(self._groups.files[number].path, row, f"row group {group}")

    @functools.cached_property
    def _ends_of_files(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """`int64[files]`, twice: the first key, and the first row group, after each file."""
        rows = [file.group_rows for file in self._groups.files]
        return np.cumsum(list(map(sum, rows)), dtype=np.int64), np.cumsum(list(map(len, rows)), dtype=np.int64)

    @property
    def announce(self) -> Callable[[npt.NDArray[np.int64]], None] | None:
        """Takes the keys of rows that will be asked for soon, of files in stores."""
        return self._announce if isinstance(self._groups.filesystem, StoreFiles) else None

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        groups = np.unique(np.searchsorted(self._ends, keys, side="right"))
        rows = (self._ends - np.concatenate([[0], self._ends[:-1]]))[groups].sum()
        if len(keys) * _SCATTERED >= rows:
            self._groups.bring_ahead(groups.tolist())

    @functools.cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Records, digests of columns, names, sizes and row counts, and of the footers: the same wherever the files lie."""
        files = [(name_of(file.path), file.stamp.size, sum(file.group_rows)) for file in self._groups.files]
        digest = hashlib.sha256(repr((self._groups.columns, files)).encode()).hexdigest()[:16]
        index = hashlib.sha256("".join(file.index for file in self._groups.files).encode()).hexdigest()[:12]
        return {"kind": "ParquetDataSource", "records": len(self), "files": digest, "index": index}

    def __getstate__(self) -> dict[str, Any]:
        files = [(file.path, tuple(file.stamp), file.group_rows, file.index) for file in self._groups.files]
        chosen = (self._groups.filesystem, self._groups.columns, files)
        return {"groups": chosen, "cache_bytes": self._cache_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        filesystem, columns, files = state["groups"]
        files = tuple(_File(path, Stamp(*stamp), rows, index) for path, stamp, rows, index in files)
        self._groups = _RowGroups(filesystem, columns, files)
        self._cache_bytes = state["cache_bytes"]
        self._prepare()

    def __repr__(self) -> str:
        return f"ParquetDataSource({len(self)} rows of {first_few(self._groups.columns, 8)})"


def _unreadable() -> tuple[type[BaseException], ...]:
    """What pyarrow and Python raise for files and values that cannot be read: text that is not UTF-8, dates out of range."""
    import pyarrow

    return (pyarrow.ArrowException, OSError, UnicodeError, OverflowError)


def _find(paths: Paths, filesystem: Any, storage: StorageOptions) -> tuple[Any, list[str]]:
    resolved = [resolve(filesystem, path, storage) for path in path_list(paths)]
    found = resolved[0][0]
    if any(other != found for other, _ in resolved):
        raise ValueError("all paths of a ParquetDataSource must lie on one file system")
    listing = listing_of(found)
    return found, [name for _, path in resolved for name in expand(path, listing, DIRECTORY_PATTERNS)]


def _inspect(filesystem: Any, path: str) -> tuple[_File, Any]:
    """Reads a file's footer: its row groups and its Arrow schema."""
    try:
        with _open(filesystem, path) as (handle, stamp):
            if not stamp.size:
                raise SourceError(f"{brief(path)}: the file is empty (0 bytes)")
            file = parquet_library().ParquetFile(handle)
            counts = tuple(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))
            return _File(path, stamp, counts, _digest_of_footer(handle)), file.schema_arrow.remove_metadata()
    except _unreadable() as error:
        raise SourceError(f"{brief(path)}: not a Parquet file, or truncated: {brief(error)}") from error


@contextmanager
def _open(filesystem: Any, path: str, known: Stamp | None = None) -> Iterator[tuple[Any, Stamp]]:
    """The file, and the stamp that it has now; a store is not asked whether it has the known one still: each answer tells."""
    opened = filesystem.open(path, known) if isinstance(filesystem, StoreFiles) else filesystem.open_input_file(path)
    with opened as handle:
        yield handle, _stamp(filesystem, path, handle)


def _stamp(filesystem: Any, path: str, handle: Any) -> Stamp:
    if isinstance(handle, StoreFile):
        return handle.stamp
    return stamp_of(path) if is_local(filesystem) else Stamp(handle.size(), None)


def _digest_of_footer(handle: Any) -> str:
    """Of a file that was found to be Parquet: it ends in the footer's length, 4 bytes, and PAR1."""
    length = int.from_bytes(handle.read_at(4, handle.size() - 8), "little")
    return hashlib.sha256(handle.read_at(length, handle.size() - 8 - length)).hexdigest()[:16]


def _check_schemas(inspected: Sequence[tuple[_File, Any]], columns: tuple[str, ...], whole: bool) -> None:
    """Holds the columns of every file against those of the first; their order and nullability may differ."""
    first, schema = inspected[0]
    for file, other in inspected[1:]:
        difference = _difference(schema, other, columns)
        if whole:
            difference += [f"{name!r} besides" for name in other.names if name not in columns]
        if difference:
            raise SourceError(f"{brief(file.path)}: other columns than in {brief(first.path)}: {first_few(difference)}")


def _difference(schema: Any, other: Any, columns: tuple[str, ...]) -> list[str]:
    missing = [f"no {name!r}" for name in columns if name not in other.names]
    shared = [(name, schema.field(name).type, other.field(name).type) for name in columns if name in other.names]
    return missing + [f"{name!r} is {found}, not {wanted}" for name, wanted, found in shared if found != wanted]


def _chosen(columns: Sequence[str] | None, names: Sequence[str], path: str) -> tuple[str, ...]:
    if columns is None:
        return tuple(names)
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if not chosen:
        raise ValueError(f"columns is empty; name at least one column of {brief(path)}: {first_few(names, 8)}")
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(
            f"{brief(path)} has no column {first_few(list(map(shown, unknown)))}; there are {first_few(names, 8)}"
        )
    return chosen
