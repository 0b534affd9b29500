"""In: a pyarrow file system. Out: the same, as the small protocol of `files.py`; imports pyarrow where it is called."""

from __future__ import annotations

import glob
from typing import Any

from ...common.messages import short_repr
from ...errors import MissingExtraError
from ...files.paths import FileSystem, LocalFileSystem, text_of
from ...files.patterns import matches
from ...files.remote.listing import RemoteFileSystem
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from .stores import StoreFiles


def parquet_library() -> Any:
    """The module `pyarrow.parquet`, or a MissingExtraError."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError('ParquetDataSource needs pyarrow: pip install "headrace[parquet]"') from error
    return pyarrow.parquet


def resolve(filesystem: Any, path: Any, storage: StorageOptions) -> tuple[Any, str]:
    """The pyarrow file system, or `StoreFiles`, and the path on it.

    Args:
        filesystem: a pyarrow file system, an fsspec one, or None: local, or what a URL such as `s3://…` names.
        path: a path, or with `filesystem=None` a URL.
        storage: how stores are reached.
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
        raise TypeError(f"filesystem={short_repr(filesystem)} is no file system; pass one of pyarrow.fs or of fsspec.")
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), name


def is_local(filesystem: Any) -> bool:
    """True of pyarrow's file system of this machine, whose paths Python knows too."""
    return getattr(filesystem, "type_name", "") == "local"


def listing_of(filesystem: Any) -> FileSystem:
    """Returns what path expansion needs of a pyarrow file system."""
    if isinstance(filesystem, StoreFiles):
        return RemoteFileSystem(filesystem.options)
    return LocalFileSystem() if is_local(filesystem) else _ArrowFileSystem(filesystem)


class _ArrowFileSystem:
    """A pyarrow file system, asked for file types and names only."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def is_file(self, path: str) -> bool:
        return bool(self._filesystem.get_file_info(path).is_file)

    def is_directory(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._filesystem.get_file_info(path).type == fs.FileType.Directory)

    def names_in(self, directory: str) -> list[str]:
        return [info.base_name for info in self._select(directory, recursive=False)]

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
        rest = parts[fixed:]
        found = self._select("/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ""), len(rest) > 1)
        return [info.path for info in found if matches(rest, info.path.split("/")[fixed:])]

    def _select(self, directory: str, recursive: bool) -> list[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(directory, allow_not_found=True, recursive=recursive)
        return [info for info in self._filesystem.get_file_info(selector) if info.is_file]
