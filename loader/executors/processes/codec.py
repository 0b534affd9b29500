"""Elements as bytes, with their arrays left where they are: on slabs.

In, in a worker: elements. Out: a few hundred bytes that name slabs and places on them; and back, in another process.

Arrays that stand on a slab of the encoder's already are only named; plain ones that do not are copied there, all of a block
to one slab; all else (objects, strings, tiny arrays) goes into the bytes by pickle. A worker sends each slab of a block to
the user's process once, on loan, until it is released.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from ....operations.protocol import ArraySpec
from ....operations.trees import flatten
from ...work.slabs import Lease, SlabPool, lease_of
from ...work.stacked_rows import RowStack, StackedRows, side_by_side
from .channel import ArrayPlace, Encoded, SlabName

TINY = 512
"""Bytes of an array that is not worth a place on a slab. Chosen."""


class Encoder:
    """Encodes elements whose arrays stand on slabs of `pool`, the pool of worker `worker`."""

    def __init__(self, worker: int, pool: SlabPool) -> None:
        self._worker = worker
        self._pool = pool

    def encode(self, elements: list[Any] | StackedRows) -> tuple[Encoded, list[Lease]]:
        """The elements, and the leases of the slabs that must stay as they are until released."""
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
        """The same elements, with all arrays that are worth it on slabs."""
        leaves, structure = flatten(elements)
        foreign = [index for index, leaf in enumerate(leaves) if _worth_a_place(leaf) and self._lease_of(leaf) is None]
        if not foreign:
            return elements
        places = self._pool.allocate([ArraySpec(leaves[index].shape, leaves[index].dtype) for index in foreign])
        for index, place in zip(foreign, places):
            place[...] = leaves[index]
            leaves[index] = place
        return structure.unflatten(leaves)  # type: ignore[return-value]

    def _placed_already(self, element: Any) -> bool:
        return any(_worth_a_place(leaf) and self._lease_of(leaf) is not None for leaf in flatten(element)[0])

    def _lease_of(self, array: NDArray[Any]) -> Lease | None:
        lease = lease_of(array)
        return lease if lease is not None and lease.slab.number >= 0 else None


def _worth_a_place(leaf: Any) -> bool:
    return type(leaf) is np.ndarray and leaf.nbytes >= TINY and not leaf.dtype.hasobject


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Numbers arrays on slabs in place of pickling them."""

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
        self.places.append(((self.worker, slab), offset, value.shape, dtype.str, strides, flags.writeable))
        number = len(self.places) - 1
        return number if named else (number, dtype)


def decode(rows: Encoded, memory_of: Callable[[SlabName], NDArray[np.uint8]]) -> list[Any] | StackedRows:
    """The elements again, or the columns that they were stacked to. Arrays stand on the given memory, and keep it."""
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
        array: NDArray[Any] = np.ndarray(shape, dtype or kind, self.memory_of(slab), offset, strides)
        if not writeable:
            array.flags.writeable = False
        return array
