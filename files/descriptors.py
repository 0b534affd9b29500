"""Read, write and lock open files by descriptor, also on Windows (no `pread`, no `fcntl`).

Without `fcntl` nothing is locked. Then only one process at a time may use a folder that headrace
writes to.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
TO_READ = os.O_RDONLY | _ALWAYS
TO_CHANGE = os.O_RDWR | os.O_CREAT | _ALWAYS
"""Flags of `os.open` to read and write a file, and create it if it is missing."""

_one_at_a_time = threading.Lock()
"""Lock for systems without `pread`, where a descriptor is first moved and then read."""


def _moved_and_read(descriptor: int, length: int, offset: int) -> bytes:
    with _one_at_a_time:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, length)


def _moved_and_written(descriptor: int, data: bytes, offset: int) -> int:
    with _one_at_a_time:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


read_at = getattr(os, "pread", _moved_and_read)
"""`read_at(descriptor, length, offset)`: return `length` bytes.

Return fewer at the end of the file, and if `length` exceeds 2 GiB.
"""

write_at = getattr(os, "pwrite", _moved_and_written)
"""`write_at(descriptor, data, offset)`: write bytes, and return the number of bytes written."""


def lock(descriptor: int, wait: bool = True) -> bool:
    """Lock a file against other processes. Return True if this process has the lock.

    The lock ends when the descriptor is closed. Without `fcntl`, nothing is locked, and the result
    is True.

    Args:
        descriptor: descriptor of the file.
        wait: True (default): wait until other processes release the lock. False: return False if
            one has it.
    """
    if fcntl is None:
        return True
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def unlock(descriptor: int) -> None:
    """Release the lock of a file."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
