"""Nodes that do not change elements: they reorder or omit them, or set a seed.

In: elements of one node. Out: the same elements.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...loader.plan.omission import living_order
from ...samplers.chain.index_maps import IndexMap, Indices
from ...samplers.changing.orders import LivingIndices
from ...sources.provenance import UsedRecord
from .line import Line
from .node import Get, Node, OnOne, Seeds


@dataclass(frozen=True, eq=False)
class Seeded(OnOne):
    """A node with the elements of another node, which sets a seed for later random operations.

    Attributes:
        input: the node of the elements.
        seed: the seed.
    """

    seed: int

    keeps_indices = True

    def records(self, indices: Indices) -> Sequence[Any]:
        return self.input.records(indices)

    def getter(self) -> Get:
        return self.input.getter()

    def lengths_at(self, indices: Indices, name: str | os.PathLike[str] | None = None) -> Any:
        return self.input.lengths_at(indices, name)

    def place(self, index: int) -> tuple[int, int]:
        return self.input.place(index)

    @property
    def parameters(self) -> Any:
        """None: the seed itself does not identify this node in fingerprints.

        Later operations that derive their seeds from this seed have the derived seeds in their
        fingerprints.
        """
        return None

    @property
    def seeds(self) -> Seeds:
        return ((self.seed, 0),)

    @property
    def line(self) -> Line:
        return self.input.line

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        return self.input.base_and_order


@dataclass(frozen=True, eq=False)
class Reordered(OnOne):
    """A node with the elements of another node in another order: shuffled, repeated or sliced.

    Attributes:
        input: the other node.
        index_map: converts an index of this node to an index of the other node.
    """

    index_map: IndexMap

    @property
    def length(self) -> int:
        return self.index_map.length

    def records(self, indices: Indices) -> Sequence[Any]:
        return self.input.records(self.index_map.many(indices))

    def getter(self) -> Get:
        get, index_below = self.input.getter(), self.index_map.one
        return lambda index: get(index_below(index))

    def lengths_at(self, indices: Indices, name: str | os.PathLike[str] | None = None) -> Any:
        return self.input.lengths_at(self.index_map.many(indices), name)

    @property
    def parameters(self) -> Any:
        return self.index_map.parameters

    def place(self, index: int) -> tuple[int, int]:
        """Return two numbers, position and row, from which random maps derive their random numbers.

        If this node only repeats `input`, and the engine runs this repeat itself, both numbers are
        those of the element of `input`. Otherwise, they are `(index, 0)`.
        """
        return self.input.place(index) if self._only_repeats else (index, 0)

    @property
    def reshuffles(self) -> bool:
        change = self.index_map.change
        return change == "shuffles" or (change != "freezes" and self.input.reshuffles)

    @property
    def exchanges(self) -> bool:
        change, below = self.index_map.change, self.input
        return change != "freezes" and (below.exchanges or (change == "cuts" and below.reshuffles))

    @property
    def repeats_batches(self) -> bool:
        return self.input.line.batches or self.input.repeats_batches

    def dataset_at(self, index: int) -> str | None:
        return self.input.dataset_at(self.index_map.one(index))

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        return self.input.made_of(self.index_map.one(index))

    @cached_property
    def _only_repeats(self) -> bool:
        return (
            self.index_map.keeps_indices and self.input.line.reordered(self.index_map) is not None
        )

    @property
    def line(self) -> Line:
        return self.input.line.reordered(self.index_map) or self.input.evaluated.under(
            self.index_map
        )

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        base, order = self.input.base_and_order
        return base, order.under(self.index_map)


@dataclass(frozen=True, eq=False)
class LivingElements(Reordered):
    """A node with the elements of another node, except the elements of omitted records.

    Attributes:
        input: the other node.
        index_map: converts an index among the kept elements to an index of the other node.
        by_function: True if a user's function decided which records to omit.
    """

    index_map: LivingIndices
    by_function: bool

    @property
    def asks_records(self) -> bool:
        """True if a user's function decided which records to omit.

        The function was called when the node was made. It is not called for records that are
        appended later.
        """
        return self.by_function

    @classmethod
    def of(cls, node: Node, omit: Any) -> Node:
        """Make a node that omits some records of `node`, and has all other elements of `node`.

        Records are omitted if `omit` names them, or if they were deleted from the source. If no
        records are omitted, return `node` itself.

        Args:
            node: the node of all records.
            omit: keys of the records to omit (an array, list or set), the path of a file of keys,
                or a function `(file, row)` that returns True for records to omit.

        Raises:
            TypeError: if `omit` is none of these.
            RecordKeyError: if `omit` names a record that the source does not have.
            SourceError: if the file of keys cannot be read, or a function is given and the source
                does not know the files of its records.
            ValueError: if an element of `node` is not made of one record of a single source, or
                depends on its index; or if the source is not read in whole epochs.
            EmptyStreamError: if no record is left.
        """
        if isinstance(node, LivingElements):
            order = living_order(node.index_map.sampler, node.line.source, omit, None)
            return cls(node.input, LivingIndices(order), node.by_function or callable(omit))
        line = node.line
        if not line.moves_freely or line.batches or line.alone is not None or line.records is None:
            raise ValueError(
                "omit() can leave out only records of a single source, but the elements of this "
                "dataset are batches, or come from several datasets, or from maps that use the "
                "index. Call omit() directly after the source, or after its shuffle() and "
                "repeat(), and before mix, zip and concatenate."
            )
        whole = line.order
        order = living_order(whole, line.source, omit, None)
        if order is whole:
            return node
        return cls(node, LivingIndices(order), callable(omit))

    @property
    def line(self) -> Line:
        return self._alone(self.input.line)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        base, order = self.input.base_and_order
        return base, self._alone(order)

    def _alone(self, line: Line) -> Line:
        return dataclasses.replace(line.under(self.index_map), alone=self.index_map.sampler)
