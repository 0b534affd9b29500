"""Open a file, local or remote, for reads at any offset by any number of threads."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..common.messages import TEXT, remedy_for, short_repr, shorten
from ..errors import SourceError, SourceNotFoundError
from .descriptors import TO_READ, read_at
from .stamps import Stamp, check_unchanged, local_stamp
from .storage_options import StorageOptionsLike, storage_options_of
from .urls import is_remote, local_path


class OpenFile(Protocol):
    """Protocol of an open file that is read at offsets. Thread-safe, picklable, safe to fork.

    A remote file stays at the version that was opened: reads of another one are an error. A local
    file stays the file that was opened, also if its path leads to another one later; but unpickling
    opens it anew by its path.
    """

    path: str
    size: int
    """Size in bytes."""
    stamp: Stamp
    storage_options: StorageOptionsLike
    """Options of the store that the file is in, also for files beside it; None for a local file."""

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)`.

        Raises:
            SourceError: the bytes cannot be read. The message names the file.
        """
        ...

    def read_many(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[bytes]:
        """Return the bytes of each range, in order.

        Remote ranges that are close together are fetched by one request. Requests run in parallel.

        Args:
            offsets: first byte of each range.
            lengths: number of bytes of each range.

        Raises:
            SourceError: a range cannot be read.
        """
        ...

    def prefetch(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Start to fetch these ranges if the file is remote. Does not wait, and raises nothing."""
        ...

    def check_unchanged(self) -> None:
        """Raise SourceError if a local file was modified since it was opened.

        A deleted one can still be read.

        Nothing is done for a remote file, whose reads check its version.
        """
        ...

    def close(self) -> None:
        """Close the file. May be called twice. No thread may be reading it."""
        ...


def open_file(
    path: str, storage_options: StorageOptionsLike = None, stamp: Stamp | None = None
) -> OpenFile:
    """Open a file for reads at offsets.

    Args:
        path: a path or a URL.
        storage_options: how a remote file is reached and cached.
        stamp: expected version of the file. For a remote file, this saves a request, and the errors
            below are raised only by reads. None (default): any version.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file cannot be opened, or has another version.
    """
    if is_remote(path):
        remote: OpenFile = _remote(path, storage_options, stamp)
        return remote
    file = LocalFile(local_path(path))
    if stamp is not None:
        check_unchanged(path, stamp, file.stamp)
    return file


@contextmanager
def local_copy(
    path: str, storage_options: StorageOptionsLike = None, stamp: Stamp | None = None
) -> Iterator[str]:
    """Yield the path of a local copy of a file.

    For a local file, its own path, without a check that it exists.

    A copy of a remote file is in the cache, and is kept during the block.

    Args:
        path: a path or a URL.
        storage_options: how a remote file is reached and cached.
        stamp: expected version of a remote file. None (default): any version.

    Raises:
        SourceNotFoundError: a remote file does not exist.
        SourceError: a remote file cannot be read, or is larger than the cache; or there is no
            cache.
    """
    if is_remote(path):
        with _remote(path, storage_options, stamp).copied() as copy:
            yield copy
    else:
        yield local_path(path)


def copy_ahead(files: Sequence[tuple[str, Stamp]], storage_options: StorageOptionsLike) -> None:
    """Start to make the copies that later calls of `local_copy` need.

    Does not wait, and raises nothing.

    Args:
        files: URL and expected stamp of each remote file.
        storage_options: how the files are reached and cached.
    """
    from .remote.parallel import in_background

    remote = [_remote(path, storage_options, stamp) for path, stamp in files]
    in_background([file.keep_copy for file in remote if not file.has_copy()])


def stamp_of(path: str, storage_options: StorageOptionsLike = None) -> Stamp:
    """Return the stamp (size and modification time or version) of a file.

    Raises:
        OSError: a local file does not exist or cannot be read.
        SourceError: a remote file does not exist or cannot be read.
    """
    return _remote(path, storage_options, None).stamp if is_remote(path) else local_stamp(path)


def _remote(path: str, storage_options: StorageOptionsLike, stamp: Stamp | None) -> Any:
    from .remote.remote_file import RemoteFile

    return RemoteFile(path, storage_options_of(storage_options), stamp)


def check_open_file(path: str, before: Stamp) -> None:
    """Raise SourceError if an open local file was modified, or cannot be looked up.

    A deleted file can be read, and passes.

    Does nothing for a remote file: each answer of a store contains the version of the file.

    Args:
        path: path or URL of the file.
        before: its stamp when it was opened.
    """
    if is_remote(path):
        return
    try:
        now = local_stamp(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError(
            f"{shorten(path)} cannot be accessed any more: {shorten(error)}. "
            f"{remedy_for(error, 'Check the path and its permissions')}, and make the source again."
        ) from error
    check_unchanged(path, before, now)


class LocalFile:
    """Open local file, see `OpenFile`."""

    path: str
    size: int
    stamp: Stamp
    storage_options: StorageOptionsLike = None
    _descriptor: int = -1

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = os.open(path, TO_READ)
            found = os.fstat(self._descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        except FileNotFoundError:
            raise SourceNotFoundError(
                f"there is no file {short_repr(path, TEXT)}. Check the path."
            ) from None
        except IsADirectoryError:
            self.close()
            raise SourceError(f"{shorten(path)} is a folder. Pass a file.") from None
        except OSError as error:
            self.close()
            raise SourceError(
                f"{shorten(path)} cannot be opened: {shorten(error)}. "
                f"{remedy_for(error, 'Check the path and its permissions')}."
            ) from error
        self.path, self.size, self.stamp = (
            path,
            found.st_size,
            Stamp(found.st_size, found.st_mtime_ns),
        )

    def read(self, offset: int, length: int) -> bytes:
        try:
            found = more = read_at(self._descriptor, length, offset)
            while more and len(found) < length:  # one call gives 2 GiB at most
                more = read_at(self._descriptor, length - len(found), offset + len(found))
                found += more
        except OSError as error:
            raise SourceError(
                f"{shorten(self.path)} cannot be read at byte {offset}: {shorten(error)}. Check "
                "the disk, or the network file system."
            ) from error
        if len(found) < length:
            raise SourceError(
                f"{shorten(self.path)}: {length} bytes were expected at byte {offset}, but the "
                f"file has only {len(found)} there. The file is cut off, damaged, or changed after "
                "it was opened; or it does not belong to its index. Write the file again, with its "
                "index if it has one."
            )
        return found

    def read_many(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[bytes]:
        """Return the bytes of each range, in order, by one system call for each."""
        starts, sizes = (np.asarray(given, np.int64).tolist() for given in (offsets, lengths))
        try:
            found = list(map(read_at, repeat(self._descriptor), sizes, starts))
        except OSError:  # `read` tells of which
            return list(map(self.read, starts, sizes))
        # None is longer than what was asked for: the sums tell.
        return found if sum(map(len, found)) == sum(sizes) else list(map(self.read, starts, sizes))

    def prefetch(self, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Do nothing: the system reads ahead."""

    def check_unchanged(self) -> None:
        """Raise SourceError if the open file was modified."""
        now = os.fstat(self._descriptor)  # takes a tenth of the time of a check by path
        if (now.st_size, now.st_mtime_ns) != self.stamp:
            check_unchanged(self.path, self.stamp, Stamp(now.st_size, now.st_mtime_ns))

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[LocalFile], tuple[str]]:
        return LocalFile, (self.path,)
