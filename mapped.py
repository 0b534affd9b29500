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

import numpy as np
from numpy.typing import NDArray

_MAP_FIXED = 0x10


def map_to(address: int, size: int, access: int, descriptor: int) -> None:
    """Map the beginning of a file to addresses that are mapped already. On Linux.

    Args:
        address: a multiple of the page size.
        size: bytes.
        access: `mmap.PROT_READ`, or with `mmap.PROT_WRITE`.
        descriptor: of the file; not needed any more when this returns.

    Raises:
        OSError: as the system says.
    """
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    if system.mmap(address, size, access, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def map_readable(path: str) -> NDArray[np.uint8]:
    """The bytes of a file that is not empty, read-only. It stays mapped as long as the array lives.

    Raises:
        OSError: as the system says.
    """
    with open(path, "rb") as file:
        if sys.platform != "linux":
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        size = os.fstat(file.fileno()).st_size
        memory = np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE, mmap.PROT_READ), np.uint8)
        map_to(memory.ctypes.data, size, mmap.PROT_READ, file.fileno())
        return memory
