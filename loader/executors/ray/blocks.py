"""Rows in Ray's object store, and the arrays that look at them.

In: elements. Out: a pickle and the memory of large arrays, which Ray puts into its store; and the elements again, whose arrays
stand on the store's memory, read-only. Ray keeps that memory as it is until the last of them is gone.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import cloudpickle
import numpy as np

from ....operations.trees import flatten
from ...work.slabs import SlabPool
from ...work.stacked_rows import RowStack, StackedRows, side_by_side
from ...work.stopwatch import bytes_of
from .tuned import IN_THE_PICKLE, STACKED_BELOW

StoredRows = tuple[bytes, list[Any]]
"""A pickle, and the memory of its large arrays: `PickleBuffer`s on the way to the store, Ray's buffers on the way back."""


class View:
    """Memory of the store. Arrays on it have this as their base, so that it lives as long as they do."""

    __slots__ = ("__array_interface__", "__weakref__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.__array_interface__ = np.frombuffer(buffer, np.uint8).__array_interface__
        _VIEWS.add(self)


_VIEWS: WeakSet[View] = WeakSet()


class Held:
    """What must not be given back in a forked child, which shares the connection to the store with its parent."""

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
"""Executors, which have references to what lies in the store."""

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
