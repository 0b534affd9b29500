"""Memory of batches, reused once nobody looks at a batch any more.

In: shapes and dtypes. Out: arrays, uninitialised, 64-byte aligned, on one slab.

First touch of fresh memory is several times slower than a write to memory that is warm in the caches and mapped. So a slab
whose batch died is used again, the one released last first. That a batch is dead is not for the user to say: all its
arrays have a lease as their base, and when the last array, or the last thing made from one without a copy (a
`jax.Array` on CPU, say), is gone, so is the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...operations.protocol import ArraySpec

POOLED_FROM = 128 << 10
"""Bytes from which batches stand on slabs. Chosen: the C library reuses the memory of smaller ones by itself."""

SHARED_BYTES = 16 << 10
"""Bytes of a slab on which batches of less than a page stand together. Chosen: `next()` has fewer leases to take."""

MAX_FREE, FREE_BYTES = 2, 64 << 20
"""Slabs kept for reuse: so many, or more if they are small. Chosen: first touch runs at a fifth of the speed of warm memory."""

SMALL_SHARE = 1 / 16
"""Share of the largest array of a batch up to which others stand on a slab of their own. Chosen: labels are often kept."""

STEPS = 16
"""Sizes of slabs of a megabyte and more in each doubling: batches of almost equal size can stand on the same ones. Chosen."""

ALIGNMENT = 64
"""Bytes: a cache line, and what XLA asks for to use an array as it is."""

PAGE = 4096


@dataclass(eq=False, slots=True)
class Slab:
    """A piece of memory."""

    memory: NDArray[np.uint8]  # its bytes, 64-byte aligned
    number: int = -1  # among the slabs of its pool that are shared with other processes; -1 for one that is not
    interface: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.interface = self.memory.__array_interface__  # made anew whenever it is asked for


@dataclass(eq=False, slots=True)
class Lease:
    """The right to read and write one slab. It ends when this object dies, and the slab goes back."""

    slab: Slab
    take_back: Callable[[Slab], None]
    __array_interface__: dict[str, Any]  # the slab's

    def __del__(self) -> None:
        self.take_back(self.slab)


def lease_of(array: NDArray[Any]) -> Lease | None:
    """The lease that an array stands on, if any."""
    base: Any = array
    while base is not None and not isinstance(base, Lease):
        base = getattr(base, "base", None)
    return base


class SlabPool:
    """Slabs, and the arrays on them.

    `allocate` is called by one thread. A lease may end in any, in the middle of `allocate` too (the garbage collector
    runs where it likes): it only ever appends to the list of free slabs, so that the places in it stay what they are.

    Args:
        make: makes a slab of at least so many bytes; by default in this process's own memory.
        give_up: called with a slab that is not kept for reuse.
        pooled_from: bytes from which batches stand on slabs; smaller ones are plain arrays.
    """

    def __init__(
        self,
        make: Callable[[int], Slab] | None = None,
        give_up: Callable[[Slab], None] | None = None,
        pooled_from: int = POOLED_FROM,
    ) -> None:
        self._make = make or _private_slab
        self._give_up = give_up
        self._pooled_from = pooled_from
        self._free: list[Slab] = []
        self._specs: Sequence[ArraySpec] = ()
        self._layout: _Layout = ([], None)
        self._shared = np.empty(0, np.uint8)  # what is left of a slab that small batches share

    def allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """One array for each spec: all on one slab, but for those that are small beside the others, on another one.

        Who keeps the labels of a batch does not keep the memory of its images. What is smaller than a page shares a slab with
        that of other batches.
        """
        if specs is not self._specs:  # almost always they are: batches of a pipeline are alike
            self._specs, self._layout = specs, _layout(specs)
        arrays: list[NDArray[Any]] = []
        for parts, size in self._layout[0]:
            if size < self._pooled_from:
                arrays += [np.empty(shape, dtype) for shape, dtype, _ in parts]
                continue
            memory = self._leased(size) if size >= PAGE else self._piece(size)
            arrays += [np.ndarray(shape, dtype, memory, start) for shape, dtype, start in parts]
        order = self._layout[1]
        return arrays if order is None else [arrays[place] for place in order]

    def _leased(self, size: int) -> NDArray[np.uint8]:
        slab = self._slab(size)
        return np.asarray(Lease(slab, self._free.append, slab.interface))

    def _piece(self, size: int) -> NDArray[np.uint8]:
        if len(self._shared) < size:
            self._shared = self._leased(SHARED_BYTES)
        piece, self._shared = self._shared[:size], self._shared[-(-size // ALIGNMENT) * ALIGNMENT :]
        return piece

    def _slab(self, size: int) -> Slab:
        """The free slab that was released last and is of about this size, or a new one."""
        free = self._free
        while len(free) > MAX_FREE and len(free) * len(free[0].memory) > FREE_BYTES:
            slab = free.pop(0)
            if self._give_up is not None:
                self._give_up(slab)
        for index in reversed(range(len(free))):
            if size <= len(free[index].memory) <= 2 * size + PAGE:
                return free.pop(index)
        return self._make(_roomy(size))


def _roomy(size: int) -> int:
    """Bytes of a slab for `size` bytes, and for a few more if these are many."""
    step = (1 << size.bit_length() - 1) // STEPS
    return size if size < 1 << 20 else -(-size // step) * step


def rounded(size: int) -> int:
    """Bytes of a slab for `size` bytes: whole pages."""
    return max(-(-size // PAGE), 1) * PAGE


def _private_slab(size: int) -> Slab:
    whole = np.empty(rounded(size) + ALIGNMENT, dtype=np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return Slab(whole[start : len(whole) - ALIGNMENT + start])


_Group = tuple[list[tuple[tuple[int, ...], np.dtype[Any], int]], int]
"""Arrays that stand on one slab, each with its offset, and the bytes of all."""

_Layout = tuple[list[_Group], list[int] | None]
"""The groups, and the place of each array among those of all groups; None: they are in order."""


def _layout(specs: Sequence[ArraySpec]) -> _Layout:
    sizes = [dtype.itemsize * prod(shape) for shape, dtype in specs]
    least = max(sizes, default=0) * SMALL_SHARE
    large = [number for number, size in enumerate(sizes) if size > least]
    small = [number for number, size in enumerate(sizes) if size <= least]
    groups = [_group([specs[number] for number in numbers]) for numbers in (large, small) if numbers]
    order = [*large, *small]
    return groups, None if order == sorted(order) else [order.index(number) for number in range(len(order))]


def _group(specs: Sequence[ArraySpec]) -> _Group:
    parts, end = [], 0
    for shape, dtype in specs:
        parts.append((shape, dtype, end))
        end += -(-dtype.itemsize * prod(shape) // ALIGNMENT) * ALIGNMENT
    return parts, end
