"""Nodes that apply an operation to elements, and give the result at any index.

An element that an operation drops becomes None, and stays None in later nodes. The function that
applies the operation is the same as in the engine of `DataLoader`, so node and engine give the same
results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...common.generators.keyed_random import child_row
from ...common.messages import short_repr
from ...operations import Operation
from ...operations.protocol import fingerprint
from ...operations.runner import Runner
from ...samplers.chain.index_maps import Indices
from ...samplers.protocol import ENDLESS
from ...sources.provenance import UsedRecord
from .budgeted import BudgetBatched
from .line import Line
from .node import Get, Node, OnOne, naming_datasets
from .packed import Packed


def applied(node: Node, operation: Operation) -> Node:
    """Make the node that applies an operation to the elements of `node`.

    Raises:
        TypeError: if the operation makes one result of several elements, and it is unknown in
            advance which elements make the result at an index.
        ValueError, LengthsError, PackError: if the result at an index is unknown in advance for
            another reason, such as unknown lengths; or if batches of several shapes would be
            stacked.
    """
    if operation.plans_batches:
        return BudgetBatched.of(node, cast(Any, operation))
    if operation.plans_rows:
        return Packed.of(node, cast(Any, operation), None)
    if operation.takes is not None and operation.one_to_one:
        if sparse := node.left_out_by:
            raise ValueError(
                f"`MapDataset.batch` can not follow `MapDataset.{sparse}`, which may leave "
                "elements out. Make the batches in a stream: to_iter_dataset().batch(…)."
            )
        if isinstance(node, BudgetBatched):
            node.order.windows.shapes.check_stacked(operation)
        return Batched(node, operation, operation.takes)
    if operation.takes is not None:
        raise TypeError(
            f"{short_repr(operation)} takes several elements at once, so a MapDataset cannot know "
            "which ones make the element at an index. Use it in a stream: "
            "to_iter_dataset().apply(…)."
        )
    if operation.one_to_one or operation.only_filters:
        return Applied(node, operation)
    if not operation.max_fan_out:
        raise ValueError(
            "flat_map of a MapDataset needs max_fan_out=, the largest number of elements that one "
            "element may become. Pass max_fan_out= of at least 1, or use "
            "to_iter_dataset().flat_map(…), which does not need it."
        )
    return FlatMapped(node, operation)


@dataclass(frozen=True, eq=False)
class Applied(OnOne):
    """A node that applies `operation` to each element of the node `input`.

    If the operation drops an element, the node has None at the element's index. This class is also
    the base of nodes for batches and flat maps.
    """

    operation: Operation

    keeps_indices = True

    @property
    def kind(self) -> str:
        return self.operation.node_name or type(self.operation).__qualname__

    @property
    def parameters(self) -> Any:
        return fingerprint(self.operation)

    @property
    def left_out_by(self) -> str | None:
        """Name of a method or operation that may drop elements; None if no element is dropped.

        It is this node's operation, or belongs to a node between the source and this node.
        """
        return (
            super().left_out_by if self.operation.one_to_one else self.operation.method or self.kind
        )

    @property
    def may_be_none(self) -> bool:
        return not self.operation.one_to_one or super().may_be_none

    @property
    def operations(self) -> int:
        return int(self.input.operations) + 1

    @cached_property
    def run(self) -> Runner:
        """Object that applies the operation to consecutive elements. Any thread may use it."""
        return Runner((self.operation,))

    @cached_property
    def _at(self) -> Callable[[Any, int], Any]:
        """Function that applies the operation to an element that is not None: `(element, index)`.

        It returns the result, or None if the operation drops the element.
        """
        run, place, plain = self.run, self.input.place, self.operation.plain_function
        if plain is not None and self.operation.only_filters:
            return lambda element, index: element if plain(element) else None
        if plain is not None:
            return lambda element, index: plain(element)
        if self.operation.reads_index or not self.operation.reads_position:
            return lambda element, index: next(iter(run((element,), index, 0)), None)
        return lambda element, index: next(iter(run((element,), *place(index))), None)

    def records(self, indices: Indices) -> Sequence[Any]:
        at, below = self._at, zip(self.input.records(indices), indices.tolist())
        return [None if element is None else at(element, index) for element, index in below]

    def getter(self) -> Get:
        get, at = self.input.getter(), self._at

        def result(index: int) -> Any:
            element = get(index)
            return None if element is None else at(element, index)

        return result

    def place(self, index: int) -> tuple[int, int]:
        """Return two numbers, position and row, from which random maps derive their random numbers.

        Both numbers are those of the element of `input` from which the element is made; or `(index,
        0)` if the engine cannot run the operation itself, and uses this node as a source.
        """
        return self.input.place(index) if self._engine_agrees else (index, 0)

    @cached_property
    def _engine_agrees(self) -> bool:
        """True if the engine gets this node's results when it runs the operation itself."""
        # For the engine, the index of an element is its position, which is not so after a batch.
        return not self.operation.reads_index or self.input.line.keeps_positions

    @property
    def line(self) -> Line:
        """The `Line` (source, order, operations) of the node `input`, with this node's operation.

        If the engine would get other results than this node, the `Line` has this node as its
        source, and no operations.
        """
        if not self._engine_agrees:
            return self.evaluated
        return self.input.line.then(self.operation, moves_freely=not self.operation.reads_position)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        """Separate the operation from a shuffle, slice or repeat of the elements before it.

        Returns:
            this node without the reordering; and a `Line` (source, order, operations) with only the
            reordering. If the operation depends on positions, nothing is separated: this node
            itself; and a `Line` with the order of its elements.
        """
        if self.operation.reads_position:
            return super().base_and_order
        base, order = self.input.base_and_order
        return dataclasses.replace(self, input=base), order


