"""Nodes over several others: concatenated, chosen from, zipped; and a user's own dataset.

In: elements of other nodes. Out: elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from ..described import described, plain_attributes
from ..samplers.index_maps import Indices
from .nodes import Get, Node


class Choice(Protocol):
    """At which index of which dataset an element stands."""

    @property
    def length(self) -> int:
        """Number of elements in an epoch."""

    @property
    def parameters(self) -> Any:
        """What tells it from others, in values that `described` takes."""

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        """The numbers of the datasets, and the indices in each."""

    def one(self, index: int) -> tuple[int, int]:
        """The number of the dataset, and the index in it."""


@dataclass(frozen=True)
class OneAfterAnother:
    """All elements of the first dataset, then all of the second; in the next epoch, the next epoch of each.

    Attributes:
        lengths: of the datasets.
    """

    lengths: tuple[int, ...]

    @cached_property
    def _ends(self) -> Indices:
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def length(self) -> int:
        """As the protocol says."""
        return sum(self.lengths)

    @property
    def parameters(self) -> Any:
        """As the protocol says."""
        return list(self.lengths)

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        """As the protocol says."""
        lengths = np.array(self.lengths, dtype=np.int64)
        epochs = indices // self.length
        places = indices - epochs * self.length
        which = np.searchsorted(self._ends, places, side="right")
        return which, places - (self._ends - lengths)[which] + epochs * lengths[which]

    def one(self, index: int) -> tuple[int, int]:
        """As the protocol says."""
        which, inner = self.many(np.array([index], dtype=np.int64))
        return int(which[0]), int(inner[0])


@dataclass(frozen=True, eq=False)
class ByMap:
    """A user's mapping from an index to the number of a dataset and an index in it."""

    mapping: Any

    @property
    def length(self) -> int:
        """As the protocol says."""
        return len(self.mapping)

    @property
    def parameters(self) -> Any:
        """As the protocol says."""
        return [self.length, described(self.mapping)]

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        """As the protocol says."""
        places = np.array([self.mapping[index] for index in indices.tolist()], dtype=np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]

    def one(self, index: int) -> tuple[int, int]:
        """As the protocol says."""
        return cast(tuple[int, int], self.mapping[index])


@dataclass(frozen=True, eq=False)
class Chosen(Node):
    """Elements of several nodes, as a choice says."""

    nodes: tuple[Node, ...]
    choice: Choice

    @property
    def inputs(self) -> tuple[Node, ...]:
        """As the base says."""
        return self.nodes

    @cached_property
    def length(self) -> int:
        """As the base says."""
        return self.choice.length

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says; each node is asked once."""
        which, inner = self.choice.many(indices)
        found: list[Any] = [None] * len(indices)
        for number in np.unique(which).tolist():
            places = np.flatnonzero(which == number)
            for place, element in zip(places.tolist(), self.nodes[number].records(inner[places])):
                found[place] = element
        return found

    def getter(self) -> Get:
        """As the base says."""
        gets, choose = [node.getter() for node in self.nodes], self.choice.one

        def chosen(index: int) -> Any:
            number, inner = choose(index)
            return gets[number](inner)

        return chosen

    @property
    def parameters(self) -> Any:
        """As the base says."""
        return [type(self.choice).__name__, self.choice.parameters]


@dataclass(frozen=True, eq=False)
class Zipped(Node):
    """Tuples of the elements that several nodes of one length have at an index."""

    nodes: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """As the base says."""
        return self.nodes

    @property
    def length(self) -> int:
        """As the base says."""
        return self.nodes[0].length

    @property
    def may_be_none(self) -> bool:
        """As the base says: a tuple is there, whatever is in it."""
        return False

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        return list(zip(*(node.records(indices) for node in self.nodes)))

    def getter(self) -> Get:
        """As the base says."""
        gets = [node.getter() for node in self.nodes]
        return lambda index: tuple(get(index) for get in gets)

    @property
    def parameters(self) -> Any:
        """None: there are none."""
        return None


@dataclass(frozen=True, eq=False)
class Own(Node):
    """A dataset of the user's, asked element by element; it may give None for what is left out."""

    dataset: Any
    nodes: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """As the base says: as far as it said what it is made of."""
        return self.nodes

    @cached_property
    def length(self) -> int:
        """As the base says."""
        return len(self.dataset)

    @property
    def may_be_none(self) -> bool:
        """As the base says."""
        return True

    @property
    def left_out_by(self) -> str | None:
        """None: what a batch of its elements is, is up to the user."""
        return None

    def records(self, indices: Indices) -> Sequence[Any]:
        """As the base says."""
        return list(map(self.getter(), indices.tolist()))

    def getter(self) -> Get:
        """As the base says."""
        return cast(Get, self.dataset.__getitem__)

    @property
    def reads_ahead(self) -> Any:
        """As the base says."""
        return super().reads_ahead if self.nodes else True

    @property
    def operations(self) -> int:
        """As the base says; it may be one itself."""
        return super().operations + 1

    @property
    def parameters(self) -> Any:
        """As the base says."""
        return [type(self.dataset).__qualname__, self.length, plain_attributes(self.dataset)]
