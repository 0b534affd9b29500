"""Memory of batches, which is used again when nothing refers to the batch any more.

In: shapes and dtypes. Out: uninitialised, 64-byte aligned arrays on a slab (one piece of memory).

The first write to fresh memory is several times slower than a write to memory that is mapped and in
the caches. So a slab is reused when no array of its batch exists any more, and the slab that was
released last is reused first. The user does not release batches: the base of all arrays of a batch
is a lease (the right to use a slab). The lease ends when nothing refers to the batch's memory any
more: neither its arrays, nor anything made of them without a copy, such as a `jax.Array` on CPU.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.system import anonymous_file
from ...files.mmap_files import map_to
from ...operations.protocol import ArraySpec

# The first access to 77 MB takes 5 ms on large pages, and 60 ms on small ones.
LARGE_PAGE = 2 << 20
"""Bytes of a large memory page, and of the smallest memory that is put on large pages."""

_MADV_COLLAPSE = 25
"""Flag of `madvise`, since Linux 6.1: make large pages now, whatever `shmem_enabled` says."""


# Chosen: the C library itself reuses the memory of smaller batches.
POOLED_FROM = 128 << 10
"""Bytes from which large arrays of a batch are put on a slab (a reusable piece of memory).

The bytes of all of them count. The same is true of the small arrays, such as labels. Otherwise they
are plain arrays.
"""

# Chosen: `next()` then has to make fewer leases.
SHARED_BYTES = 16 << 10
"""Bytes of a slab (reusable memory) that several batches share if each is smaller than a page."""

# Chosen: the first write to new memory runs at a fifth of the speed of later ones.
MAX_FREE, FREE_BYTES = 2, 64 << 20
"""Largest number of free slabs (pieces of memory) kept for reuse; or bytes, if these allow more."""

# Chosen: users often keep the labels of a batch.
SMALL_SHARE = 1 / 16
"""Arrays up to this share of a batch's largest array are put on a second slab (reusable memory).

