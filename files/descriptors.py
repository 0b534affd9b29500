"""Reads, writes and locks of open files, also where the system has no `pread` and no `fcntl`, as Windows has none.

In: descriptors. Out: bytes. Without `fcntl` nothing is locked: then one process at a time may use a folder of ours.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

TO_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
TO_CHANGE = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of `os.open`; a file that is not there is made by the second."""

_one_at_a_time = threading.Lock()
"""A descriptor has one place: who moves it and reads must not be disturbed."""


def _moved_and_read(descriptor: int, length: int, offset: int) -> bytes:
    with _one_at_a_time:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, length)


def _moved_and_written(descriptor: int, data: bytes, offset: int) -> int:
    with _one_at_a_time:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


read_at = getattr(os, "pread", _moved_and_read)
"""`read_at(descriptor, length, offset)`: so many bytes, or fewer at the end of the file."""

write_at = getattr(os, "pwrite", _moved_and_written)
"""`write_at(descriptor, data, offset)`: the number of bytes that were written."""


def lock(descriptor: int, wait: bool = True) -> bool:
    """Lock a file against other processes; False if one has the lock and `wait` is false. It goes with the descriptor."""
    if fcntl is None:
        return True
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def unlock(descriptor: int) -> None:
    """Let others lock it."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
