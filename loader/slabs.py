"""Memory of batches, reused once nobody looks at a batch any more.

In: shapes and dtypes. Out: arrays, uninitialised, 64-byte aligned, on one slab.

First touch of fresh memory is several times slower than a write to memory that is warm in the caches and mapped. So a slab
whose batch died is used again, the one released last first. That a batch is dead is not for the user to say: all its
arrays have a lease as their base, and when the last array, or the last thing made from one without a copy (a
`jax.Array` on CPU, say), is gone, so is the lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..operations.protocol import ArraySpec

ALIGNMENT = 64
"""Bytes: a cache line, and what XLA asks for to use an array as it is."""

PAGE = 4096
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
        offsets, size = _layout(specs)
        slab = self._slab(size)
        memory = np.asarray(Lease(slab, self))
        return [
            memory[offset : offset + _bytes(spec)].view(spec.dtype).reshape(spec.shape)
            if _bytes(spec)
            else np.empty(spec.shape, spec.dtype)
            for spec, offset in zip(specs, offsets)
        ]

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


def _layout(specs: Sequence[ArraySpec]) -> tuple[list[int], int]:
    """Offset of each array, and the size of all."""
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += -(-_bytes(spec) // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _bytes(spec: ArraySpec) -> int:
    count = spec.dtype.itemsize
    for length in spec.shape:
        count *= length
    return count
