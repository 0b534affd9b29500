"""Give all epochs of a node the order of the node's first epoch.

Plans that are made from lengths, such as batches by budget, need this: a plan names the elements of
a batch by their indices in the first epoch.

In: a node whose order differs from epoch to epoch. Out: a node whose later epochs differ from the
first only in the random numbers that random maps draw.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.distinct import distinct
from ...samplers.chain.index_maps import IndexMap, Indices, Repeat
from ...samplers.protocol import ENDLESS
from .choices import Choice
from .joins import Chosen, Zipped
from .node import Node, OnOne
from .reordered import Reordered
from .source_node import Source


def in_first_order(node: Node, span: int | None = None) -> Node:
    """Return a node whose epochs all have the order of the first epoch of `node`.

    The new node reads the same records at `index` and at `index + span`. Random maps may draw
    different random numbers for the two elements.

    Args:
        node: the node whose first `span` elements are repeated.
        span: a multiple of the node's length; None: the node's length.
    """
    span = node.length if span is None else span
    if isinstance(node, Source) or not span:
        return node
    if isinstance(node, Zipped):
        return dataclasses.replace(
            node, nodes=tuple(in_first_order(each, span) for each in node.nodes)
        )
    if isinstance(node, Chosen):
        spans = _spans_of(node, span)
        parts = tuple(in_first_order(each, of_part) for each, of_part in zip(node.nodes, spans))
        return dataclasses.replace(
            node, nodes=parts, choice=FirstChoice(node.choice, span, tuple(spans))
        )
    if isinstance(node, Reordered) and node.input.length < ENDLESS:
        epochs = node.length // node.input.length if isinstance(node.index_map, Repeat) else 1
        below = span // node.length * epochs * node.input.length
        return dataclasses.replace(
            node,
            input=in_first_order(node.input, below),
            index_map=FirstOrder(node.index_map, span, below),
        )
    if isinstance(node, OnOne) and node.keeps_indices:
        return dataclasses.replace(node, input=in_first_order(node.input, span))
    return Reordered(node, Repeat(span, None, reseeds=False))


def _spans_of(node: Chosen, span: int) -> list[int]:
    """For each joined node, count its elements that the first `span` elements of a join need.

    Each number is rounded up to whole epochs of the joined node, and is at least one epoch.

    Args:
        node: the join.
        span: number of elements of the join.
    """
    which, inner = node.choice.many(np.arange(span))
    spans = [part.length for part in node.nodes]
    for number in distinct(which):
        length = node.nodes[number].length
        spans[number] = length * -(-(int(inner[which == number].max()) + 1) // length)
    return spans


@dataclass(frozen=True)
class FirstOrder(IndexMap):
    """An index map that gives all epochs the order of the first epoch of another map.

    An index map converts an index of a reordered dataset to an index of the dataset below, i.e.
    before the reordering.

    Attributes:
        first: the map that gives the order of the first epoch.
        span: number of indices in an epoch of the reordered dataset.
        below: number of indices in an epoch of the dataset below.
    """

    first: IndexMap
    span: int
    below: int

    @property
    def length(self) -> int:
        return self.first.length

    @property
    def epoch_length(self) -> int | None:
        return self.first.epoch_length

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.span
        return self.first.many(indices - epochs * self.span) + epochs * self.below

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.span)
        return self.first.one(place) + epoch * self.below


@dataclass(frozen=True)
class FirstChoice(Choice):
    """A choice that gives all epochs the order of the first epoch of another choice.

    A choice converts an index of a joined dataset to the index of a part, and an index in this
    part.

    Attributes:
        first: the choice that gives the order of the first epoch.
        span: number of indices in an epoch of the joined dataset.
        spans: for each part, how many of its indices an epoch of the joined dataset needs.
    """

    first: Choice
    span: int
    spans: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.first.length

    @property
    def parameters(self) -> Any:
        return self.first.parameters

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        epochs = indices // self.span
        which, inner = self.first.many(indices - epochs * self.span)
        return which, inner + epochs * np.array(self.spans)[which]
