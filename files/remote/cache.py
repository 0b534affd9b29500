"""Cache of pieces (blocks, or copies) of remote files, in a folder of all processes of a host.

A piece is stored as `<folder>/<file>/<piece>`. Several threads and processes may request the same
piece at the same time, and each of them may be killed at any moment:

* A piece is written as `<piece>.part`, and is renamed when it is complete. Its writer holds a lock
  on that file (`flock`, which ends with the process). Others wait for the lock, find the piece, and
  fetch nothing.
* While a process waits for the lock, the file may be renamed or removed. So after it gets the lock,
  it checks that the name still leads to the locked file.
* Before a piece is written, its size is added to the number in `<folder>/used`; after a piece is
  removed, its size is subtracted. If a process is killed in between, the number is too high, not
  too low.
* The checksums of a copy of a whole file are in `<piece>.sums`, and do not count. They are written
  before the piece is renamed, and removed before it is removed.
* If the number would exceed the budget, the files are counted under a lock, and the least recently
  used ones are removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ...common.messages import remedy_for, shorten
from ...errors import HeadraceError, SourceError
from ..descriptors import TO_CHANGE, TO_READ, lock, read_at, unlock, write_at
from ..whole_files import private_folder

_FILLED = 0.96
"""Share of the budget that stays in use when pieces are removed.

The free rest makes removals rarer.
"""

_WAIT_SECONDS = 0.02
_TOUCH_SECONDS = 1.0
"""Minimum seconds between two updates of a piece's time of last use."""

_PART = ".part"
_SUMS = ".sums"

_TRIES = 100
"""Maximum attempts to create a file while other processes may remove its folder."""


