"""Convert paths that a user passes (a path, list, glob or folder) to a list of existing files.

A folder is searched to the bottom. The files of a glob or a folder are sorted by path. A list keeps
its order. Local paths and URLs are expanded in the same way, through the protocol `FileSystem`.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from ..common.messages import TEXT, first_few, remedy_for, short_repr, shorten
from ..errors import SourceError, SourceNotFoundError
from .patterns import MACOS_FOLDER, found_locally, is_left_out, names_below
from .storage_options import StorageOptionsLike, storage_options_of
from .urls import is_remote, local_path

_LOST_SLASH = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
"""Pattern of a URL that lost one of its two slashes, because it was passed through `Path`."""

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike]


class FileSystem(Protocol):
    """Protocol of a file system: the methods with which paths are expanded.

    Paths are strings with `/` between folders.
    """

    def is_file(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def names_in(self, directory: str) -> list[str]:
        """Return the names of the files directly in `directory`, in any order."""
        ...

    def names_below(self, directory: str) -> list[str]:
        """Return the files in `directory` and its folders, as paths relative to it, in any order.

        Hidden files and folders, for which `is_left_out` is True, may be missing.
        """
        ...

    def glob(self, pattern: str) -> list[str]:
        """Return the files that match a shell pattern, in any order.

        `**` matches any number of folders.
        """
        ...


class LocalFileSystem:
    """The local file system."""

    def is_file(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def names_in(self, directory: str) -> list[str]:
        return [entry.name for entry in os.scandir(directory) if entry.is_file()]

    def names_below(self, directory: str) -> list[str]:
        return list(names_below(directory))

    def glob(self, pattern: str) -> list[str]:
        return found_locally(pattern)


def path_list(paths: Any) -> list[Any]:
    """Return one path, or a sequence of paths, as a list. A string or `os.PathLike` is one path.

    Raises:
        TypeError: `paths` is neither a path nor iterable.
        ValueError: `paths` is empty.

    >>> path_list("a.parquet")
    ['a.parquet']
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [paths]
    if not isinstance(paths, Iterable):
        raise TypeError(
            f"paths={short_repr(paths)} is of type {type(paths).__name__}. Pass a path or a list "
            "of paths."
        )
    listed = list(paths)
    if not listed:
        raise ValueError("the list of paths is empty. Pass at least one path.")
    return listed


def find_files(
    paths: Any, patterns: Sequence[str], storage_options: StorageOptionsLike = None
) -> list[str]:
    """Return the files that paths name.

    A path is a file, a glob, a folder or a URL, and may begin with `~`.

    Args:
        paths: one path, or a list. A folder is searched with all folders in it. Files of a glob or
            a folder are sorted by path; a list keeps its order. Hidden files, whose names begin
            with a dot, and files in a folder `__MACOSX` are found only if the path names them.
            Below a folder, files and folders whose names begin with `_` are left out, too.
        patterns: patterns of the files that are read from a folder, such as `("*.tfrecord*",)`.
        storage_options: how a store is reached.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a folder cannot be listed, or a file name is not UTF-8.
        TypeError: a path is neither a string nor a `pathlib.Path`.
        ValueError: `paths` is an empty list.

    >>> find_files("~/no such folder", ("*.tfrecord",))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace.errors.SourceNotFoundError: there is no file or directory '.../no such folder'. Check
    the path.
    """
    return [
        file
        for path in path_list(paths)
        for file in expand(path, file_system_of(text_of(path), storage_options), patterns)
    ]


def file_system_of(path: str, storage_options: StorageOptionsLike = None) -> FileSystem:
    """Return the file system of a path or URL."""
    if not is_remote(path):
        return LocalFileSystem()
    from .remote.listing import RemoteFileSystem

    return RemoteFileSystem(storage_options_of(storage_options))


def expand(path: Any, file_system: FileSystem, patterns: Sequence[str]) -> list[str]:
    """Return the files that one path, glob or folder names, sorted by path.

    Args:
        path: a path, glob or folder.
        file_system: file system of the path.
        patterns: patterns of the files that are read from a folder.

    Raises:
        SourceNotFoundError: the path matches no file.
        SourceError: a folder cannot be listed, or a file name is not UTF-8.
    """
    name = text_of(path)
    try:
        found = _found(name, file_system, patterns)
    except SourceNotFoundError:
        raise
    except OSError as error:
        raise SourceError(
            f"{short_repr(name, TEXT)} cannot be accessed: {shorten(error)}. "
            f"{remedy_for(error, 'Check the path and its permissions')}."
        ) from error
    for file in found:
        try:
            file.encode()
        except UnicodeEncodeError:
            raise SourceError(
                f"{short_repr(file, TEXT)}: this path is not UTF-8, which headrace needs. Rename "
                "the file, or the folder whose name is not UTF-8."
            ) from None
    return found


def _found(name: str, file_system: FileSystem, patterns: Sequence[str]) -> list[str]:
    if file_system.is_file(name):
        return [name]
    if file_system.is_directory(name):
        counts = re.compile(
            "|".join(map(fnmatch.translate, patterns))
        ).match  # `fnmatch` takes 3 µs for each name
        named = (each for each in file_system.names_below(name) if counts(each.rpartition("/")[2]))
        counted = sorted(each for each in named if not any(map(is_left_out, each.split("/"))))
        if not counted:
            wanted = f" named {first_few(patterns, 8)}" if patterns else ""
            raise SourceNotFoundError(
                f"the directory {short_repr(name, TEXT)} contains no file{wanted} (names that "
                "begin with . or _ do not count). Pass another directory, or a list of files."
            )
        return [f"{name.rstrip('/') or ''}/{each}" for each in counted]
    if glob.has_magic(name):
        found = sorted(
            file
            for file in file_system.glob(name)
            if MACOS_FOLDER in name or MACOS_FOLDER not in file.split("/")
        )
        if not found:
            raise SourceNotFoundError(
                f"no file matches the pattern {short_repr(name, TEXT)}. Check the pattern"
                f"{'' if is_remote(name) else ' and the current directory'}."
            )
        return found
    if not is_remote(name) and os.path.lexists(name) and isinstance(file_system, LocalFileSystem):
        raise SourceNotFoundError(
            f"{short_repr(name, TEXT)} is neither a file nor a directory; it may be a pipe, a "
            "device or a broken link. Pass a file or a directory."
        )
    hint = (
        "Pass a URL as a string, because Path removes a slash from it"
        if _LOST_SLASH.match(name)
        else "Check the path"
    )
    raise SourceNotFoundError(f"there is no file or directory {short_repr(name, TEXT)}. {hint}.")


def text_of(path: Any) -> str:
    """Return a path as a string, with `~` at its beginning expanded, and without `file://`.

    Raises:
        TypeError: `path` is neither a string, bytes nor `os.PathLike`.

    >>> text_of(b"digits.parquet")
    'digits.parquet'
    """
    try:
        return os.path.expanduser(local_path(os.fsdecode(path)))
    except TypeError:
        raise TypeError(
            f"{short_repr(path)} is of type {type(path).__name__}, not a path. Pass a string or a "
            "pathlib.Path."
        ) from None
