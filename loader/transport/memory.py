"""Memory that two processes can share and that has no name, so that nothing can be left behind.

In: a size. Out: a file descriptor, and from it an array of bytes, in any process that is handed the descriptor.
"""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

_OWN_DESCRIPTOR: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Where Python can do without a second descriptor for each mapping."""

LARGE = 8 << 20
"""Bytes from which memory asks for large pages. It gets them where the system has them for shared memory (`shmem_enabled`)."""

PORTABLE = "MILLRACE_PORTABLE_MEMORY"
"""Environment variable: use the portable way where there is a better one, too. For tests."""


def create(size: int) -> int:
    """A descriptor of `size` bytes of fresh shared memory.

    Raises:
        OSError: no memory or no descriptor is to be had; the message names the limit.
    """
    try:
        if hasattr(os, "memfd_create") and PORTABLE not in os.environ:
            descriptor = os.memfd_create("millrace-slab")
            os.ftruncate(descriptor, size)
            return descriptor
        return _create_portably(size)
    except OSError as error:
        raise _no_memory(size, error) from error


def _create_portably(size: int) -> int:
    """POSIX shared memory, whose name is given up at once."""
    from multiprocessing.shared_memory import SharedMemory

    memory = SharedMemory(create=True, size=size)
    try:
        if hasattr(os, "posix_fallocate"):  # where memory runs out, an error now and no SIGBUS at the first touch
            os.posix_fallocate(memory._fd, 0, size)  # type: ignore[attr-defined]
        return os.dup(memory._fd)  # type: ignore[attr-defined]
    finally:
        memory.unlink()
        memory.close()


def attach(descriptor: int, size: int) -> NDArray[np.uint8]:
    """The memory behind a descriptor, writable. It stays mapped as long as the array lives."""
    try:
        mapped = mmap.mmap(descriptor, size, **_OWN_DESCRIPTOR)
    except OSError as error:
        raise _no_memory(size, error) from error
    if size >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, dtype=np.uint8)


def _no_memory(size: int, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"no shared memory for a batch of {size:,} bytes ({error.strerror}); keep fewer batches, use smaller ones or "
        "fewer workers, or raise the limit (ulimit -n for descriptors, ulimit -v or the container's memory or /dev/shm "
        "for bytes).",
    )