class Cache:
    """Cache, in a folder, of pieces (blocks, or copies) of remote files.

    Safe for threads, processes and forks.

    Args:
        folder: path of the folder, which is created when needed.
        budget: maximum size of all pieces together, in bytes.
    """

    def __init__(self, folder: str, budget: int) -> None:
        self.folder, self.budget = folder, budget

    def open(self, name: str, size: int) -> int | None:
        """Open a piece of `size` bytes, and return its descriptor, which the caller closes.

        It is None if it is missing.

        A piece of another size is removed, and counts as missing.

        Raises:
            SourceError: the cache cannot be used.
        """
        try:
            descriptor = os.open(self.path(name), TO_READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self.unusable(error) from error
        found = os.fstat(descriptor)
        # a machine went down before all was on the disk, or somebody wrote to it
        if found.st_size != size:
            os.close(descriptor)
            _removed(self.path(name))
            return None
        if time.time() - found.st_mtime > _TOUCH_SECONDS:
            self.touch(name)
        return descriptor

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def sums(self, name: str) -> bytes:
        """Return the checksums beside a piece; b"" if there are none."""
        try:
            with open(self.path(name) + _SUMS, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self.unusable(error) from error

    def remove(self, name: str) -> None:
        try:
            _removed(self.path(name))
        except OSError as error:
            raise self.unusable(error) from error

    def touch(self, name: str) -> bool:
        """Mark a piece as recently used. Return True if it exists."""
        try:
            os.utime(self.path(name))
        except FileNotFoundError:
            return False
        except OSError:  # a folder that may only be read
            return os.path.exists(self.path(name))
        return True

    def claim(self, name: str, wait: bool) -> Claim | None:
        """Claim the right to write a piece. Return None if the piece exists.

        Args:
            name: name of the piece.
            wait: True: wait for another process that is writing the piece. False: return None in
                this case.

        Raises:
            SourceError: the cache cannot be used.
        """
        path = self.path(name)
        try:
            while not os.path.exists(path):
                descriptor = _locked(path + _PART, wait)
                if descriptor is None:
                    return None
                if _leads_to(path + _PART, descriptor):
                    if not os.path.exists(path):
                        return Claim(self, path, descriptor)
                    # the piece got its name just before this file was made
                    with suppress(FileNotFoundError):
                        os.remove(path + _PART)
                _unlock(descriptor)
        except OSError as error:
            raise self.unusable(error) from error
        return None

    def reserve(self, descriptor: int, size: int) -> None:
        """Reserve `size` bytes of the budget for a file.

        Wait while other writers have reserved too much.

        Args:
            descriptor: descriptor of the file, which gets this size.
            size: number of bytes.

        Raises:
            SourceError: the budget is smaller than `size`.
        """
        if size > self.budget:
            raise SourceError(
                f"{size} bytes of a remote file do not fit into the cache {shorten(self.folder)}, "
                f"whose limit is {self.budget} bytes. Raise the limit with "
                "storage_options={'cache_bytes': …}."
            )
        while not self._reserved(descriptor, size):
            time.sleep(_WAIT_SECONDS)  # who writes has room already, and waits for nobody

    def _reserved(self, descriptor: int, size: int) -> bool:
        with self._used() as used:
            total = int.from_bytes(read_at(used, 8, 0), "little")
            if total + size > self.budget:
                total = self._make_room(size)
            fits = total + size <= self.budget
            if fits:
                # under the lock: whoever counts the folder sees all that is reserved
                os.ftruncate(descriptor, size)
                total += size
            write_at(used, total.to_bytes(8, "little"), 0)
            return fits

    def release(self, size: int) -> None:
        with self._used() as used:
            total = int.from_bytes(read_at(used, 8, 0), "little")
            write_at(used, max(total - size, 0).to_bytes(8, "little"), 0)

    @contextmanager
    def _used(self) -> Iterator[int]:
        """Yield the descriptor of the file with the number of used bytes.

        The file is locked during the block.
        """
        descriptor = _opened(os.path.join(self.folder, "used"), self.folder)
        try:
            lock(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_room(self, size: int) -> int:
        """Remove the least recently used pieces.

        Return the bytes that remain, including pieces that are being written.
        """
        pieces = sorted(_pieces(self.folder))
        total = sum(bytes_ for _, bytes_, _ in pieces)
        goal = min(int(self.budget * _FILLED), self.budget - size)
        for _, bytes_, path in pieces:
            if total <= goal:
                break
            if _removed(path):
                total -= bytes_
        return total

    def unusable(self, error: OSError) -> SourceError:
        return SourceError(
            f"the cache of remote files {shorten(self.folder)} cannot be used: {shorten(error)}. "
            f"{remedy_for(error, 'Check that it is a folder that you may write to')}, or choose "
            "another folder, or a smaller cache, with storage_options={'cache_dir': …, "
            "'cache_bytes': …} (cache_bytes=0 means no cache)."
        )


class Claim:
    """The right to write one piece of a remote file to the cache.

    Only one process and thread has it at a time.

    It ends at the end of the `with` block of `file`, or with `give_up`.
    """

    def __init__(self, cache: Cache, path: str, descriptor: int) -> None:
        self._cache, self._path, self._descriptor, self._size = cache, path, descriptor, 0

    @contextmanager
    def file(self, size: int) -> Iterator[BinaryIO]:
        """Yield a file to which the caller writes `size` bytes.

        It gets its name when the block ends.

        Raises:
            SourceError: the cache cannot be used, or the budget is too small.
        """
        try:
            if os.fstat(self._descriptor).st_size:  # of someone who was killed
                os.ftruncate(self._descriptor, 0)
            self._cache.reserve(self._descriptor, size)
            self._size = size
            with open(self._descriptor, "wb", closefd=False) as out:
                yield out
            # somebody has cleared the folder: the piece is not kept
            with suppress(FileNotFoundError):
                os.replace(self._path + _PART, self._path)
                self._size = 0
        except HeadraceError:
            raise
        except OSError as error:
            raise self._cache.unusable(error) from error
        finally:
            self.give_up()

    def keep_sums(self, sums: bytes) -> None:
        """Store checksums beside the piece. Must be called within the block of `file`."""
        beside = self._path + _SUMS
        with suppress(FileNotFoundError):  # somebody has cleared the folder
            with open(beside + _PART, "wb") as out:
                out.write(sums)
            os.replace(beside + _PART, beside)

    def give_up(self) -> None:
        """Release the claim, and remove an unfinished file. May be called twice."""
        if self._descriptor < 0:
            return
        with suppress(OSError):
            if not os.path.exists(self._path) or self._size:
                os.remove(self._path + _PART)
            if self._size:
                self._cache.release(self._size)
        _unlock(self._descriptor)
        self._descriptor = -1


def _locked(path: str, wait: bool) -> int | None:
    """Return the descriptor of a locked file.

    Return None if `wait` is False and another process has the lock.
    """
    descriptor = _opened(path, os.path.dirname(os.path.dirname(path)))
    if lock(descriptor, wait):
        return descriptor
    os.close(descriptor)
    return None


def _opened(path: str, folder: str) -> int:
    """Open a file of the cache, and return its descriptor.

    The file and its folder are created if they are missing.

    Other processes may remove the folder meanwhile.

    Args:
        path: path of the file.
        folder: folder of the cache.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return os.open(path, TO_CHANGE, 0o666)
        with suppress(FileNotFoundError, FileExistsError):  # cleared away between two steps of this
            private_folder(folder)
            private_folder(os.path.dirname(path))
    return os.open(path, TO_CHANGE, 0o666)


def _unlock(descriptor: int) -> None:
    """Unlock a file explicitly, and close it.

    A process that was forked meanwhile also has it open and locked.
    """
    unlock(descriptor)
    os.close(descriptor)


def _leads_to(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _removed(path: str) -> bool:
    """Remove a piece, or the unfinished file of a killed writer.

    Return False if the piece is being written.
    """
    if not path.endswith(_PART):
        for each in (path + _SUMS, path):
            with suppress(FileNotFoundError):
                os.remove(each)
        return True
    descriptor = _locked(path, wait=False)
    if descriptor is None:
        return False
    # else it got its name just now, and another one writes a new one
    abandoned = _leads_to(path, descriptor)
    if abandoned:
        os.remove(path)
    _unlock(descriptor)
    return abandoned


def _pieces(folder: str) -> Iterator[tuple[float, int, str]]:
    """Yield `(time of last use, size, path)` for each piece."""
    for file in _entries(folder):
        if file.is_dir(follow_symlinks=False):
            for piece in _entries(file.path):
                with suppress(FileNotFoundError):
                    if piece.name.removesuffix(_PART).endswith(_SUMS):
                        continue
                    found = piece.stat()
                    yield found.st_mtime, found.st_size, piece.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except FileNotFoundError:  # somebody has cleared it
        return []