@dataclass(frozen=True, eq=False)
class Regrouped(Applied):
    """Base of nodes for batches and flat maps, which change the indices of elements."""

    keeps_indices = False

    def getter(self) -> Get:
        return Node.getter(self)

    @property
    def line(self) -> Line:
        return self.input.line.then(self.operation, moves_freely=False, keeps_positions=False)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        """Return this node, and a `Line` (source, order, operations) with its elements' order.

        A shuffle, slice or repeat before the operation is not separated from this node: batches of
        elements in another order would be other batches.
        """
        return self, self.evaluated


@dataclass(frozen=True, eq=False)
class FlatMapped(Regrouped):
    """A node of a flat map, which makes up to `max_fan_out` elements of each element of `input`.

    Each element of `input` gets `max_fan_out` indices. The element at an unused index is None.
    """

    @cached_property
    def _fan_out(self) -> int:
        return self.operation.max_fan_out or 0

    @property
    def length(self) -> int:
        return min(self.input.length * self._fan_out, ENDLESS)

    def records(self, indices: Indices) -> Sequence[Any]:
        """Return the elements at indices `int64[n]`. Each element of `input` is read once."""
        below, children = np.divmod(indices, self._fan_out)
        distinct, which = np.unique(below, return_inverse=True)
        families = list(map(self._children, self.input.records(distinct), distinct.tolist()))
        return [
            _item(families[family], child)
            for family, child in zip(which.tolist(), children.tolist())
        ]

    def getter(self) -> Get:
        get, fan_out = self.input.getter(), self._fan_out
        return lambda index: _item(
            self._children(get(index // fan_out), index // fan_out), index % fan_out
        )

    def _children(self, element: Any, index: int) -> Sequence[Any]:
        return () if element is None else self.run((element,), *self.input.place(index))

    def dataset_at(self, index: int) -> str | None:
        return self.input.dataset_at(index // self._fan_out)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        return self.input.made_of(index // self._fan_out)

    def place(self, index: int) -> tuple[int, int]:
        """Return two numbers, position and row, from which random maps derive their random numbers.

        The position is that of the element of `input` from which the element is made. The row is
        computed from the row of this element of `input`, and the index among the elements that are
        made of it.
        """
        below, child = divmod(index, self._fan_out)
        position, row = self.input.place(below)
        return position, child_row(row, child)


def _item(items: Sequence[Any], number: int) -> Any:
    return items[number] if number < len(items) else None


@dataclass(frozen=True, eq=False)
class Batched(Regrouped):
    """A node of batches of `size` consecutive elements. No batch crosses the end of an epoch."""

    size: int

    @property
    def length(self) -> int:
        below, size = self.input.length, self.size
        if below >= ENDLESS:
            return ENDLESS
        return below // size if self.operation.drops_remainder else -(-below // size)

    @property
    def parameters(self) -> Any:
        return [fingerprint(self.operation), self.size]

    @property
    def may_be_none(self) -> bool:
        return False

    def records(self, indices: Indices) -> Sequence[Any]:
        """Return the batches at indices `int64[n]`. All elements are read in one call."""
        parts = [self._below(index) for index in indices.tolist()]
        wanted = np.concatenate([np.arange(*part, dtype=np.int64) for part in parts] or [indices])
        elements = iter(self.input.records(wanted))
        with naming_datasets(self.input, wanted):
            return [self._batch([next(elements) for _ in range(*part)], part[0]) for part in parts]

    def _batch(self, elements: list[Any], start: int) -> Any:
        return self.run(
            elements, *(self.input.place(start) if self.operation.reads_position else (start, 0))
        )[0]

    def _below(self, index: int) -> tuple[int, int]:
        """Return the index of a batch's first element, and the index after its last element.

        These are indices of the node whose elements are batched.

        Raises:
            IndexError: if one of the two indices exceeds 64 bits.
        """
        below, size = self.input.length, self.size
        epoch, number = divmod(index, self.length)
        start, stop = epoch * below + number * size, epoch * below + min((number + 1) * size, below)
        if not -ENDLESS <= start < stop <= ENDLESS:
            raise IndexError(
                f"index {index} is too far from 0 for batches of {size}: their elements must have "
                "indices from -2**63 + 1 to 2**63 - 2. Pass an index nearer to 0."
            )
        return start, stop

    def dataset_at(self, index: int) -> None:
        """Return None, because a batch may contain elements of several datasets."""

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        rows = enumerate(range(*self._below(index)))
        return [used._replace(row=row) for row, below in rows for used in self.input.made_of(below)]

    def place(self, index: int) -> tuple[int, int]:
        """Return two numbers, position and row, from which random maps derive their random numbers.

        Both numbers are those of the batch's first element. If the last batch of an epoch is
        dropped because it is not full, its elements are not counted in positions.
        """
        return self.input.place(
            index * self.size if self.operation.drops_remainder else self._below(index)[0]
        )
