"""Nodes that do something to elements: operations, evaluated for any index.

In: elements of one node. Out: elements. None passes through: it stands for an element that was left out.

A node gives what the operation gives in the engine at the same place; so it does not matter which of the two evaluates it.
"""

from __future__ import annotations

import dataclasses
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...common.keyed_random import KeyedGenerator, child_row
from ...common.messages import short_repr
from ...errors import FanOutError
from ...operations import Batch, Filter, FlatMap, MapTransform, MapWithIndexTransform, Operation
from ...operations.batch import stacked
from ...operations.identity import fingerprint
from ...operations.keyed import KeyedRandomMap
from ...samplers.index_maps import Indices
from ...samplers.protocol import ENDLESS
from ...sources.used_records import UsedRecord, in_row
from .line import Line
from .node import Get, Node, OnOne, telling_datasets

_WORD = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Applied(OnOne):
    """Base: an operation on the elements of a node."""

    operation: Operation

    moves_freely: ClassVar[bool] = False
    """See `Line`."""

    @property
    def parameters(self) -> Any:
        """As the base says."""
        return fingerprint(self.operation)

    @property
    def operations(self) -> int:
        """As the base says."""
        return self.input.operations + 1

    def place(self, index: int) -> tuple[int, int]:
        """As the base says."""
        return self.input.place(index)

    @property
    def line(self) -> Line:
        """As the base says."""
        return self.input.line.then(self.operation, self.moves_freely)

    @property
    def apart(self) -> tuple[Node, Line]:
        """As the base says."""
        if not self.moves_freely:
            return super().apart
        base, order = self.input.apart
        return dataclasses.replace(self, input=base), order


@dataclass(frozen=True, eq=False)
class Mapped(Applied):
    """A function of each element."""

    operation: MapTransform
    moves_freely: ClassVar[bool] = True

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        function = self.operation.function
        return [None if element is None else function(element) for element in self.input.records(indices)]

    def getter(self) -> Get:
        """As the base says."""
        get, function = self.input.getter(), self.operation.function

        def mapped(index: int) -> Any:
            element = get(index)
            return None if element is None else function(element)

        return mapped


@dataclass(frozen=True, eq=False)
class Filtered(Applied):
    """None where a function is false."""

    operation: Filter
    moves_freely: ClassVar[bool] = True
    sparse_as: ClassVar[str | None] = "filter"

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        keeps = self.operation.function
        elements = self.input.records(indices)
        return [element if element is not None and keeps(element) else None for element in elements]

    def getter(self) -> Get:
        """As the base says."""
        get, keeps = self.input.getter(), self.operation.function

        def filtered(index: int) -> Any:
            element = get(index)
            return element if element is not None and keeps(element) else None

        return filtered


@dataclass(frozen=True, eq=False)
class OfIndex(Applied):
    """A function of each element and its index, whatever else it needs."""

    @property
    @abstractmethod
    def function(self) -> Callable[[int, Any], Any]:
        """Of an index and the element there."""

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        function, elements = self.function, self.input.records(indices)
        return [
            None if element is None else function(index, element) for index, element in zip(indices.tolist(), elements)
        ]

    def getter(self) -> Get:
        """As the base says."""
        get, function = self.input.getter(), self.function

        def mapped(index: int) -> Any:
            element = get(index)
            return None if element is None else function(index, element)

        return mapped

    def place(self, index: int) -> tuple[int, int]:
        """As the base says; what is evaluated counts its own elements."""
        return self.input.place(index) if self._at_position else (index, 0)

    @property
    def line(self) -> Line:
        """As the base says; after a batch or a flat map, a position is no index."""
        return self.input.line.then(self.operation, self.moves_freely) if self._at_position else self.evaluated

    @cached_property
    def _at_position(self) -> bool:
        """Whether the engine can take it apart, as an element is at the position of its index."""
        return self.input.line.keeps_positions


@dataclass(frozen=True, eq=False)
class IndexMapped(OfIndex):
    """A user's function of each element and its index."""

    operation: MapWithIndexTransform

    @property
    def function(self) -> Callable[[int, Any], Any]:
        """As the base says."""
        return self.operation.function


@dataclass(frozen=True, eq=False)
class RandomMapped(Applied):
    """A function of each element and a generator."""

    operation: KeyedRandomMap

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        draw = self._drawing(self.operation.generator())
        return list(map(draw, self.input.records(indices), indices.tolist()))

    def getter(self) -> Get:
        """As the base says; each thread has a generator of its own."""
        get, mine = self.input.getter(), threading.local()

        def mapped(index: int) -> Any:
            draw = getattr(mine, "draw", None)
            if draw is None:
                draw = mine.draw = self._drawing(self.operation.generator())
            return draw(get(index), index)

        return mapped

    def _drawing(self, generator: KeyedGenerator) -> Any:
        function, seed, place, at = self.operation.transform.function, self.operation.seed, self.place, generator.at

        def draw(element: Any, index: int) -> Any:
            if element is None:
                return None
            position, row = place(index)
            return function(element, at(seed, position & _WORD, row))

        return draw


