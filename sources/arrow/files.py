"""File systems for Parquet files: file systems of pyarrow, and stores.

pyarrow is imported when a function is called.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...common.lazy_exports import optional_library
from ...common.messages import short_repr
from ...files.opened import OpenFile, open_file
from ...files.paths import FileSystem, LocalFileSystem, text_of
from ...files.patterns import matches
from ...files.remote.listing import RemoteFileSystem
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.streams import RawFile
from ...files.urls import is_remote


def parquet_library() -> Any:
    """Return the module `pyarrow.parquet`.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    return optional_library("pyarrow.parquet", "ParquetDataSource needs pyarrow", "parquet")


def resolve(filesystem: Any, path: Any, storage: StorageOptions) -> tuple[Any, str]:
    """Return the file system of a path, a pyarrow file system or `StoreFiles`, and the path on it.

    Args:
        filesystem: a pyarrow file system, an fsspec one, or None: the local one, or the store of a
            URL such as `s3://…`.
        path: a path, or with `filesystem=None` a URL.
        storage: how stores are reached.

    Raises:
        TypeError: `filesystem` is not a file system.
    """
    from pyarrow import fs

    name = text_of(path)
    if filesystem is None and is_remote(name):
        return StoreFiles(storage), name
    if filesystem is None:
        return fs.LocalFileSystem(), name
    if isinstance(filesystem, fs.FileSystem):
        return filesystem, name
    if not hasattr(filesystem, "info"):
        raise TypeError(
            f"filesystem={short_repr(filesystem)} is not a file system. Pass a file system of "
            "pyarrow.fs or of fsspec."
        )
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), name


def is_local(filesystem: Any) -> bool:
    """Return True if a file system is pyarrow's local one. Python can open its paths."""
    return getattr(filesystem, "type_name", "") == "local"


def listing_of(filesystem: Any) -> FileSystem:
    """Return an object that lists the files of a file system, to expand globs and folders.

    Args:
        filesystem: a pyarrow file system, or `StoreFiles`.
    """
    if isinstance(filesystem, StoreFiles):
        return RemoteFileSystem(filesystem.options)
    return LocalFileSystem() if is_local(filesystem) else _ArrowFileSystem(filesystem)


class _ArrowFileSystem:
    """Adapter that makes a `FileSystem` of this package from a pyarrow file system."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def is_file(self, path: str) -> bool:
        return bool(self._filesystem.get_file_info(path).is_file)

    def is_directory(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._filesystem.get_file_info(path).type == fs.FileType.Directory)

    def names_in(self, directory: str) -> list[str]:
        return [info.base_name for info in self._select(directory, recursive=False)]

    def names_below(self, directory: str) -> list[str]:
        top = directory.rstrip("/") + "/"
        return [info.path.removeprefix(top) for info in self._select(directory, recursive=True)]

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
        rest = parts[fixed:]
        found = self._select(
            "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ""), len(rest) > 1
        )
        return [info.path for info in found if matches(rest, info.path.split("/")[fixed:])]

    def _select(self, directory: str, recursive: bool) -> list[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(directory, allow_not_found=True, recursive=recursive)
        return [info for info in self._filesystem.get_file_info(selector) if info.is_file]


class StoreFiles:
    """Stand-in for a pyarrow file system, for files in stores.

    Args:
        options: how stores are reached.
    """

    def __init__(self, options: StorageOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreFiles) and self.options == other.options

    __hash__ = None  # type: ignore[assignment]

    def open(self, path: str, stamp: Stamp | None) -> StoreFile:
        return StoreFile(open_file(path, self.options, stamp))


class StoreFile(RawFile):
    """Open file in a store, with the methods that pyarrow calls.

    Args:
        file: the open file; it is closed with this object.
    """

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file, owned=True)
        self._loaded: list[tuple[int, bytes]] = []

    @property
    def stamp(self) -> Stamp:
        return self._file.stamp

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch all byte ranges that will be read, at once.

        Keep them until the next call, or `close`.

        Args:
            ranges: `(offset, length)` of each range, in bytes.
        """
        offsets, lengths = [offset for offset, _ in ranges], [length for _, length in ranges]
        self._loaded = list(zip(offsets, self._file.read_many(offsets, lengths)))

    def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Start to fetch byte ranges that another `StoreFile` of the same file will read.

        Args:
            ranges: `(offset, length)` of each range, in bytes.
        """
        self._file.prefetch([offset for offset, _ in ranges], [length for _, length in ranges])

    def size(self) -> int:
        return self._file.size

    def read_at(self, length: int, offset: int) -> bytes:
        for start, data in self._loaded:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return super().read_at(length, offset)

    def close(self) -> None:
        self._loaded = []
        super().close()


def chunks_of(group: Any, columns: Sequence[str]) -> list[tuple[int, int]]:
    """Return `(offset, length)` in the file, in bytes, of each chunk of some columns.

    If a file has a column `a.b` and a column `a` with fields, a chunk of one may be returned for
    the other, as the paths of chunks do not tell them apart.

    Args:
        group: metadata of a row group.
        columns: names of the columns.
    """
    names = frozenset(columns)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return [
        (
            min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset),
            chunk.total_compressed_size,
        )
        for chunk in chunks
        if not names.isdisjoint(accumulate(chunk.path_in_schema.split("."), "{}.{}".format))
    ]
