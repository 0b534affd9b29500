"""Decode row groups, numbered over all files, and return their rows.

* A footer, i.e. the description of a file at its end, is parsed once and kept. Threads share it.
* Local files stay open, up to the limit of `ReaderPool`. Several threads may read one file, each by
  its own `ParquetFile`. Before and after each read it is checked that the path still leads to the
  same file. Files on other file systems are opened for each read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import SourceError
from ...files.reader_pool import ReaderPool
from ...files.remote.parallel import in_background
from ...files.stamps import Stamp, check_unchanged, local_stamp
from ..parts import part_of
from .block_cache import BlockCache
from .column_lengths import column_named, lengths_of_column
from .decoded import DecodedRows
from .files import StoreFile, StoreFiles, chunks_of, is_local, parquet_library
from .record_columns import FileColumns, RecordColumns

FOOTER_BYTES = 128 * 2**20
"""Maximum bytes of parsed footers in memory, and of the footers of open files.

The last used one always stays.
"""

# Measured: 16 MB for a footer of 2.2 MB.
_PARSED = 7
"""Ratio of the memory that a parsed footer takes to its size in the file."""

_TOO_LARGE = "chunked array"
"""Words by which pyarrow says that a nested column of a row group does not fit one array."""


class ParquetPart(NamedTuple):
    """Facts about one file, from its footer.

    Attributes:
        path: path of the file.
        stamp: its size and modification time.
        group_rows: number of rows in each row group.
        footer: digest of the footer, which has the places of row groups and statistics of their
            columns.
    """

    path: str
    stamp: Stamp
    group_rows: tuple[int, ...]
    footer: str


class RowGroups:
    """All row groups of all files. `decode(number)` returns the rows of one of them.

    Thread-safe, safe to fork.

    Args:
        filesystem: file system of all files.
        columns: columns of the records.
        files: facts about the files.
    """

    def __init__(
        self, filesystem: Any, columns: RecordColumns, files: tuple[ParquetPart, ...]
    ) -> None:
        self.filesystem, self.columns, self.files = filesystem, columns, files
        self._files = _ParquetFiles(filesystem, columns, files)
        self._ends = np.cumsum([len(file.group_rows) for file in files], dtype=np.int64)
        # Parsing a footer of 20,000 chunks of columns takes 10 ms, many times as long as decoding a
        # row group.
        self._footers = BlockCache(self._files.footer, FOOTER_BYTES)
        # The pool must not refer to this object: in a reference cycle, the files would stay open
        # after the last use.
        opener = functools.partial(_reader, self._files, self._footers)
        self._readers = ReaderPool(opener, None, FOOTER_BYTES, keep_failed=False)

    def __reduce__(
        self,
    ) -> tuple[type[RowGroups], tuple[Any, RecordColumns, tuple[ParquetPart, ...]]]:
        return RowGroups, (self.filesystem, self.columns, self.files)

    def place(self, number: int) -> tuple[int, int]:
        """Return the index of the file that contains row group `number`, and its index in there."""
        return part_of(number, self._ends)

    def decode(self, number: int) -> DecodedRows:
        number, group = self.place(number)
        files = self._files
        lent = (
            self._readers.lend(number)
            if is_local(self.filesystem)
            else closing(_reader(files, self._footers, number))
        )
        with lent as reader, files.unchanged(number, reader.handle):
            return reader.block(group)

    def lengths(self, number: int, name: str) -> npt.NDArray[np.int64]:
        """Return the lengths of a file's values in a column, `int64[rows]`.

        See `lengths_of_column`.

        Args:
            number: index of the file.
            name: name of the column, or path of a field in it.

        Raises:
            LengthsError: there is no such column, or its values have no length.
            SourceError: the file was modified.
        """
        path = self.files[number].path
        if not any(self.files[number].group_rows):  # such a file may have other columns
            return np.empty(0, np.int64)
        with self._files.opened(number) as handle:
            file = parquet_library().ParquetFile(handle, pre_buffer=False)
            schema, metadata = file.schema_arrow, file.metadata
            known = [*schema.names, *self.columns.types]
            column = column_named(name, known, "the file has")
            columns = FileColumns(self.columns.only(column), schema, path)
            reader = _TableReader(handle, metadata, columns.asked, path)
            tables = (columns.fitted(reader.table(group)) for group in range(file.num_row_groups))
            found = [lengths_of_column(table.column(0), name, column) for table in tables]
        return np.concatenate([np.empty(0, np.int64), *found])

    def close(self) -> None:
        self._readers.close()

    def prefetch_groups(self, numbers: Sequence[int]) -> None:
        """Start to fetch row groups, by their indices over all files, into the cache on disk.

        Only for files in stores.
        """
        wanted: dict[int, list[int]] = {}
        for file, group in map(self.place, numbers):
            wanted.setdefault(file, []).append(group)
        in_background(
            [
                functools.partial(self._prefetch_file, file, groups)
                for file, groups in wanted.items()
            ]
        )

    def _prefetch_file(self, number: int, groups: Sequence[int]) -> None:
        with suppress(*unreadable()), self._files.opened(number) as handle:
            footer = self._footers.get(number)
            wanted = [
                chunks_of(footer.metadata.row_group(group), footer.columns.own) for group in groups
            ]
            handle.prefetch([chunk for chunks in wanted for chunk in chunks])


class _ParquetFiles(NamedTuple):
    """The files of some row groups, to open them. A file that was modified is an error."""

    filesystem: Any
    columns: RecordColumns
    files: tuple[ParquetPart, ...]

    def footer(self, number: int) -> _Footer:
        with self.opened(number) as handle:
            return _Footer(
                parquet_library().ParquetFile(handle), self.columns, self.files[number].path
            )

    @contextmanager
    def opened(self, number: int) -> Iterator[Any]:
        file = self.files[number]
        with (
            open_handle(self.filesystem, file.path, file.stamp) as handle,
            self.unchanged(number, handle),
        ):
            yield handle

    @contextmanager
    def unchanged(self, number: int, handle: Any) -> Iterator[None]:
        """Context manager that checks, before and after the block, that a file was not modified.

        Args:
            number: index of the file.
            handle: the open file.

        Raises:
            SourceError: the file was modified.
        """
        file = self.files[number]
        check_unchanged(file.path, file.stamp, stamp_of_open(self.filesystem, file.path, handle))
        yield
        check_unchanged(file.path, file.stamp, stamp_of_open(self.filesystem, file.path, handle))


class _Footer:
    """Parsed footer of a file, and conversions for its columns. Threads may share it.

    Args:
        file: the file, a `pyarrow.parquet.ParquetFile`.
        columns: columns of the records.
        path: path of the file.
    """

    def __init__(self, file: Any, columns: RecordColumns, path: str) -> None:
        self.metadata = file.metadata
        self.nbytes = _PARSED * file.metadata.serialized_size
        self.columns = FileColumns(columns, file.schema_arrow, path)


class _TableReader:
    """Read row groups of an open file as Arrow tables.

    Each thread that reads it at the same time gets its own `ParquetFile`.

    Args:
        handle: the open file.
        metadata: its parsed footer.
        asked: names of the columns to read; None for all.
        path: path of the file, for messages.
    """

    def __init__(self, handle: Any, metadata: Any, asked: list[str] | None, path: str) -> None:
        self._handle, self._metadata, self._asked, self._path = handle, metadata, asked, path
        self._unused: list[Any] = []
        self._slices: dict[int, int] = {}
        """For each row group that pyarrow cannot read as a whole: the rows it can read at once."""

    def table(self, group: int) -> Any:
        """Return a row group as a `pyarrow.Table`.

        Args:
            group: index of the row group in the file.

        Raises:
            SourceError: pyarrow cannot read a single row.
        """
        if group not in self._slices:
            file = self._file()
            try:
                table = file.read_row_group(group, columns=self._asked, use_threads=False)
            except NotImplementedError as error:
                if _TOO_LARGE not in str(error):
                    raise
            else:
                self._unused.append(file)  # not after an error, as nobody knows its state
                return table
        return self._joined_slices(group)

    def _joined_slices(self, group: int) -> Any:
        """Return a row group as a table of several pieces.

        pyarrow cannot read more than 2 GiB of strings, or 2**31 items, in lists or structs at once.

        Args:
            group: index of the row group in the file.
        """
        import pyarrow as pa

        at_once = self._slices.get(group) or max(1, self._metadata.row_group(group).num_rows // 4)
        while True:
            file = self._file()
            try:
                slices = file.iter_batches(
                    at_once, row_groups=[group], columns=self._asked, use_threads=False
                )
                table = pa.Table.from_batches(list(slices))
            except NotImplementedError as error:
                if _TOO_LARGE not in str(error):
                    raise SourceError(
                        f"{shorten(self._path)}: row group {group} cannot be read: "
                        f"{shorten(error)}. Leave the column out with columns=, or write the file "
                        "again."
                    ) from error
                if at_once == 1:
                    raise SourceError(
                        f"{shorten(self._path)}: a row of row group {group} has more than 2 GiB, "
                        "or 2^31 items, in one column, which pyarrow cannot read: "
                        f"{shorten(error)}. Leave the column out with columns=, or write less into "
                        "one row."
                    ) from error
                at_once = max(1, at_once // 4)
            else:
                self._slices[group] = at_once
                self._unused.append(file)
                return table

    def _file(self) -> Any:
        with suppress(IndexError):  # another thread may have been faster
            return self._unused.pop()
        # Without threads: the loader has its own, and worker processes besides. Nothing is kept of
        # a row group that was read.
        return parquet_library().ParquetFile(
            self._handle, metadata=self._metadata, pre_buffer=False
        )


class _Reader:
    """Open file, and the columns of the records in it.

    Args:
        handle: the open file.
        footer: its parsed footer.
        path: path of the file.
    """

    def __init__(self, handle: Any, footer: _Footer, path: str) -> None:
        self.handle, self._footer = handle, footer
        self._tables = _TableReader(handle, footer.metadata, footer.columns.asked, path)
        self.nbytes = footer.nbytes

    def block(self, group: int) -> DecodedRows:
        columns = self._footer.columns
        if isinstance(self.handle, StoreFile):
            self.handle.load(chunks_of(self._footer.metadata.row_group(group), columns.own))
        return DecodedRows(columns.fitted(self._tables.table(group)), columns.form)

    def close(self) -> None:
        self.handle.close()


def _reader(files: _ParquetFiles, footers: BlockCache[_Footer], number: int) -> _Reader:
    """Open file `number` of `files`."""
    footer, file = footers.get(number), files.files[number]
    return _Reader(open_handle(files.filesystem, file.path, file.stamp), footer, file.path)


def unreadable() -> tuple[type[BaseException], ...]:
    """Return the exceptions that mean unreadable files or values.

    Such values are, for example, invalid UTF-8 or dates out of range.
    """
    import pyarrow

    return (pyarrow.ArrowException, OSError, UnicodeError, OverflowError)


def open_handle(filesystem: Any, path: str, known: Stamp | None = None) -> Any:
    """Open a file for reading.

    Args:
        filesystem: file system of the file.
        path: path of the file.
        known: expected stamp (size and modification time) of a file in a store; None: any. Not used
            for other files.

    Raises:
        SourceError: a file in a store cannot be opened, or has another stamp.
        OSError: another file cannot be opened.
    """
    return (
        filesystem.open(path, known)
        if isinstance(filesystem, StoreFiles)
        else filesystem.open_input_file(path)
    )


def stamp_of_open(filesystem: Any, path: str, handle: Any) -> Stamp:
    """Return the stamp (size and modification time) of an open file.

    Args:
        filesystem: file system of the file.
        path: path of the file. For a local file, the stamp is read from this path.
        handle: the open file.
    """
    if isinstance(handle, StoreFile):
        return handle.stamp
    return local_stamp(path) if is_local(filesystem) else Stamp(handle.size(), None)
