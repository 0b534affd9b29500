"""Batches by budget (`BudgetBatch`) with random access, of elements whose lengths are known.

The batches are planned: it is known which elements each batch has before any of them is read.

In: elements. Out: the batches that the operation `BudgetBatch` makes, each at its index. Every
epoch has other batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.costs import as_lengths
from ...common.messages import first_few
from ...errors import LengthsError
from ...operations import BudgetBatch
from ...planned.budget.order import BudgetOrder
from ...planned.budget.planned import batches_of, whole_lengths
from ...planned.budget.source import BudgetSource
from ...samplers.chain.index_maps import IndexMap, Indices, Repeat
from ...samplers.protocol import ENDLESS
from ...sources.provenance import UsedRecord
from ..arguments import finite
from .element_lengths import lengths_of_elements
from .first_order import in_first_order
from .line import Line
from .node import Node, OfSeveral, fingerprint_of_node


class NodeRecords:
    """The elements of a node, found by epoch and place (index within the epoch).

    All epochs have the same elements at the same places. Only the random numbers of random maps
    differ.

    Args:
        node: the node (a dataset in a chain of dataset methods) that makes the elements.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._in_epochs = node, in_first_order(node)
        self.reads_ahead = node.facts.reads_ahead

    def __repr__(self) -> str:
        return f"MapDataset of {self._node.kind}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        return fingerprint_of_node(self._node)

    def keys(self, places: Indices) -> Indices:
        """Return the indices `int64[n]` of the elements at places (indices within the epoch).

        In this class, an index is equal to its place, so the result is `places`.
        """
        return places

    def name_of(self, place: int) -> str:
        """Return a text for messages: an element's index in the epoch, and its records."""
        names = [
            f"record {used.key}{''.join(f' of {name}' for name in used.datasets)}"
            for used in self.made_of(0, place)
        ]
        return f"element {place} ({first_few(names)})"

    def place_of(self, key: int, count: int) -> int | None:
        """Return `key` if it is the index of an element of an epoch, else None.

        In this class, the place of an element (its index within the epoch) is its index in the
        dataset.

        Args:
            key: index of the element in the dataset.
            count: number of elements in an epoch.
        """
        return key if key < count else None

    def records(self, epochs: Indices, places: Indices) -> Sequence[Any]:
        return self._in_epochs.records(places + epochs * self._node.length)

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]:
        return self._node.made_of(place)


class BudgetLine(Line):
    """A `Line` (source, order, operations) whose records are batches, planned by a token budget.

    The engine can run a `repeat` after the batching as a part of this line, if no operation merges
    several batches. It cannot run any other change of the order, such as a shuffle or a slice.
    """

    @property
    def stacks(self) -> bool:
        """True if an operation merges several batches into one batch.

        Such a batch must not cross the end of an epoch.
        """
        return any(each.takes is not None for each in self.operations)

    def reordered(self, index_map: IndexMap) -> Line | None:
        """Return this line repeated, if `index_map` is a `Repeat` that reads later epochs.

        Return None for all other index maps, and if an operation merges several batches, because
        the engine cannot run such a line.
        """
        order = self.alone
        if not isinstance(index_map, Repeat) or not index_map.keeps_indices or self.stacks:
            return None
        assert isinstance(order, BudgetOrder), "set when it was made"
        return dataclasses.replace(
            self, length=index_map.length, alone=order.repeated(index_map.epochs)
        )


@dataclass(frozen=True, eq=False)
class BudgetBatched(OfSeveral):
    """A node whose elements are batches (made by `BudgetBatch`) of each epoch of another node.

    Attributes:
        input: the node of the elements.
        operation: the operation that makes the batches.
        source: the source whose records are the batches.
        order: the order of the batches without shards.
    """

    operation: BudgetBatch
    source: BudgetSource
    order: BudgetOrder

    @classmethod
    def of(cls, node: Node, operation: BudgetBatch) -> BudgetBatched:
        """Make the node that batches the elements of another node.

        Args:
            node: the node of the elements.
            operation: the operation that makes the batches; its `lengths` are used if they are set.

        Raises:
            LengthsError: if the lengths of the elements are unknown, if an earlier operation may
                drop elements, or if there is not one length for each element.
            ValueError: if the dataset of the elements is endless.
        """
        count = finite("budget_batch", node.length)
        if node.left_out_by:
            raise LengthsError(
                f"budget_batch cannot follow MapDataset.{node.left_out_by}, which may leave "
                "elements out. Make the batches in a stream: to_iter_dataset().budget_batch(…)."
            )
        lengths = operation.lengths
        known = lengths_of_elements(node, lengths, "budget_batch")
        if known is None:
            raise LengthsError(
                "budget_batch of a MapDataset needs the lengths of its elements. They are unknown, "
                "because the source does not give them, or an operation after it may change them. "
                "Pass lengths=, an array with one length for each element, or make the batches in "
                "a stream: to_iter_dataset().budget_batch(…)."
            )
        of_places = whole_lengths(known, count) if lengths is None else as_lengths(known, count)
        identity = [node.identity, count]
        source, order = batches_of(NodeRecords(node), operation, of_places, 1, None, identity)
        return cls(node, operation, source, order)

    @property
    def length(self) -> int:
        return self.order.epoch_length

    @property
    def reshuffles(self) -> bool:
        return True

    @property
    def parameters(self) -> Any:
        return self.order.fingerprint

    def records(self, indices: Indices) -> Sequence[Any]:
        """Return the batches at indices `int64[n]`. All elements are read in one call."""
        return self.source.__getitems__(self.order.record_keys(indices)) if len(indices) else []

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Return the records in the batch at an index, each with its row in the batch."""
        return self.source.made_of(int(self.order.record_keys(np.array([index]))[0]))

    @property
    def line(self) -> Line:
        """The `Line` (source, order and operations) with which the engine makes the batches.

        Any number of shards can read the batches.
        """
        return BudgetLine(self.source, ENDLESS, self.length, self.length, alone=self.order)