@dataclass(frozen=True, eq=False)
class FlatMapped(Applied):
    """Several elements of each: as many indices as there may be at most, and None where there are fewer."""

    operation: FlatMap
    sparse_as: ClassVar[str | None] = "flat_map"

    @cached_property
    def _fan_out(self) -> int:
        return self.operation.max_fan_out or 0

    @property
    def length(self) -> int:
        """As the base says."""
        return min(self.input.length * self._fan_out, ENDLESS)

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says; each element below is read once."""
        below, children = np.divmod(indices, self._fan_out)
        distinct, which = np.unique(below, return_inverse=True)
        families = list(map(self._children, self.input.records(distinct)))
        return [_item(families[family], child) for family, child in zip(which.tolist(), children.tolist())]

    def getter(self) -> Get:
        """As the base says."""
        get, fan_out = self.input.getter(), self._fan_out
        return lambda index: _item(self._children(get(index // fan_out)), index % fan_out)

    def _children(self, element: Any) -> Sequence[Any]:
        if element is None:
            return ()
        found: Iterable[Any] | None = self.operation.function(element)
        if found is None:
            raise TypeError(
                f"{short_repr(self.operation)} gave None for an element; return a list, [] to drop the element."
            )
        children = list(found)
        if len(children) > self._fan_out:
            raise FanOutError(
                f"{short_repr(self.operation)} made more than max_fan_out={self._fan_out} elements of one; raise it or "
                "return fewer."
            )
        return children

    def dataset_at(self, index: int) -> str | None:
        """As the base says."""
        return self.input.dataset_at(index // self._fan_out)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """As the base says."""
        return self.input.made_of(index // self._fan_out)

    def place(self, index: int) -> tuple[int, int]:
        """As the base says."""
        below, child = divmod(index, self._fan_out)
        position, row = self.input.place(below)
        return position, child_row(row, child)

    @property
    def line(self) -> Line:
        """As the base says."""
        return self.input.line.then(self.operation, moves_freely=False, keeps_positions=False)


def _item(items: Sequence[Any], number: int) -> Any:
    return items[number] if number < len(items) else None


@dataclass(frozen=True, eq=False)
class Batched(Applied):
    """Batches of consecutive elements; each epoch is put into batches on its own."""

    operation: Batch

    @property
    def length(self) -> int:
        """As the base says."""
        below, size = self.input.length, self.operation.batch_size
        if below >= ENDLESS:
            return ENDLESS
        return below // size if self.operation.drop_remainder else -(-below // size)

    @property
    def parameters(self) -> Any:
        """As the base says."""
        return [fingerprint(self.operation), self.operation.batch_size]

    @property
    def may_be_none(self) -> bool:
        """As the base says."""
        return False

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says; all elements are read in one call."""
        parts = [self._below(index) for index in indices.tolist()]
        wanted = np.concatenate([np.arange(*part, dtype=np.int64) for part in parts] or [indices])
        elements = iter(self.input.records(wanted))
        with telling_datasets(self.input, wanted):
            return [self._batch([next(elements) for _ in range(*part)]) for part in parts]

    def _below(self, index: int) -> tuple[int, int]:
        """The first index of a batch's elements, and the one after the last."""
        below, size = self.input.length, self.operation.batch_size
        epoch, number = divmod(index, self.length)
        start, stop = epoch * below + number * size, epoch * below + min((number + 1) * size, below)
        if not -ENDLESS <= start < stop <= ENDLESS:
            raise IndexError(
                f"index {index} of batches of {size} is too large: their elements have indices up to 2**63 - 1."
            )
        return start, stop

    def _batch(self, elements: list[Any]) -> Any:
        batch_fn = self.operation.batch_fn
        return stacked(elements) if batch_fn is None else batch_fn(elements)

    def dataset_at(self, index: int) -> None:
        """None: a batch may have elements of several."""

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """As the base says."""
        rows = enumerate(range(*self._below(index)))
        return [used for row, below in rows for used in in_row(self.input.made_of(below), row)]

    def place(self, index: int) -> tuple[int, int]:
        """As the base says: the place of its first element; what is dropped does not count."""
        drops = self.operation.drop_remainder
        return self.input.place(index * self.operation.batch_size if drops else self._below(index)[0])

    @property
    def line(self) -> Line:
        """As the base says."""
        return self.input.line.then(self.operation, moves_freely=False, keeps_positions=False)
