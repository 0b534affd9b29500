"""Memory of batches, reused once nobody looks at a batch any more.

In: shapes and dtypes. Out: arrays, uninitialised, 64-byte aligned, on one slab.

First touch of fresh memory is several times slower than a write to memory that is warm in the caches and mapped. So a slab
whose batch died is used again, the one released last first. That a batch is dead is not for the user to say: all its
arrays have a lease as their base, and when the last array, or the last thing made from one without a copy (a
`jax.Array` on CPU, say), is gone, so is the lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..operations.protocol import ArraySpec, allocate_plainly

ALIGNMENT = 64
"""Bytes: a cache line, and what XLA asks for to use an array as it is."""

PAGE = 4096
POOLED_FROM = 128 << 10
"""Bytes: smaller batches are plain arrays, whose memory the C library reuses by itself and which cost little to copy."""

MAX_FREE = 8
"""Slabs kept for reuse; more are given back to the system."""


class Lease:
    """The right to read and write one slab. It ends when this object dies, and the slab goes back to its pool."""

    __slots__ = ("__array_interface__", "_pool", "_slab")

    def __init__(self, slab: NDArray[np.uint8], pool: SlabPool) -> None:
        self._slab = slab
        self._pool = pool
        self.__array_interface__ = slab.__array_interface__

    def __del__(self) -> None:
        self._pool.take_back(self._slab)


class SlabPool:
    """Slabs in this process's own memory.

    `allocate` is called by one thread. A lease may end in any, in the middle of `allocate` too (the garbage collector
    runs where it likes): it only ever appends to the list of free slabs, so that the places in it stay what they are.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []

    def allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """One array for each spec, all on one slab."""
        parts, size = _layout(tuple(specs))
        if size < POOLED_FROM:
            return allocate_plainly(specs)
        memory = np.asarray(Lease(self._slab(size), self))
        return [memory[start:stop].view(dtype).reshape(shape) for start, stop, shape, dtype in parts]

    def _slab(self, size: int) -> NDArray[np.uint8]:
        """The free slab that was released last and is of about this size, or a new one."""
        free = self._free
        del free[:-MAX_FREE]
        for index in reversed(range(len(free))):
            if size <= len(free[index]) <= 2 * size + PAGE:
                return free.pop(index)
        return _new_slab(size)

    def take_back(self, slab: NDArray[np.uint8]) -> None:
        """The lease of `slab` has ended."""
        self._free.append(slab)


def _new_slab(size: int) -> NDArray[np.uint8]:
    whole = np.empty(-(-size // PAGE) * PAGE + ALIGNMENT, dtype=np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : len(whole) - ALIGNMENT + start]


@lru_cache(maxsize=256)
def _layout(specs: tuple[ArraySpec, ...]) -> tuple[list[tuple[int, int, tuple[int, ...], np.dtype[Any]]], int]:
    """Start and end of each array, with its shape and dtype, and the size of all."""
    parts, end = [], 0
    for shape, dtype in specs:
        stop = end + dtype.itemsize * prod(shape)
        parts.append((end, stop, shape, dtype))
        end = -(-stop // ALIGNMENT) * ALIGNMENT
    return parts, end
