"""Batches by budget of elements whose lengths are known: the records of a batch are known before any is read.

In: elements. Out: batches, as the operation `BudgetBatch` makes them; each at its index, and other ones in each epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.costs import Cost, as_lengths
from ...common.messages import short_repr
from ...errors import LengthsError
from ...loader.plan.budget.order import BudgetOrder
from ...loader.plan.budget.planned import batches_of, whole_lengths
from ...loader.plan.budget.source import BudgetSource
from ...operations import BudgetBatch
from ...samplers.index_maps import IndexMap, Indices, Repeat
from ...samplers.protocol import ENDLESS
from ...sources.lengths import lengths_of
from ...sources.provenance import UsedRecord
from ..arguments import finite
from .line import Line
from .node import Node, OfSeveral, fingerprint_of_node


class NodeRecords:
    """The elements of a node by epoch and place. Where it is shuffled anew in each epoch, those of the first."""

    reads_singly = False

    def __init__(self, node: Node) -> None:
        self._node = node
        self.reads_ahead = node.reads_ahead

    def __repr__(self) -> str:
        return f"MapDataset of {self._node.kind}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The node's."""
        return fingerprint_of_node(self._node)

    def keys(self, places: Indices) -> Indices:
        """The indices of elements."""
        return places

    def place_of(self, key: int, count: int) -> int | None:
        """The index itself."""
        return key if key < count else None

    def records(self, epochs: Indices, places: Indices) -> Sequence[Any]:
        """The elements, in one call."""
        return self._node.records(places if self._node.reshuffles else places + epochs * self._node.length)

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]:
        return self._node.made_of(place)


class BudgetLine(Line):
    """A line whose order are batches: it can be repeated, and in any other order it is evaluated."""

    def reordered(self, index_map: IndexMap) -> Line | None:
        """The same with more epochs; None for another order."""
        order = self.alone
        if not isinstance(index_map, Repeat) or not index_map.keeps_indices or self.operations:
            return None
        assert isinstance(order, BudgetOrder), "set when it was made"
        return dataclasses.replace(self, length=index_map.length, alone=order.repeated(index_map.epochs))


@dataclass(frozen=True, eq=False)
class BudgetBatched(OfSeveral):
    """Batches of an epoch's elements.

    Attributes:
        operation: how they are batched.
        source: of the batches.
        order: of an unsharded run.
    """

    operation: BudgetBatch
    source: BudgetSource
    order: BudgetOrder

    @classmethod
    def of(cls, node: Node, operation: BudgetBatch) -> BudgetBatched:
        """The node over another one.

        Raises:
            LengthsError: nobody tells the lengths of its elements.
            ValueError: the elements never end.
        """
        count = finite("budget_batch", node.length)
        places, lengths = np.arange(count, dtype=np.int64), operation.lengths
        name = lengths if isinstance(lengths, str) else None
        known = node.lengths_at(places, name) if lengths is None or name else lengths
        if known is None and name:
            raise LengthsError(
                f"lengths={short_repr(name)} is a field of a source's records, and maps before budget_batch may change it; "
                "pass an array, or a function of an element."
            )
        if known is None:
            raise LengthsError(
                "budget_batch of a MapDataset is planned from the lengths of its elements, which only sources with `lengths` "
                "tell, as long as nothing but their order is changed. Pass lengths=, or make batches of the stream: "
                "to_iter_dataset().budget_batch(…)."
            )
        if node.left_out_by:
            raise LengthsError(
                f"budget_batch can not follow MapDataset.{node.left_out_by}, which leaves elements out; make batches of the "
                "stream, to_iter_dataset().budget_batch(…)."
            )
        if lengths is None:
            of_places = whole_lengths(known, count)
        elif callable(lengths):
            of_places = lengths_of(NodeElements(node), lengths)
        else:
            of_places = as_lengths(known, count)
        identity = [node.identity, count]
        source, order = batches_of(NodeRecords(node), operation, of_places, 1, None, identity)
        return cls(node, operation, source, order)

    @property
    def length(self) -> int:
        return self.order.epoch_length

    @property
    def reshuffles(self) -> bool:
        """Each epoch has other batches."""
        return True

    @property
    def parameters(self) -> Any:
        return self.order.fingerprint

    def records(self, indices: Indices) -> Sequence[Any]:
        """The batches; all elements are read in one call."""
        return self.source.__getitems__(self.order.record_keys(indices)) if len(indices) else []

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Those of its elements, each in a row."""
        return self.source.made_of(int(self.order.record_keys(np.array([index]))[0]))

    @property
    def line(self) -> Line:
        """The batches, in the order for any number of shards."""
        return BudgetLine(self.source, ENDLESS, self.length, self.length, alone=self.order)


class NodeElements:
    """The elements of an epoch of a node as a source, to be measured."""

    array_keys = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def __len__(self) -> int:
        return self._node.length

    def packed_costs(self, cost: Cost | None) -> Any:
        """As of the node."""
        return self._node.packed_costs(cost)

    @property
    def lengths(self) -> Any:
        """As of the node."""
        return self._node.lengths_at(np.arange(len(self), dtype=np.int64))

    def __getitem__(self, index: int) -> Any:
        return self._node.records(np.array([index]))[0]

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        return self._node.records(indices)
