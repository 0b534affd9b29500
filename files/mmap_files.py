"""Map files into memory; on Linux without a descriptor that stays open.

Python's `mmap` takes no address, and keeps a descriptor for each mapping. So on Linux it only
reserves addresses here, and the system is asked to map the file to these addresses. They are
released like any mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

_MAP_FIXED = 0x10
"""Value of MAP_FIXED on Linux, macOS and the BSDs."""


def map_to(address: int, size: int, access: int, descriptor: int) -> None:
    """Map the beginning of a file to addresses that are already mapped. On Linux and macOS.

    Args:
        address: first address, a multiple of the page size.
        size: number of bytes.
        access: `mmap.PROT_READ`, optionally with `mmap.PROT_WRITE`.
        descriptor: descriptor of the file. It may be closed after the call.

    Raises:
        OSError: the system cannot map the file.
    """
    if _system_map()(address, size, access, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@cache
def _system_map() -> Callable[..., int]:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    function: Callable[..., int] = system.mmap
    return function


def map_readable(path: str) -> NDArray[np.uint8]:
    """Return the bytes of a file that is not empty as a mapped read-only array `uint8[size]`.

    The mapping ends with the array.

    Raises:
        OSError: the file cannot be mapped.
    """
    with open(path, "rb") as file:
        return np.frombuffer(mapping_of(file.fileno(), os.fstat(file.fileno()).st_size), np.uint8)


def mapping_of(descriptor: int, size: int) -> mmap.mmap:
    """Return a read-only mapping of the first `size` bytes of an open file.

    The bytes stay mapped until the result is deleted. `size` must be at least 1.

    Raises:
        OSError: the file cannot be mapped.
    """
    if sys.platform != "linux":
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    map_to(np.frombuffer(mapping, np.uint8).ctypes.data, size, mmap.PROT_READ, descriptor)
    return mapping
