"""Source of the rows of Parquet files, as dicts of column name to value.

Parquet files have no access to single rows, only to row groups. The source decodes each row group
that a call needs once, and keeps the last used ones in memory. If the data is larger than
`cache_bytes`, a shuffled order decodes about one row group per record. Write such files with small
row groups (a few hundred rows).

Local files stay open after the first read, until the source is closed or deleted, or more files are
open than a process keeps open (`row_groups.py`). File format:
https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr
from ...common.validation import whole_number
from ...errors import NoRecordsError
from ...files.partitions import checked_partitioning, top_folder, values_in
from ...files.paths import PathLike, Paths, expand, path_list
from ...files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ...files.urls import name_of
from ...formats.index import SUFFIX, FoundRecords, index_of
from ..facts import SourceFacts
from ..file_source import FileSource, hex_digest
from ..growing.generation import FileFacts
from ..keys import check_key
from ..lengths import lengths_kind
from ..parts import of_each, part_of
from ..provenance import FilePlace
from .block_cache import BlockCache
from .column_lengths import column_named
from .files import is_local, listing_of, parquet_library, resolve
from .inspection import (
    Inspected,
    check_same_records,
    checked_schema,
    inspect_file,
    reading_error,
    record_columns,
)
from .row_groups import RowGroups, unreadable

DIRECTORY_PATTERNS = ("*.parquet", "*.parq", "*.pq")
"""Patterns of the files that are read from a directory."""

DEFAULT_CACHE_BYTES = 256 * 2**20

# A row group that is prefetched is fetched as a whole.
_SCATTERED = 8
"""Maximum number of rows that are prefetched for each row that will be read.

