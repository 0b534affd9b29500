"""Memory of files, without a descriptor that stays open.

In: a descriptor, which may be closed afterwards. Out: memory. `mmap` of Python takes no address, and keeps a descriptor of its
own for each mapping. So it reserves addresses alone, and the system is asked to map the file to these; they are given back like
any mapping.
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
"""On Linux, macOS and the BSDs alike."""


def map_to(address: int, size: int, access: int, descriptor: int) -> None:
    """Map the beginning of a file to addresses that are mapped already. On Linux and macOS.

    Args:
        address: a multiple of the page size.
        size: bytes.
        access: `mmap.PROT_READ`, or with `mmap.PROT_WRITE`.
        descriptor: of the file; not needed any more when this returns.

    Raises:
        OSError: as the system says.
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
    """The bytes of a file that is not empty, read-only; they stay mapped as long as the array lives. Raises OSError."""
    with open(path, "rb") as file:
        return np.frombuffer(mapping_of(file.fileno(), os.fstat(file.fileno()).st_size), np.uint8)


def mapping_of(descriptor: int, size: int) -> mmap.mmap:
    """The first `size` bytes, more than none, of an open file, read-only and as long as the object lives. Raises OSError."""
    if sys.platform != "linux":
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    map_to(np.frombuffer(mapping, np.uint8).ctypes.data, size, mmap.PROT_READ, descriptor)
    return mapping
