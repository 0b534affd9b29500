"""Nodes made from several nodes (concatenated, chosen, zipped), and a user's own dataset.

In: elements of other nodes. Out: elements.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...common.distinct import distinct
from ...common.identity.values import plain_attributes
from ...common.messages import first_few
from ...errors import PackError
from ...operations.trees import flatten, leaf_names
from ...samplers.chain.index_maps import IndexMap, Indices
from ...samplers.protocol import ENDLESS, VectorSampler
from ...sources.facts import SourceFacts
from ...sources.mixed.source import MixedSource
from ...sources.provenance import UsedRecord
from .choices import Choice
from .line import Line
from .node import Evaluated, Get, Node, some_lengths
from .source_node import Source


@dataclass(frozen=True, eq=False)
class OnSeveral(Node):
    """Base of nodes made from several nodes.

    Attributes:
        nodes: the nodes; for a user's own dataset, the nodes of its `parents`.
    """

    nodes: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.nodes


@dataclass(frozen=True, eq=False)
class Chosen(OnSeveral):
    """A node that joins several nodes: each element comes from one of them, as `choice` says.

    Attributes:
        nodes: the nodes.
        names: names of the nodes.
        choice: converts an index to the index of a node, and an index in this node.
    """

    names: tuple[str, ...]
    choice: Choice

    @cached_property
    def length(self) -> int:
        return self.choice.length

    def records(self, indices: Indices) -> Sequence[Any]:
        """Return the elements at indices `int64[n]`. Each joined node is read in one call."""
        which, inner = self.choice.many(indices)
        found: list[Any] = [None] * len(indices)
        for number in distinct(which):
            places = np.flatnonzero(which == number)
            for place, element in zip(places.tolist(), self.nodes[number].records(inner[places])):
                found[place] = element
        return found

    def getter(self) -> Get:
        gets, choose = [node.getter() for node in self.nodes], self.choice.one

        def chosen(index: int) -> Any:
            number, inner = choose(index)
            return gets[number](inner)

        return chosen

    def dataset_at(self, index: int) -> str:
        return self.names[self.choice.one(index)[0]]

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        number, inner = self.choice.one(index)
        return [used.named(self.names[number]) for used in self.nodes[number].made_of(inner)]

    def lengths_at(self, indices: Indices, name: str | os.PathLike[str] | None = None) -> Any:
        """Return the lengths of elements; None if one of the joined nodes does not know them.

        Args:
            indices: `int64[n]`, indices of the elements.
            name: name of the field, or file, that has the lengths; None: the lengths that the
                source knows.

        Returns:
            an array `int[n]`, or a dict of such arrays by leaf (field of an element).

        Raises:
            PackError: if the elements of two datasets have different leaves.
        """
        which, inner = self.choice.many(indices)
        order = np.argsort(which, kind="stable")
        of_parts = [
            node.lengths_at(inner[which == number], name) for number, node in enumerate(self.nodes)
        ]
        if any(part is None for part in of_parts):
            return None
        self._check_alike(of_parts)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return some_lengths(_concatenated(of_parts), back)

    def _check_alike(self, lengths: Sequence[Any]) -> None:
        leaves = [first_few(leaf_names(flatten(part)[1])) for part in lengths]
        for name, others in zip(self.names, leaves):
            if others != leaves[0]:
                raise PackError(
                    f"pack: elements of dataset {self.names[0]} {_are(leaves[0])}, but elements of "
                    f"dataset {name} {_are(others)}. Map both to dicts with the same keys. Lengths "
                    "are unknown after a map: pass lengths=, or pack the stream, "
                    "to_iter_dataset().pack(…)."
                )

    @property
    def parameters(self) -> Any:
        return [type(self.choice).__name__, self.names, self.choice.parameters]

    @property
    def mixes(self) -> list[Any]:
        return [*self.choice.mixes, *super().mixes]

    @property
    def selections(self) -> list[Any]:
        return [*self.choice.selections, *super().selections]

    @property
    def line(self) -> Line:
        """The `Line` (source, order, operations) that the engine runs.

        The source is one `MixedSource` of all nodes. The order is made of the orders of the nodes.
        There are no operations.
        """
        parts = [node.base_and_order for node in self.nodes]
        limit = ENDLESS // len(parts)
        bases = (
            base.source if isinstance(base, Source) else Evaluated(base, limit) for base, _ in parts
        )
        source = MixedSource(dict(zip(self.names, bases)))
        orders = tuple(order.order for _, order in parts)
        return Line(
            source=source,
            records=None,
            length=self.length,
            epoch_length=self.length
            if self.length < ENDLESS
            else sum(order.epoch_length for order in orders),
            maps=(ChosenKeys(self.choice, orders),),
            may_be_none=self.may_be_none,
            alone=self.choice.sampler(
                {name: order.alone or order.order for name, (_, order) in zip(self.names, parts)}
            ),
        )


def _concatenated(lengths: Sequence[Any]) -> Any:
    first = lengths[0]
    if not isinstance(first, Mapping):
        return np.concatenate(lengths)
    return {name: _concatenated([part[name] for part in lengths]) for name in first}


@dataclass(frozen=True, eq=False)
class ChosenKeys(IndexMap):
    """Index map of a node that joins several parts: converts an index to a key of a `MixedSource`.

    The `MixedSource` contains the sources of all parts. With n parts, record i of the part with
    index p has the key `i * n + p`.

    Attributes:
        choice: converts an index to the index of a part, and an index in this part.
        orders: the order of each part.
    """

    choice: Choice
    orders: tuple[VectorSampler, ...]

    @property
    def length(self) -> int:
        return self.choice.length

    @property
    def epoch_length(self) -> int | None:
        return None

    @property
    def parameters(self) -> Any:
        return [
            type(self.choice).__name__,
            self.choice.parameters,
            *(order.fingerprint for order in self.orders),
        ]

    @property
    def selections(self) -> list[Any]:
        return list(self.choice.selections)

    def many(self, indices: Indices) -> Indices:
        which, inner = self.choice.many(indices)
        keys = np.empty(len(indices), dtype=np.int64)
        for number, order in enumerate(self.orders):
            chosen = np.flatnonzero(which == number)
            keys[chosen] = order.record_keys(inner[chosen]) * len(self.orders) + number
        return keys


@dataclass(frozen=True, eq=False)
class Zipped(OnSeveral):
    """A node that combines the elements of several nodes at the same index to a tuple or a dict.

    Attributes:
        nodes: the nodes, of equal length.
        names: the keys of the dict; () for tuples.
    """

    names: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        return self.nodes[0].length

    @property
    def may_be_none(self) -> bool:
        return False

    def records(self, indices: Indices) -> Sequence[Any]:
        return list(map(self._combined, zip(*(node.records(indices) for node in self.nodes))))

    def getter(self) -> Get:
        gets = [node.getter() for node in self.nodes]
        return lambda index: self._combined(tuple(get(index) for get in gets))

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        names = self.names or tuple(map(str, range(len(self.nodes))))
        return [
            used.named(name)
            for name, node in zip(names, self.nodes)
            for used in node.made_of(index)
        ]

    def _combined(self, elements: tuple[Any, ...]) -> Any:
        return dict(zip(self.names, elements)) if self.names else elements

    @property
    def parameters(self) -> Any:
        return list(self.names) or None


@dataclass(frozen=True, eq=False)
class Own(OnSeveral):
    """A node for a user's own dataset, which is called for one element at a time.

    The dataset may return None for an element that it drops.

    Attributes:
        nodes: the nodes of the dataset's `parents`.
        dataset: the user's dataset.
    """

    dataset: Any

    @cached_property
    def length(self) -> int:
        return len(self.dataset)

    @property
    def may_be_none(self) -> bool:
        return True

    @property
    def left_out_by(self) -> str | None:
        """Always None, so that batches may follow, although the user's dataset may return None.

        If an element is None, a batch gets the None, and may raise an error.
        """
        return None

    def records(self, indices: Indices) -> Sequence[Any]:
        return list(map(self.getter(), indices.tolist()))

    def getter(self) -> Get:
        return cast(Get, self.dataset.__getitem__)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Return the element of the user's dataset as the only record.

        It is unknown from which records of other sources the user's dataset made the element.
        """
        return [UsedRecord(self.dataset, index)]

    @property
    def facts(self) -> SourceFacts:
        """Facts that the loader must know about the elements.

        The loader must know, for example, that the dataset returns one element per call.
        """
        return super().facts._replace(reads_singly=True)

    @property
    def operations(self) -> int:
        """Number of operations up to this node. The user's dataset counts as one operation."""
        return int(super().operations) + 1

    @property
    def parameters(self) -> Any:
        return [type(self.dataset).__qualname__, self.length, plain_attributes(self.dataset)]


def _are(leaves: str) -> str:
    return f"have the leaves {leaves}" if leaves else "are single arrays"
