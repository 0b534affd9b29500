"""Rows in Ray's object store, and the arrays that look at them.

In: elements. Out: a pickle and the memory of large arrays, which Ray puts into its store; and the elements again, whose arrays
stand on the store's memory, read-only. Ray keeps that memory as it is until the last of them is gone.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence, Set
from typing import Any, Protocol
from weakref import WeakSet

import cloudpickle
import numpy as np

from ....operations.trees import flatten
from ...work.slabs import SlabPool
from ...work.stacked_rows import RowStack, StackedRows, side_by_side
from ...work.stopwatch import bytes_of
from ...work.tasks import PackedTags

IN_THE_PICKLE = 512
"""Bytes of the largest array that is copied into the pickle of a block. Chosen: as of arrays that get no place on slabs."""

STACKED_BELOW = 16 << 10
"""Bytes of the largest rows that are put side by side before they go. Chosen: of larger ones the copy costs more."""

StoredRows = tuple[bytes, list[Any]]
"""A pickle, and the memory of its large arrays: `PickleBuffer`s on the way to the store, Ray's buffers on the way back."""


NamedStored = tuple[int, int, int, PackedTags]
"""As `NamedRows`: number of a block that goes along, which of its rows, and their tags."""


class View:
    """Memory of the store. Arrays on it have this as their base, so that it lives as long as they do."""

    __slots__ = ("__array_interface__", "__weakref__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.__array_interface__ = np.frombuffer(buffer, np.uint8).__array_interface__
        _VIEWS.add(self)


_VIEWS: WeakSet[View] = WeakSet()


class Held:
    """Holds objects that a forked child must not give back, as it shares the connection to the store with its parent."""

    _held: tuple[Any, ...] = ()

    @classmethod
    def hold(cls) -> None:
        """Before a fork."""
        cls._held = (*_VIEWS, *OF_THIS_PROCESS)

    @classmethod
    def let_go(cls) -> None:
        """After it, in the parent."""
        cls._held = ()


OF_THIS_PROCESS: WeakSet[Any] = WeakSet()
"""Transports and rows, which have references to what is in the store."""

os.register_at_fork(before=Held.hold, after_in_parent=Held.let_go)


def stored(elements: Any, pool: SlabPool) -> tuple[StoredRows, int]:
    """Elements as they go to the store, and how many bytes that are.

    Raises what fails in pickling them.
    """
    buffers: list[Any] = []

    def goes_into_the_pickle(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < IN_THE_PICKLE:
            return True
        buffers.append(buffer)
        return False

    data = cloudpickle.dumps(_stacked(elements, pool), protocol=5, buffer_callback=goes_into_the_pickle)
    return (data, buffers), len(data) + sum(buffer.raw().nbytes for buffer in buffers)


def _stacked(elements: Any, pool: SlabPool) -> Any:
    """Rows as a few arrays, if there are many small ones, or if they lie side by side."""
    if isinstance(elements, StackedRows) or len(elements) < 2:
        return elements
    if bytes_of(elements[0]) >= STACKED_BELOW:
        return side_by_side(elements) or elements
    rows = RowStack(len(elements), pool.allocate)
    rows.extend(elements)
    return rows.finish()


def loaded(rows: StoredRows) -> list[Any] | StackedRows:
    """The elements again, or the columns that they were put into."""
    data, buffers = rows
    return pickle.loads(data, buffers=[np.asarray(View(buffer)) for buffer in buffers])  # type: ignore[no-any-return]


def to_write_to(rows: list[Any] | StackedRows) -> list[Any] | StackedRows:
    """Rows for operations that may change what they are given: copies of arrays that are read-only."""
    if isinstance(rows, StackedRows):
        return StackedRows([column.copy() for column in rows.columns], rows.kinds, rows.example)
    leaves, structure = flatten(rows)
    return structure.unflatten(list(map(_writable, leaves)))  # type: ignore[return-value]


def _writable(leaf: Any) -> Any:
    return leaf.copy() if type(leaf) is np.ndarray and not leaf.flags.writeable else leaf


def as_list(rows: list[Any] | StackedRows) -> list[Any]:
    """The rows one by one."""
    return list(rows.elements(0, len(rows))) if isinstance(rows, StackedRows) else rows


def memory_of(buffers: Sequence[Any]) -> list[Any]:
    """Buffers that stand beside a pickle, on their way to the store."""
    return [pickle.PickleBuffer(buffer) for buffer in buffers]


LOST = ""
"""In place of the node of rows that Ray has lost, wherever they were."""


class Fetch(Protocol):
    """Brings rows here; None: they did not come within a second, or are lost."""

    def __call__(self, rows: RayRows) -> list[Any] | None: ...


class RayRows:
    """Rows of a block in the object store, until somebody wants them here. Their arrays look at the store."""

    def __init__(self, reference: Any, node: str, gone: Set[str], fetch: Fetch) -> None:
        self.reference = reference
        self.node = node
        self._gone = gone  # nodes, by their ids
        self._fetch = fetch
        OF_THIS_PROCESS.add(self)

    @property
    def lost(self) -> bool:
        """True if the node is gone that had them, or Ray has lost them."""
        return self.node in self._gone

    def load(self) -> list[Any] | None:
        """The rows."""
        return self._fetch(self)
