"""Memory that two processes can share and that has no name, so that nothing can be left behind.

In: a size. Out: a file descriptor, and from it an array of bytes, in any process that is handed the descriptor.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from .....files.mmap_files import map_to
from ..tuned import LARGE_PAGE

_MADV_COLLAPSE = 25
"""Since Linux 6.1: large pages at once, whether or not the system gives any to shared memory by itself (`shmem_enabled`)."""


def create(size: int) -> int:
    """A descriptor of `size` bytes of fresh shared memory.

    Raises:
        OSError: no memory or no descriptor is to be had; the message names the limit.
    """
    try:
        descriptor = os.memfd_create("headrace-slab")
        os.ftruncate(descriptor, size)
        return descriptor
    except OSError as error:
        raise _no_memory(size, error) from error


def attach(descriptor: int, size: int, fresh: bool = False) -> NDArray[np.uint8]:
    """The memory of a descriptor, which may be closed then, writable. It stays mapped as long as the array lives.

    Where it is `fresh`, nobody has written to it yet, and large, it gets its pages now, large ones where there are any: writes
    are a tenth faster ever after.
    """
    try:
        return _attach(descriptor, size, fresh)
    except OSError as error:
        raise _no_memory(size, error) from error


def _attach(descriptor: int, size: int, fresh: bool) -> NDArray[np.uint8]:
    """At an address that is a multiple of a large page if the memory is large: otherwise the system maps none there."""
    large = size >= LARGE_PAGE
    reserved = mmap.mmap(-1, size + LARGE_PAGE if large else size, mmap.MAP_PRIVATE)
    whole = np.frombuffer(reserved, np.uint8)
    start = -whole.ctypes.data % LARGE_PAGE if large else 0
    map_to(whole.ctypes.data + start, size, mmap.PROT_READ | mmap.PROT_WRITE, descriptor)
    memory = whole[start : start + size]
    if large:
        with suppress(OSError):  # a kernel without large pages, or none is to be had: small ones do
            reserved.madvise(mmap.MADV_HUGEPAGE, start, size)
            if fresh:
                memory[::LARGE_PAGE] = 0  # pages that are there can be made one, a hole cannot
                reserved.madvise(_MADV_COLLAPSE, start, size)
    return memory


def _no_memory(size: int, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"no shared memory for a batch of {size:,} bytes ({error.strerror}); keep fewer batches, use smaller ones or "
        "fewer workers, or raise the limit (ulimit -n for descriptors, ulimit -v or the container's memory for bytes).",
    )
