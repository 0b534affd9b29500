"""Send rows between processes: arrays in shared memory, everything else as bytes.

A slab is a piece of shared memory that holds arrays and is used again when no array on it is in
use. In a worker, `ExportedSlabs` makes slabs and lends them, and `Encoder` puts rows on them. In
the user's process, `WorkerSlabs` maps each slab once, and `SlabRows` are rows on slabs. A slab is
known by a file descriptor, which is sent with a message, so that no file is left behind.

For an array that is already on one of the encoder's slabs, only its place is sent. Other plain
arrays are copied: all arrays of a block (the rows of one task) to one slab. Everything else
(objects, strings, tiny arrays) is pickled into the bytes. The worker sends the descriptor of each
slab to the user's process once, and writes to a slab only after the user's process has released it.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common.pickled import Pickler
from ....operations.protocol import ArraySpec
from ....operations.trees import ROWS, flatten
from ...work.slabs import Lease, Slab, SlabPool, attach_shared, create_shared, lease_of, rounded
from ...work.stacked_rows import RowStack, StackedRows, side_by_side
from .channel import ArrayPlace, Done, Encoded, SlabName

# Chosen.
TINY = 512
"""Bytes below which an array is pickled, and not put on a slab (a reusable piece of memory)."""


class ExportedSlabs:
    """The slabs (pieces of shared memory) that this worker has made, to lend to other processes."""

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
        """Record that slabs (pieces of this worker's memory) are lent to the user's process.

        This process does not write to a slab until `release` was called for it as often as `lend`.
        """
        for lease in leases:
            self._lent.setdefault(lease.slab.number, []).append(lease)
            if lease.slab.number not in self._known:
                self._known.add(lease.slab.number)
                self._introduced.append(lease.slab.number)

    def release(self, numbers: list[int]) -> None:
        """Record that the user's process has returned slabs (pieces of shared memory), by number.

        A slab that was lent several times is free when its number has come as often.
        """
        for number in numbers:
            leases = self._lent[number]
            leases.pop()
            if not leases:
                del self._lent[number]

    def take_introduced(self) -> list[int]:
        """Return numbers of slabs whose file descriptors must be sent to the user's process.

        A slab is a piece of shared memory. Each number is returned once.
        """
        introduced, self._introduced = self._introduced, []
        return introduced

    def take_dropped(self) -> list[int]:
        """Return numbers of slabs (pieces of shared memory) that this worker has stopped using.

        Other processes can unmap these slabs. Each number is returned once.
        """
        dropped, self._dropped = self._dropped, []
        return dropped

    def descriptor(self, number: int) -> int:
        """Return the file descriptor of a slab (piece of shared memory), given its number.

        The descriptor must still be open.
        """
        return self._descriptors[number]

    def close(self, numbers: list[int]) -> None:
        """Close the file descriptors of slabs (pieces of memory), given the numbers of the slabs.

        The memory stays mapped.
        """
        for number in numbers:
            descriptor = self._descriptors.pop(number, None)
            if descriptor is not None:
                os.close(descriptor)


class MappedSlab(Slab):
    """A worker's slab (piece of shared memory), mapped in this process.

    If the file descriptor `descriptor` is not -1, it is closed when this object is deleted.
    """

    def __init__(self, memory: NDArray[np.uint8], number: int, descriptor: int) -> None:
        super().__init__(memory, number)
        self.descriptor = descriptor

    def __del__(
        self, close: Callable[[int], None] = os.close
    ) -> None:  # at exit the name may be gone
        if self.descriptor >= 0:
            close(self.descriptor)


Leases = dict[SlabName, tuple[MappedSlab, NDArray[np.uint8]]]
"""Slabs (pieces of memory), by name, each with its memory as an array.

A slab is not reused while the array exists.
"""


class SlabRows:
    """Encoded rows of one task, whose arrays are on slabs (pieces of shared memory).

    The slabs are not reused as long as this object exists.
    """

    __slots__ = ("_decoded", "encoded", "leases")

    lost = False

    def __init__(self, encoded: Encoded, leases: Leases) -> None:
        self.encoded = encoded
        self.leases = leases
        self._decoded: list[Any] | StackedRows | None = None

    def load(self) -> list[Any]:
        """Return the decoded rows. Their memory is reused only when their arrays are deleted."""
        rows = self._decode()
        return rows if isinstance(rows, list) else list(rows.elements(0, len(rows)))

    def columns(self) -> StackedRows | None:
        """Return the rows as columns (an array per field); None if they were not stacked."""
        if self._decoded is None:
            self._decoded = self._decode()
        return None if isinstance(self._decoded, list) else self._decoded

    def _decode(self) -> list[Any] | StackedRows:
        return decode(
            self.encoded, {name: memory for name, (_, memory) in self.leases.items()}.__getitem__
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows in encoded form, for another worker, without the memory of their arrays.

        The message to the other worker also carries file descriptors of this memory.
        """
        return tuple, (self.encoded,)


class WorkerSlabs:
    """Slabs (pieces of shared memory) of one worker that the user's process has mapped.

    This object also knows which slabs of other workers the worker has mapped. A lease (the right to
    use a slab) may end in any thread at any moment. The slab is then added to the list `released`,
    and its number is sent to the worker later.
    """

    def __init__(
        self, worker: int, keep_descriptors: bool, note_bytes: Callable[[int], None]
    ) -> None:
        self.released: list[Slab] = []  # whose leases have ended
        self._worker = worker
        self._keep_descriptors = keep_descriptors
        self._note_bytes = note_bytes  # called with how many are mapped more, or fewer
        self._mapped: dict[int, MappedSlab] = {}
        self._shown: set[SlabName] = set()
        self._forgotten: list[SlabName] = []

    def take(self, done: Done, descriptors: Sequence[int]) -> list[SlabRows]:
        """Return the rows of each answer in a worker's message, and map slabs that are new here.

        A slab (piece of shared memory) is not reused as long as a returned object refers to it.
        `descriptors` are the file descriptors of the new slabs.
        """
        sizes = (
            {number: size for _, _, lent in done.answers for number, size in lent}
            if done.introduced
            else {}
        )
        for number, descriptor in zip(done.introduced, descriptors):
            self._mapped[number] = slab = MappedSlab(
                attach_shared(descriptor, sizes[number]), number, descriptor
            )
            self._note_bytes(sizes[number])
            if not self._keep_descriptors:
                os.close(descriptor)
                slab.descriptor = -1
        return [SlabRows(encoded, self._leased(lent)) for _, encoded, lent in done.answers]

    def _leased(self, lent: Sequence[tuple[int, int]]) -> Leases:
        slabs = [self._mapped[number] for number, _ in lent]
        take_back = self.released.append
        return {
            (self._worker, slab.number): (slab, np.asarray(Lease(slab, take_back, slab.interface)))
            for slab in slabs
        }

    def drop(self, numbers: Iterable[int] | None = None) -> list[SlabName]:
        """Forget slabs (pieces of shared memory), and return their names.

        Memory in use stays mapped. `numbers` are the numbers of the slabs; None means all slabs.
        """
        names = []
        for number in list(self._mapped) if numbers is None else numbers:
            if (slab := self._mapped.pop(number, None)) is not None:
                self._note_bytes(-len(slab.memory))
            names.append((self._worker, number))
        return names

    def take_released(self) -> list[int]:
        """Return the numbers of a worker's slabs whose use in this process has ended.

        A slab is a piece of shared memory. Slabs that an earlier call has returned are left out.
        """
        count = len(self.released)
        taken = [slab.number for slab in self.released[:count]]
        del self.released[:count]
        return taken

    def show(self, rows: Iterable[Any]) -> dict[SlabName, MappedSlab]:
        """Return the slabs of `rows` that a worker does not know yet, as a dict by name.

        A slab is a piece of shared memory. The caller must send the returned slabs to the worker.
        """
        slabs = {
            name: slab
            for some in rows
            for name, (slab, _) in some.leases.items()
            if name not in self._shown
        }
        self._shown.update(slabs)
        return slabs

    def take_forgotten(self) -> list[SlabName]:
        """Return the names of slabs that a worker has mapped and that no longer exist.

        They are slabs (pieces of memory) of other workers. Each name is returned once.
        """
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def forget(self, names: Iterable[SlabName]) -> None:
        """Record that slabs (pieces of memory) of other workers, given by name, no longer exist."""
        for name in self._shown.intersection(names):
            self._shown.discard(name)
            self._forgotten.append(name)


class Encoder:
    """Encodes elements of one worker for sending to other processes.

    Arrays are put on slabs (pieces of shared memory) of the pool `pool`.
    """

    def __init__(self, worker: int, pool: SlabPool) -> None:
        self._worker = worker
        self._pool = pool

    def encode(self, elements: list[Any] | StackedRows) -> tuple[Encoded, list[Lease]]:
        """Encode elements; return them with the leases of the slabs that have their arrays.

        A slab is a piece of shared memory, and a lease is the right to use it. As long as the
        leases exist, the slabs are not reused.
        """
        file = io.BytesIO()
        pickler = _Pickler(file, protocol=5)
        pickler.worker, pickler.places, pickler.leases = self._worker, [], {}
        if isinstance(elements, list):
            elements = self._stacked(elements)
        pickler.dump(self._placed(elements) if isinstance(elements, list) else elements)
        return (pickler.places, file.getvalue()), list(pickler.leases.values())

    def _stacked(self, elements: list[Any]) -> list[Any] | StackedRows:
        if len(elements) < 2:
            return elements
        if self._placed_already(elements[0]):
            return side_by_side(elements) or elements
        rows = RowStack(len(elements), self._pool.allocate)
        rows.extend(elements)
        return rows.finish()

    def _placed(self, elements: list[Any]) -> list[Any]:
        leaves, structure = flatten(elements, nodes=ROWS)
        foreign = [
            index
            for index, leaf in enumerate(leaves)
            if _worth_a_place(leaf) and self._lease_of(leaf) is None
        ]
        if not foreign:
            return elements
        places = self._pool.allocate(
            [ArraySpec(leaves[index].shape, leaves[index].dtype) for index in foreign]
        )
        for index, place in zip(foreign, places):
            place[...] = leaves[index]
            leaves[index] = place
        return structure.unflatten(leaves)  # type: ignore[return-value]

    def _placed_already(self, element: Any) -> bool:
        return any(
            _worth_a_place(leaf) and self._lease_of(leaf) is not None
            for leaf in flatten(element, nodes=ROWS)[0]
        )

    def _lease_of(self, array: NDArray[Any]) -> Lease | None:
        lease = lease_of(array)
        return lease if lease is not None and lease.slab.number >= 0 else None


def _worth_a_place(leaf: Any) -> bool:
    return type(leaf) is np.ndarray and leaf.nbytes >= TINY and not leaf.dtype.hasobject


class _Pickler(Pickler):
    """Pickler that writes a number in place of each array on a slab (piece of shared memory).

    The number is the array's index in the list `places`, which says where each array is.
    """

    worker: int
    places: list[ArrayPlace]
    leases: dict[int, Lease]

    def persistent_id(self, value: Any) -> Any:
        if type(value) is not np.ndarray or value.nbytes < TINY or value.dtype.hasobject:
            return None
        lease = lease_of(value)
        if lease is None or lease.slab.number < 0:
            return None
        slab, dtype, flags = lease.slab.number, value.dtype, value.flags
        self.leases[slab] = lease
        offset = value.__array_interface__["data"][0] - lease.__array_interface__["data"][0]
        named = dtype.isbuiltin != 2 and dtype.names is None and dtype.metadata is None
        strides = None if flags.c_contiguous else value.strides
        self.places.append(
            ((self.worker, slab), offset, value.shape, dtype.str, strides, flags.writeable)
        )
        number = len(self.places) - 1
        return number if named else (number, dtype)


def decode(
    rows: Encoded, memory_of: Callable[[SlabName], NDArray[np.uint8]]
) -> list[Any] | StackedRows:
    """Decode a result of `Encoder.encode`: return a list of elements, or stacked rows.

    The arrays are views of shared memory. The function `memory_of` takes the name of a slab (a
    piece of shared memory), and returns the bytes of the slab.
    """
    places, data = rows
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.places, unpickler.memory_of = places, memory_of
    return unpickler.load()  # type: ignore[no-any-return]


class _Unpickler(pickle.Unpickler):
    places: list[ArrayPlace]
    memory_of: Callable[[SlabName], NDArray[np.uint8]]

    def persistent_load(self, name: Any) -> NDArray[Any]:
        number, dtype = name if type(name) is tuple else (name, None)
        slab, offset, shape, kind, strides, writeable = self.places[number]
        array: NDArray[Any] = np.ndarray(
            shape, dtype or kind, self.memory_of(slab), offset, strides
        )
        if not writeable:
            array.flags.writeable = False
        return array