A user who keeps these small arrays (labels, say) does not keep the memory of the large ones
(images).
"""

# Chosen: batches of almost equal size then use the same slabs.
STEPS = 16
"""From 1 MiB on, sizes of slabs (pieces of memory) are rounded up to so many sizes per doubling."""

ALIGNMENT = 64
"""Alignment of arrays in bytes: a cache line, which XLA requires to use an array without a copy."""

PAGE = 4096


@dataclass(eq=False, slots=True)
class Slab:
    """A piece of memory for the arrays of a batch, which is used again for later batches.

    Attributes:
        memory: its bytes, 64-byte aligned.
        number: identifies the slab among those slabs of its pool that other processes can map; -1
            if other processes cannot map it.
        interface: the memory's `__array_interface__`.
    """

    memory: NDArray[np.uint8]
    number: int = -1
    interface: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.interface = self.memory.__array_interface__  # made anew whenever it is asked for


@dataclass(eq=False, slots=True)
class Lease:
    """The right to use one slab (a reusable piece of memory). It ends when this object is deleted.

    Attributes:
        slab: the slab.
        take_back: function that is called with the slab when this object is deleted.
    """

    slab: Slab
    take_back: Callable[[Slab], None]
    __array_interface__: dict[str, Any]  # the slab's

    def __del__(self) -> None:
        self.take_back(self.slab)


def lease_of(array: NDArray[Any]) -> Lease | None:
    """Return the lease (right to use a slab, a piece of memory) that keeps an array in use.

    Return None if the array is not on a slab.
    """
    base: Any = array
    while base is not None and not isinstance(base, Lease):
        base = getattr(base, "base", None)
    return base


class SlabPool:
    """Slabs (reusable pieces of memory) and the arrays on them.

    One thread calls `allocate`. A lease (the right to use a slab) may end in any thread, also
    during `allocate`, because the garbage collector may run at any time. The end of a lease only
    appends to the list of free slabs, so indices into this list stay valid during `allocate`.

    Args:
        make: function that takes a number of bytes and returns a slab of at least this size. The
            default makes memory of this process alone.
        give_up: function that is called with each free slab that is not kept for reuse.
        pooled_from: smallest number of bytes for a slab. The arrays of a batch form two groups,
            large arrays and small ones. If the arrays of a group have fewer bytes together, they
            are plain arrays, on no slab.
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
        self._plain = False  # no array of these specs is on a slab
        self._shared = np.empty(0, np.uint8)  # what is left of a slab that small batches share

    def allocate(self, specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
        """Return one uninitialised array for each spec (shape and dtype).

        The large arrays of a batch share a slab (a reusable piece of memory), and the small ones,
        such as labels, share another slab. So a user who keeps the labels of a batch does not keep
        the memory of its images. If the arrays of one of these groups are smaller than a page
        together, they share a slab with arrays of other batches. If they have fewer bytes than
        `pooled_from`, they are plain arrays.
        """
        if specs is not self._specs:  # almost always they are: batches of a pipeline are alike
            self._specs, self._layout = specs, _layout(specs)
            self._plain = all(size < self._pooled_from for _, size in self._layout[0])
        if self._plain:
            return [np.empty(shape, dtype) for shape, dtype in specs]
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
        """Return a slab (a reusable piece of memory) of at least `size` bytes.

        Free slabs of up to about twice this size are used, the one that was released last first. If
        there is none, a new slab is made.
        """
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
    """Round a number of bytes up, so that batches of almost equal size can use the same slabs.

    From 1 MiB on, there are 16 sizes between two powers of two. Smaller numbers are not rounded.
    """
    step = (1 << size.bit_length() - 1) // STEPS
    return size if size < 1 << 20 else -(-size // step) * step


def rounded(size: int) -> int:
    """Round a number of bytes up to whole memory pages, at least one page."""
    return max(-(-size // PAGE), 1) * PAGE


def _private_slab(size: int) -> Slab:
    whole = np.empty(rounded(size) + ALIGNMENT, dtype=np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return Slab(whole[start : len(whole) - ALIGNMENT + start])


_Group = tuple[list[tuple[tuple[int, ...], np.dtype[Any], int]], int]
"""Arrays on one slab (piece of memory), each with shape, dtype and offset; and the bytes of all."""

_Layout = tuple[list[_Group], list[int] | None]
"""Groups of arrays, one for each slab; and the index of each spec's array in all groups.

A slab is a piece of memory.

None in place of the indices: the arrays are in the order of the specs.
"""


def _layout(specs: Sequence[ArraySpec]) -> _Layout:
    sizes = [dtype.itemsize * prod(shape) for shape, dtype in specs]
    least = max(sizes, default=0) * SMALL_SHARE
    large = [number for number, size in enumerate(sizes) if size > least]
    small = [number for number, size in enumerate(sizes) if size <= least]
    groups = [
        _group([specs[number] for number in numbers]) for numbers in (large, small) if numbers
    ]
    order = [*large, *small]
    return groups, None if order == sorted(order) else [
        order.index(number) for number in range(len(order))
    ]


def _group(specs: Sequence[ArraySpec]) -> _Group:
    parts, end = [], 0
    for shape, dtype in specs:
        parts.append((shape, dtype, end))
        end += -(-dtype.itemsize * prod(shape) // ALIGNMENT) * ALIGNMENT
    return parts, end


def create_shared(size: int) -> int:
    """Create shared memory of `size` bytes, and return its file descriptor.

    Raises:
        OSError: there is no memory or no file descriptor left.
    """
    try:
        return anonymous_file("headrace-slab", size)
    except OSError as error:
        raise _no_memory(size, error) from error


def attach_shared(descriptor: int, size: int, fresh: bool = False) -> NDArray[np.uint8]:
    """Map shared memory, given by a file descriptor, and return it as a writable array.

    The memory stays mapped as long as the array exists; the descriptor may be closed.

    Args:
        descriptor: file descriptor of the memory.
        size: number of bytes.
        fresh: True if nothing was written to the memory yet. If the memory is large, its pages are
            then made now, as large pages if the system has them.

    Raises:
        OSError: no memory is left.
    """
    try:
        return _attach(descriptor, size, fresh)
    except OSError as error:
        raise _no_memory(size, error) from error


def _attach(descriptor: int, size: int, fresh: bool) -> NDArray[np.uint8]:
    # To be put on large pages, memory has to begin at a multiple of their size.
    large = size >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE")
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
        f"no shared memory for a batch of {size:,} bytes ({error.strerror}); keep fewer batches, "
        "use smaller ones or fewer workers, or raise the limit (ulimit -n for descriptors, ulimit "
        "-v or the container's memory for bytes).",
    )
