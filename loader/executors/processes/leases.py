"""Slabs of the workers, as the user's process sees them: mapped once, leased to batches, released when a batch dies.

In: what workers lend. Out: elements on that memory, and the numbers of slabs whose leases have ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...timing.times import Moments, TaskTimes
from ...work.slabs import Lease, Slab
from ...work.stacked_rows import StackedRows
from ...work.tasks import RowTags
from ..pool.remote_errors import EncodedFailure
from .transport import shared_memory as memory
from .transport.codec import decode
from .transport.messages import Answer, Done, Encoded, SlabName


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


class EncodedBlock:
    """A `Block` whose rows stay encoded until somebody wants them here. As long as it lives, its slabs are leased."""

    parts = ()

    def __init__(self, answer: Answer, leases: Leases) -> None:
        self.rows: Encoded = answer.rows
        self.count = answer.row_count
        self.leases = leases
        self.tags = None if answer.tags is None else RowTags.unpacked(answer.tags)
        self.failure = None if answer.error is None else EncodedFailure(answer.error)
        self.skipped = answer.skipped
        self.notices = answer.notices
        self.stand = answer.stand
        self.times = None if answer.times is None else TaskTimes.unpacked(answer.times)
        self.moments: Moments = (0.0, 0.0, 0.0)
        self._elements: list[Any] | None = None

    @property
    def elements(self) -> list[Any]:
        """The rows, decoded. The leases are theirs from now on."""
        return self._decoded() if self._elements is None else self._elements

    def _decoded(self) -> list[Any]:
        rows = decode(self.rows, lambda name: self.leases[name][1])
        self._elements = list(rows.elements(0, len(rows))) if isinstance(rows, StackedRows) else rows
        self.leases = {}
        return self._elements


class Slabs:
    """All slabs that workers have lent.

    Leases end in any thread, at any moment: that appends to a list, from which they are taken to be sent back.
    """

    def __init__(self, keep_descriptors: bool, note_bytes: Callable[[int], None]) -> None:
        self._note_bytes = note_bytes  # called with how many are mapped more, or fewer
        self._keep_descriptors = keep_descriptors
        self._mapped: dict[SlabName, MappedSlab] = {}
        self._released: dict[int, list[int]] = {}
        self._introduced: dict[int, set[SlabName]] = {}
        self._forgotten: dict[int, list[SlabName]] = {}

    def take(self, worker: int, answers: Sequence[Answer], done: Done, descriptors: Sequence[int]) -> list[Leases]:
        """Lease the slabs that each answer stands on; those that are new come with their descriptors."""
        sizes = dict(chain.from_iterable(answer.lent for answer in answers)) if done.introduced else {}
        for number, descriptor in zip(done.introduced, descriptors):
            name = (worker, number)
            slab = MappedSlab(memory.attach(descriptor, sizes[number]), number, descriptor)
            self._mapped[name] = slab
            self._note_bytes(sizes[number])
            if not self._keep_descriptors:
                os.close(descriptor)
                slab.descriptor = -1
        released = self._released.setdefault(worker, [])

        def take_back(slab: Slab) -> None:
            released.append(slab.number)

        leases: list[Leases] = [
            {(worker, number): self._leased(self._mapped[worker, number], take_back) for number, _ in answer.lent}
            for answer in answers
        ]
        self._drop((worker, number) for number in done.dropped)
        return leases

    @staticmethod
    def _leased(slab: MappedSlab, take_back: Callable[[Slab], None]) -> tuple[MappedSlab, NDArray[np.uint8]]:
        return slab, np.asarray(Lease(slab, take_back))

    def take_released(self, worker: int) -> list[int]:
        """Numbers of the worker's slabs whose leases have ended since the last call."""
        released = self._released.get(worker)
        if not released:
            return []
        count = len(released)
        taken = released[:count]
        del released[:count]
        return taken

    def introduce(self, worker: int, blocks: Sequence[Any]) -> tuple[dict[SlabName, int], list[SlabName], list[int]]:
        """Slabs of blocks that a worker is to read: their sizes, and names and descriptors of those it has not seen."""
        slabs = {name: slab for block in blocks for name, (slab, _) in block.leases.items()}
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