All row groups are counted together.
"""


class ParquetDataSource(FileSource[dict[str, Any]]):
    """Rows of Parquet files, numbered from the first file to the last.

    Thread-safe, picklable, safe to fork.

    A record is a dict of column name to value. A value is a NumPy scalar, a read-only NumPy array
    (a list of numbers without a null in it), a `str`, `bytes`, None (nulls), or another Python
    object (a list of numbers and nulls, structs, maps, lists of strings, decimals, times with a
    zone). It does not depend on other rows.

    Args:
        paths: a path, a glob, a directory (its files `*.parquet`, `*.parq` and `*.pq`, at any
            depth) or a list of these. Files of a glob or directory are sorted by path; a list keeps
            its order. Names in a directory that begin with `.` or `_` are left out.
        columns: names of the columns to read, in this order. Default: all.
        filesystem: a pyarrow (or fsspec) file system. Default: the local one, or the store of a URL
            such as `s3://…`.
        cache_bytes: maximum bytes of decoded row groups in memory, default 256 MiB. The row group
            used last always stays.
        storage_options: how files in a store are reached and cached; see
            `docs/how-to/remote-files.md`.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.
        schema: a `pyarrow.Schema` with the columns of the records and their types. Values of other
            types are converted; a column that a file lacks is None there; further columns are left
            out. Default: the columns of the files. Those that are read (all, without `columns`)
            must be in all files, in any order, with types that give equal values.
        partitioning: "hive" (default): folders such as `year=2024` are fields of the records, after
            the columns of the files. They are looked for below the directory that you pass, below
            the part of a glob without wildcards, or below the directory that all passed paths
            share. A field has the type of a column of this name in `schema` or in a file; without
            one it is `int32` if all its values are such integers, otherwise `str`. A file in such a
            folder may have a column of this name if it has the folder's value in all rows. A file
            in no such folder has the values of its column, or None. None: names of folders are
            ignored.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off, encrypted or not Parquet; files have different
            columns and there is no `schema`, or a column cannot be converted to its type in
            `schema`; a file has two columns of one name; a column and a folder of one name have
            different values; there are no rows; the generation does not exist, or one of its files
            was modified.
        ValueError: `paths` is an empty list, or has paths on several file systems; a name in
            `columns` is not a column of the files, or no name in `schema` is one; `partitioning` is
            unknown; `cache_bytes` or `generation` is negative; or `filesystem` is used with
            `growing` or `generation`.
        TypeError: a path is neither a string nor a `pathlib.Path`, `filesystem` is not a file
            system, `schema` is not a `pyarrow.Schema`, or a number is not an integer.
        MissingExtraError: pyarrow is not installed.

    Example (needs files):
        `ParquetDataSource("train.parquet", columns=["image", "label"])[0]` is a dict with these two
        keys. With `schema=pyarrow.schema({"text": "string", "label": "int64"})`, all files give
        these two, whatever their types.
    """

    _kind = "ParquetDataSource"
    _unpickled = ("_cache",)
    _beside = (SUFFIX, ".unfinished")
    _settles = False

    def __init__(
        self,
        paths: Paths,
        columns: Sequence[str] | None = None,
        filesystem: Any = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        storage_options: StorageOptionsLike = None,
        *,
        growing: bool | PathLike = False,
        generation: int | None = None,
        schema: Any = None,
        partitioning: str | None = "hive",
    ) -> None:
        parquet_library()
        self._cache_bytes = whole_number(
            "cache_bytes", cache_bytes, 0, None, "a number of bytes, such as 2**30"
        )
        self._columns, storage, grows = (
            columns,
            storage_options_of(storage_options),
            growing is not False,
        )
        if filesystem is not None and (grows or generation is not None):
            raise ValueError(
                f"filesystem={short_repr(filesystem)} cannot be combined with growing= or "
                "generation=. Leave filesystem= out, and pass paths of this machine, or URLs such "
                "as s3://…."
            )
        self._schema, has_folders = checked_schema(schema), checked_partitioning(partitioning)
        self._filesystem, names = _resolved(paths, filesystem, storage)
        self._top = top_folder(names) if has_folders else None
        if grows or generation is not None:
            self._begin(names, DIRECTORY_PATTERNS, storage, growing, generation)
        else:
            listing = listing_of(self._filesystem)
            self._take(
                [path for name in names for path in expand(name, listing, DIRECTORY_PATTERNS)]
            )

    def _inspect_file(self, path: str) -> Inspected:
        return inspect_file(self._filesystem, path)

    def _facts(self, found: Inspected) -> FileFacts:
        file, _ = found
        return FileFacts(sum(file.group_rows), file.stamp, file.footer)

    def _check_alike(self, first: Inspected, other: Inspected) -> None:
        if any(other[0].group_rows):
            check_same_records(first, other, self._columns, self._schema, self._top)

    def _take(self, paths: Sequence[str]) -> None:
        inspected = self._inspected(paths)
        # A file without rows, as parallel writers leave, often lacks the types of the others: it
        # has no say.
        filled = [
            (file, schema) for file, schema in inspected if any(file.group_rows)
        ] or inspected[:1]
        columns, self._names = record_columns(filled, self._columns, self._schema, self._top)
        files = tuple(file for file, _ in inspected)
        self._groups, self._paths = RowGroups(self._filesystem, columns, files), tuple(paths)
        self._ends = np.cumsum(
            [count for file in files for count in file.group_rows] or [0], dtype=np.int64
        )
        described = [(name_of(file.path), file.stamp.size, sum(file.group_rows)) for file in files]
        wanted: list[Any] = [columns.names, described]
        if self._schema is not None:
            wanted.append([str(columns.types[name]) for name in columns.names])
        if columns.folders:
            wanted.append([sorted(values_in(file.path, columns.top).items()) for file in files])
        self._identity = (
            hex_digest(repr(tuple(wanted))),
            hex_digest("".join(file.footer for file in files), 12),
        )
        self._prepare()
        if not len(self):
            raise NoRecordsError(
                f"the files {first_few(paths)} contain no rows. Pass a file with at least one row."
            )

    def _prepare(self) -> None:
        self._cache = BlockCache(self._groups.decode, self._cache_bytes)

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        checked = check_key(key, len(self), "ParquetDataSource")
        return self._rows(int(self._ends.searchsorted(checked, side="right")), [checked])[0]

    def _read_part(self, group: int, keys: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
        return self._rows(group, keys.tolist())

    def _rows(self, group: int, keys: list[int]) -> list[dict[str, Any]]:
        first = int(self._ends[group - 1]) if group else 0
        try:
            return self._cache.get(group).rows([key - first for key in keys])
        except unreadable() as error:
            number, place = self._groups.place(group)
            path = self._groups.files[number].path
            what = f"record key {keys[0]} (row group {place})"
            raise reading_error(path, what, error) from error

    @property
    def facts(self) -> SourceFacts:
        return super().facts._replace(lengths_by=self.lengths_by)

    def file_place(self, key: int) -> FilePlace:
        ends, groups = self._ends_of_files
        number, row = part_of(key, ends)
        group = part_of(key, self._ends)[0] - (int(groups[number - 1]) if number else 0)
        return FilePlace(self._groups.files[number].path, row, f"row group {group}")

    @functools.cached_property
    def _ends_of_files(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Two arrays `int64[files]`.

        They have for each file the first record key and the first row group index after it.
        """
        rows = [file.group_rows for file in self._groups.files]
        return np.cumsum(list(map(sum, rows)), dtype=np.int64), np.cumsum(
            list(map(len, rows)), dtype=np.int64
        )

    def lengths_by(self, name: str) -> npt.NDArray[np.int64]:
        """Return the length of each value of a column, `int64[rows]`.

        The values may be lists, texts or bytes. An integer is a length itself. The column may be
        any column of the files (of `schema`, if it was passed); it is read once. For local files,
        the lengths are then stored like the index of a file, and are found again only if a file was
        modified.

        Args:
            name: name of the column, or path of a field in it, such as "meta/tokens".

        Raises:
            LengthsError: there is no such column, or its values have no length.
            SourceError: a file cannot be read.
        """
        column = column_named(name, self._names, "the files have")
        numbers = range(len(self._groups.files))
        return np.concatenate(
            of_each(lambda number: self._lengths_in(number, name, column), numbers)
        )

    def _lengths_in(self, number: int, name: str, column: str) -> npt.NDArray[np.int64]:
        file, columns = self._groups.files[number], self._groups.columns

        def find(_: Any = None) -> FoundRecords:
            try:
                lengths = self._groups.lengths(number, name)
            except unreadable() as error:
                raise reading_error(file.path, f"column {short_repr(name)}", error) from error
            return FoundRecords(len(lengths), {"lengths": lengths})

        if column in columns.folders or not is_local(self._groups.filesystem):
            return find().arrays["lengths"]
        read_as = str(columns.types[column]) if column in columns.types else None
        kind = lengths_kind(find, "parquet", name, read_as)
        return index_of(file.path, kind, stamp=file.stamp).arrays["lengths"]

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        groups = np.unique(np.searchsorted(self._ends, keys, side="right"))
        rows = (self._ends - np.concatenate([[0], self._ends[:-1]]))[groups].sum()
        if len(keys) * _SCATTERED >= rows:
            self._groups.prefetch_groups(groups.tolist())

    def close(self) -> None:
        self._groups.close()

    def __repr__(self) -> str:
        return f"ParquetDataSource({len(self)} rows of {first_few(self._groups.columns.names, 8)})"


def _resolved(paths: Paths, filesystem: Any, storage: StorageOptions) -> tuple[Any, list[str]]:
    """Return the file system of all paths, and the names of the paths on it.

    Args:
        paths: paths or URLs that the user passed.
        filesystem: the user's `filesystem=`, or None.
        storage: how stores are reached.

    Raises:
        ValueError: the paths are on different file systems, or there are none.
        TypeError: a path is not a path, or `filesystem` is not a file system.
    """
    resolved = [resolve(filesystem, path, storage) for path in path_list(paths)]
    found = resolved[0][0]
    if any(other != found for other, _ in resolved):
        raise ValueError(
            "all paths of a ParquetDataSource must be on one file system. Make one source for each "
            "file system, and mix the sources with a MixSampler."
        )
    return found, [path for _, path in resolved]
