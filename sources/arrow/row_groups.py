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

from ...files.reader_pool import ReaderPool
from ...files.remote.parallel import in_background
from ...files.stamps import Stamp, check_unchanged, local_stamp
from ..parts import part_of
from .block_cache import BlockCache
from .column_lengths import column_named, lengths_of_column
from .decoded import DecodedRows, Form
from .files import StoreFile, StoreFiles, chunks_of, is_local, parquet_library

FOOTER_BYTES = 128 * 2**20
"""Maximum bytes of parsed footers in memory, and of the footers of open files. The last used one always stays."""

# Measured: 16 MB for a footer of 2.2 MB.
_PARSED = 7
"""Ratio of the memory that a parsed footer takes to its size in the file."""


class ParquetPart(NamedTuple):
    """Facts about one file, from its footer.

    Attributes:
        path: path of the file.
        stamp: its size and modification time.
        group_rows: number of rows in each row group.
        footer: digest of the footer, which has the places of row groups and statistics of their columns.
    """

    path: str
    stamp: Stamp
    group_rows: tuple[int, ...]
    footer: str


class RowGroups:
    """All row groups of all files. `decode(number)` returns the rows of one of them. Thread-safe, safe to fork.

    Args:
        filesystem: file system of all files.
        columns: names of the columns that are decoded.
        files: facts about the files.
    """

    def __init__(self, filesystem: Any, columns: tuple[str, ...], files: tuple[ParquetPart, ...]) -> None:
        self.filesystem, self.columns, self.files = filesystem, columns, files
        self._ends = np.cumsum([len(file.group_rows) for file in files], dtype=np.int64)
        # Parsing a footer of 20,000 chunks of columns takes 10 ms, many times as long as decoding a row group.
        self._footers = BlockCache(self._footer, FOOTER_BYTES)
        self._readers = ReaderPool(self._reader, None, FOOTER_BYTES, keep_failed=False)

    def __reduce__(self) -> tuple[type[RowGroups], tuple[Any, tuple[str, ...], tuple[ParquetPart, ...]]]:
        return RowGroups, (self.filesystem, self.columns, self.files)

    def place(self, number: int) -> tuple[int, int]:
        """Return the index of the file that contains row group `number`, and the index of the row group in that file."""
        return part_of(number, self._ends)

    def decode(self, number: int) -> DecodedRows:
        number, group = self.place(number)
        lent = self._readers.lend(number) if is_local(self.filesystem) else closing(self._reader(number))
        with lent as reader, self._unchanged(number, reader.handle):
            return reader.block(group)

    def lengths(self, number: int, name: str) -> npt.NDArray[np.int64]:
        """Return the lengths of the values of a column in a file, `int64[rows]`; see `lengths_of_column`.

        Args:
            number: index of the file.
            name: name of the column, or path of a field in it.

        Raises:
            LengthsError: there is no such column, or its values have no length.
            SourceError: the file was modified.
        """
        with self._opened(number) as handle:
            file = parquet_library().ParquetFile(handle, pre_buffer=False)
            column = column_named(name, file.schema_arrow.names, "the file has")
            groups = (file.read_row_group(group, columns=[column]) for group in range(file.num_row_groups))
            found = [lengths_of_column(group.column(0), name, column) for group in groups]
        return np.concatenate([np.empty(0, np.int64), *found])

    def close(self) -> None:
        self._readers.close()

    def prefetch_groups(self, numbers: Sequence[int]) -> None:
        """Start to fetch row groups, by their indices over all files, into the cache on disk. Only for files in stores."""
        wanted: dict[int, list[int]] = {}
        for file, group in map(self.place, numbers):
            wanted.setdefault(file, []).append(group)
        in_background([functools.partial(self._prefetch_file, file, groups) for file, groups in wanted.items()])

    def _prefetch_file(self, number: int, groups: Sequence[int]) -> None:
        with suppress(*unreadable()), self._opened(number) as handle:
            metadata = self._footers.get(number).metadata
            handle.prefetch([chunk for group in groups for chunk in chunks_of(metadata.row_group(group), self.columns)])

    def _footer(self, number: int) -> _Footer:
        with self._opened(number) as handle:
            return _Footer(parquet_library().ParquetFile(handle), self.columns)

    def _reader(self, number: int) -> _Reader:
        footer = self._footers.get(number)
        file = self.files[number]
        return _Reader(open_handle(self.filesystem, file.path, file.stamp), footer, self.columns)

    @contextmanager
    def _opened(self, number: int) -> Iterator[Any]:
        file = self.files[number]
        with open_handle(self.filesystem, file.path, file.stamp) as handle, self._unchanged(number, handle):
            yield handle

    @contextmanager
    def _unchanged(self, number: int, handle: Any) -> Iterator[None]:
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
        columns: names of the columns that are decoded.
    """

    def __init__(self, file: Any, columns: tuple[str, ...]) -> None:
        self.metadata = file.metadata
        self.nbytes = _PARSED * file.metadata.serialized_size
        schema = file.schema_arrow
        self.asked = None if schema.names == list(columns) else list(columns)
        """Names of the columns to request; None for all columns."""
        self.form = Form(columns, [schema.field(name).type for name in columns])


class _Reader:
    """Open file. Each thread that reads it at the same time gets its own `ParquetFile`.

    Args:
        handle: the open file.
        footer: its parsed footer.
        columns: names of the columns that are decoded.
    """

    def __init__(self, handle: Any, footer: _Footer, columns: tuple[str, ...]) -> None:
        self.handle, self._footer, self._columns = handle, footer, columns
        self._unused: list[Any] = []
        self.nbytes = footer.nbytes

    def block(self, group: int) -> DecodedRows:
        if isinstance(self.handle, StoreFile):
            self.handle.load(chunks_of(self._footer.metadata.row_group(group), self._columns))
        file = self._file()
        table = file.read_row_group(group, columns=self._footer.asked, use_threads=False)
        self._unused.append(file)  # not after an error, as nobody knows its state
        return DecodedRows(table, self._footer.form)

    def _file(self) -> Any:
        with suppress(IndexError):  # another thread may have been faster
            return self._unused.pop()
        # Without threads: the loader has its own, and worker processes besides. Nothing is kept of a row group that was read.
        return parquet_library().ParquetFile(self.handle, metadata=self._footer.metadata, pre_buffer=False)

    def close(self) -> None:
        self.handle.close()


def unreadable() -> tuple[type[BaseException], ...]:
    """Return the exceptions that mean unreadable files or values, such as invalid UTF-8 or dates out of range."""
    import pyarrow

    return (pyarrow.ArrowException, OSError, UnicodeError, OverflowError)


def open_handle(filesystem: Any, path: str, known: Stamp | None = None) -> Any:
    """Open a file for reading.

    Args:
        filesystem: file system of the file.
        path: path of the file.
        known: expected stamp (size and modification time) of a file in a store; None: any. Not used for other files.

    Raises:
        SourceError: a file in a store cannot be opened, or has another stamp.
        OSError: another file cannot be opened.
    """
    return filesystem.open(path, known) if isinstance(filesystem, StoreFiles) else filesystem.open_input_file(path)


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
