"""Shared memory without names: made by workers, leased to batches in the user's process, used again when a batch dies.

In a worker, `ExportedSlabs` makes slabs and lends them; in the user's process, `Slabs` maps each once, and `SlabRows` are rows
on them. A slab is a file descriptor that goes along with a message, so that nothing can be left behind.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....files.mmap_files import map_to
from ...work.slabs import Lease, Slab, SlabPool, rounded
from ...work.stacked_rows import StackedRows
from .channel import Done, Encoded, SlabName
from .codec import TINY, decode

LARGE_PAGE = 2 << 20
"""Bytes from which memory stands on large pages, which have this size: first touch of 77 MB takes 5 ms in place of 60."""

_MADV_COLLAPSE = 25
"""Since Linux 6.1: large pages at once, whether or not the system gives any to shared memory by itself (`shmem_enabled`)."""


def create_shared(size: int) -> int:
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


def attach_shared(descriptor: int, size: int, fresh: bool = False) -> NDArray[np.uint8]:
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


class ExportedSlabs:
    """The slabs that this worker makes, and which of them are on loan."""

    def __init__(self) -> None:
        self.pool = SlabPool(self._make, self._give_up, pooled_from=TINY)
        self._numbers = itertools.count()
        self._descriptors: dict[int, int] = {}
        self._lent: dict[int, list[Lease]] = {}
        self._known: set[int] = set()
        self._introduced: list[int] = []
        self._dropped: list[int] = []

    def _make(self, size: int) -> Slab:
        descriptor = create_shared(rounded(size))
        slab = Slab(attach_shared(descriptor, rounded(size), fresh=True), next(self._numbers))
        self._descriptors[slab.number] = descriptor
        return slab

    def _give_up(self, slab: Slab) -> None:
        self.close([slab.number])
        if slab.number in self._known:
            self._known.discard(slab.number)
            self._dropped.append(slab.number)

    def lend(self, leases: list[Lease]) -> None:
        """Keep these slabs as they are until they are released."""
        for lease in leases:
            self._lent.setdefault(lease.slab.number, []).append(lease)
            if lease.slab.number not in self._known:
                self._known.add(lease.slab.number)
                self._introduced.append(lease.slab.number)

    def release(self, numbers: list[int]) -> None:
        """Loans that have ended."""
        for number in numbers:
            leases = self._lent[number]
            leases.pop()
            if not leases:
                del self._lent[number]

    def take_introduced(self) -> list[int]:
        """Slabs on loan that the user's process does not know yet."""
        introduced, self._introduced = self._introduced, []
        return introduced

    def take_dropped(self) -> list[int]:
        """Slabs that the user's process knows and may forget."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def descriptor(self, number: int) -> int:
        """The descriptor of a slab that was not closed yet."""
        return self._descriptors[number]

    def close(self, numbers: list[int]) -> None:
        """Close descriptors that are not needed any more: the memory stays mapped."""
        for number in numbers:
            descriptor = self._descriptors.pop(number, None)
            if descriptor is not None:
                os.close(descriptor)


class MappedSlab(Slab):
    """A slab of a worker's. Its descriptor, -1 unless it is kept, is closed when nobody needs the slab any more."""

    def __init__(self, memory: NDArray[np.uint8], number: int, descriptor: int) -> None:
        super().__init__(memory, number)
        self.descriptor = descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at exit the name may be gone
        if self.descriptor >= 0:
            close(self.descriptor)


Leases = dict[SlabName, tuple[MappedSlab, NDArray[np.uint8]]]
"""The slabs of a block, and their leased memory."""


class SlabRows:
    """Rows of a block, encoded. As long as they live, their slabs are leased."""

    __slots__ = ("encoded", "leases")

    lost = False

    def __init__(self, encoded: Encoded, leases: Leases) -> None:
        self.encoded = encoded
        self.leases = leases

    def load(self) -> list[Any]:
        """The rows, decoded. The leases are theirs from now on."""
        rows = decode(self.encoded, {name: memory for name, (_, memory) in self.leases.items()}.__getitem__)
        return list(rows.elements(0, len(rows))) if isinstance(rows, StackedRows) else rows


class Slabs:
    """All slabs that workers have lent.

    Leases end in any thread, at any moment: that appends to a list, from which they are taken to be sent back.
    """

    def __init__(self, keep_descriptors: bool, note_bytes: Callable[[int], None]) -> None:
        self._note_bytes = note_bytes  # called with how many are mapped more, or fewer
        self._keep_descriptors = keep_descriptors
        self._mapped: dict[SlabName, MappedSlab] = {}
        self._released: dict[int, list[Slab]] = {}
        self._introduced: dict[int, set[SlabName]] = {}
        self._forgotten: dict[int, list[SlabName]] = {}

    def take(self, worker: int, done: Done, descriptors: Sequence[int]) -> list[SlabRows]:
        """The rows of each answer, with leases of their slabs; those that are new come with their descriptors."""
        sizes = dict(chain.from_iterable(lent for _, _, lent in done.answers)) if done.introduced else {}
        for number, descriptor in zip(done.introduced, descriptors):
            name = (worker, number)
            slab = MappedSlab(attach_shared(descriptor, sizes[number]), number, descriptor)
            self._mapped[name] = slab
            self._note_bytes(sizes[number])
            if not self._keep_descriptors:
                os.close(descriptor)
                slab.descriptor = -1
        take_back = self._released.setdefault(worker, []).append
        rows = []
        for _, encoded, each in done.answers:
            slabs = [self._mapped[worker, number] for number, _ in each]
            leases = {(worker, slab.number): (slab, np.asarray(Lease(slab, take_back))) for slab in slabs}
            rows.append(SlabRows(encoded, leases))
        self._drop((worker, number) for number in done.dropped)
        return rows

    def take_released(self, worker: int) -> list[int]:
        """Numbers of the worker's slabs whose leases have ended since the last call."""
        released = self._released.get(worker)
        if not released:
            return []
        count = len(released)
        taken = [slab.number for slab in released[:count]]
        del released[:count]
        return taken

    @property
    def workers_with_released(self) -> list[int]:
        """The workers of slabs whose leases have ended."""
        return [worker for worker, released in self._released.items() if released]

    def introduce(self, worker: int, rows: Sequence[Any]) -> tuple[dict[SlabName, int], list[SlabName], list[int]]:
        """Slabs of rows that a worker is to read: their sizes, and names and descriptors of those it has not seen."""
        slabs = {name: slab for some in rows for name, (slab, _) in some.leases.items()}
        seen = self._introduced.setdefault(worker, set())
        new = [name for name in slabs if name not in seen]
        seen.update(new)
        return {name: len(slab.memory) for name, slab in slabs.items()}, new, [slabs[name].descriptor for name in new]

    def take_forgotten(self, worker: int) -> list[SlabName]:
        """Slabs that a worker was shown and that are no more."""
        return self._forgotten.pop(worker, [])

    def disown(self, worker: int) -> None:
        """A worker has ended. Its slabs live on as long as they are leased."""
        self._released.pop(worker, None)
        self._introduced.pop(worker, None)
        self._forgotten.pop(worker, None)
        self._drop([name for name in self._mapped if name[0] == worker])

    def _drop(self, names: Any) -> None:
        for name in list(names):
            if (slab := self._mapped.pop(name, None)) is not None:
                self._note_bytes(-len(slab.memory))
            for worker, seen in self._introduced.items():
                if name in seen:
                    seen.discard(name)
                    self._forgotten.setdefault(worker, []).append(name)
