"""Nodes: the tree behind a `MapDataset` chain, with its sources at the bottom.

In: indices, `int64[n]` or one int. An index past the end is in a later epoch. Out: elements; None
for an element that a filter dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from ...common.costs import Cost
from ...common.fields import fields_of
from ...common.identity.values import digest
from ...common.messages import first_few
from ...errors import BatchError, PackError
from ...samplers.chain.index_maps import Indices
from ...samplers.protocol import ENDLESS
from ...sources.facts import SourceFacts
from ...sources.provenance import UsedRecord
from .line import Line

Seeds = tuple[tuple[int, int], ...]
"""For each joined dataset below a node: the last seed set by `seed(…)`, and its distance.

The distance is the number of nodes in between.
"""


def nearest_first(of_inputs: Iterable[Seeds]) -> Seeds:
    """Return the seeds that apply to a node, from its inputs' seeds; the nearest seed comes first.

    Args:
        of_inputs: for each input, pairs of a seed that was set below it, and the number of nodes
            between them (the distance).

    Returns:
        pairs of a seed and its distance from the node: one more than the distance from the input.
    """
    found = [(seed, depth + 1) for seeds in of_inputs for seed, depth in seeds]
    return tuple(sorted(found, key=lambda each: each[1]))


def default_seed(seeds: Seeds) -> int | None:
    """Return a seed in `[0, 2^32)` derived from the seeds set earlier in a chain; None without any.

    Args:
        seeds: pairs of a seed and the number of nodes since it was set. The result depends on both.
    """
    if not seeds:
        return None
    words = [word for each in seeds for word in each]
    return int(np.random.SeedSequence(words).generate_state(1, dtype=np.uint32)[0])


Get = Callable[[int], Any]


def _of_inputs(name: str, together: Callable[[list[Any]], Any]) -> Any:
    """Make a property of a node that combines the values of this property of the nodes below it.

    Args:
        name: name of the property.
        together: function of the list of these values, which returns the combined value.
    """
    return property(lambda node: together([getattr(below, name) for below in node.inputs]))


def _chained(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(lists))


def _first(names: list[str | None]) -> str | None:
    return next(filter(None, names), None)


@dataclass(frozen=True, eq=False)
class Node:
    """Base of the nodes of a `MapDataset` chain, which make its elements.

    Nodes are immutable; any number of threads may use one.
    """

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def length(self) -> int:
        """Number of elements in an epoch; `ENDLESS` (`sys.maxsize`) for a node that never ends."""
        raise NotImplementedError

    def records(self, indices: Indices) -> Sequence[Any]:
        raise NotImplementedError

    def getter(self) -> Get:
        """Return a function that takes an index, and returns the element at the index."""
        return lambda index: self.records(np.array([index], dtype=np.int64))[0]

    @property
    def parameters(self) -> Any:
        raise NotImplementedError

    @property
    def identity(self) -> list[Any]:
        """Plain values that identify the node and all nodes below it."""
        return [self.kind, self.parameters, *(node.identity for node in self.inputs)]

    # combined from the nodes directly below, unless a class of nodes defines the property
    # name of the method that drops elements; None: no element is dropped
    left_out_by = _of_inputs("left_out_by", _first)
    # True if an element may be None because it was dropped
    may_be_none = _of_inputs("may_be_none", any)
    reshuffles = _of_inputs("reshuffles", any)  # True if elements have other indices in each epoch
    # True if each epoch has other elements: a slice of a dataset shuffled anew
    exchanges = _of_inputs("exchanges", any)
    # number of operations on an element
    operations = _of_inputs("operations", lambda counts: max(counts, default=0))
    # True if a user's function decided, once, which records are omitted
    asks_records = _of_inputs("asks_records", any)
    # True if batches end at the end of each epoch
    repeats_batches = _of_inputs("repeats_batches", any)
    seeds = _of_inputs("seeds", nearest_first)  # seeds set below, the nearest first
    # weights of mixes; states keep them to notice changed weights
    mixes = _of_inputs("mixes", _chained)
    # plain attributes of the maps of `select_from_datasets`
    selections = _of_inputs("selections", _chained)

    def lengths_at(self, indices: Indices, name: str | os.PathLike[str] | None = None) -> Any:
        """Return the lengths of the elements at indices; None if they are unknown.

        Args:
            indices: `int64[n]`.
            name: name of the field, or file, that has the lengths; None: the lengths that the
                source knows.

        Returns:
            an array `int[n]`, or a dict of such arrays by leaf (field of an element).
        """
        return None

    def packed_costs(self, cost: Cost | None) -> Any:
        """Return the costs of elements that are made of several segments, `float64[length]`.

        Only packed rows, in the order in which `pack` made them, have such costs. Return None for
        all other nodes, also for packed rows that were reordered.

        Args:
            cost: function of an array of lengths; None: the cost is the length.
        """
        return None

    def place(self, index: int) -> tuple[int, int]:
        """Return the position and row of the element at an index.

        Random maps derive random numbers from them. The position is that of a record or element
        from which the element is made. The row distinguishes the elements that a flat map makes of
        one element; it is 0 if there is no flat map.
        """
        return index, 0

    def dataset_at(self, index: int) -> str | None:
        """Return the name of the mixed or concatenated dataset from which an element comes.

        It is None if this node and the nodes below join no datasets, if the element comes from
        several datasets, or if its dataset is unknown.

        Args:
            index: index of the element.
        """
        return None

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Return the records from which the element at an index is made.

        If a class of nodes does not define this method, the element itself is the only record,
        without a source.
        """
        return [UsedRecord(None, index)]

    @property
    def line(self) -> Line:
        """The `Line` (source, order, operations) that the engine runs for this node."""
        return self.evaluated

    @property
    def facts(self) -> SourceFacts:
        """Facts about the node's elements, for a loader that uses the node as a source.

        They follow from the facts of the sources below.
        """
        below = [node.facts for node in self.inputs]
        wanted = [each.reads_ahead for each in below]
        return SourceFacts(
            reads_ahead=True if any(each is True for each in wanted) else max(wanted, default=True),
            reads_singly=any(each.reads_singly for each in below),
            grows_within=any(each.grows for each in below),
            made_of=self.made_of,
        )

    @property
    def evaluated(self) -> Line:
        """A `Line` with this node as its source and no operations.

        It is for nodes whose operations the engine cannot run.
        """
        return Line(Evaluated(self), None, self.length, self.length, may_be_none=self.may_be_none)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        """Separate the order of this node's elements from the elements.

        Return a node without the order, and a `Line` (source, order, operations) with only the
        order. A node that does not define this property separates nothing: it returns itself, and a
        `Line` with its elements in their present order.
        """
        return self, self.evaluated

    def __getstate__(self) -> dict[str, Any]:
        """Return only the dataclass fields for pickling.

        Values derived from them may not be valid in other processes.
        """
        return fields_of(self) or {}


class Evaluated:
    """A node as a source whose records are the node's elements, at any index.

    Args:
        node: the node that returns the records.
        length: a number greater than all indices that will be read; default: no limit.

    >>> from headrace.chains.nodes.source_node import Source
    >>> from headrace.sources import MemorySource
    >>> Evaluated(Source(MemorySource([1, 2, 3])))[4]  # the second element of the second epoch
    2
    """

    def __init__(self, node: Node, length: int = ENDLESS) -> None:
        self.root_node = node
        self._length = length

    @property
    def facts(self) -> SourceFacts:
        node, count, own = self.root_node, self._length, dict[str, Any]()
        if count == node.length < ENDLESS:
            own = {
                "lengths": lambda: node.lengths_at(np.arange(count)),
                "packed_costs": node.packed_costs,
            }
        return node.facts._replace(array_keys=True, checks_keys=True, **own)

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _get(self) -> Get:
        return self.root_node.getter()

    def __getitem__(self, index: int) -> Any:
        return self._get(index)

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        return self.root_node.records(indices)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return fingerprint_of_node(self.root_node)

    def __reduce__(self) -> tuple[type[Evaluated], tuple[Node, int]]:
        return type(self), (self.root_node, self._length)

    def __repr__(self) -> str:
        return f"MapDataset of {self.root_node.kind}"


def fingerprint_of_node(node: Node) -> dict[str, Any]:
    """Return the fingerprint of a node that is used as a source: a dict of JSON values.

    The values are kind, number of elements, and digests of the chain, of the weights of mixes, and
    of users' selection maps.
    """
    later = {
        name: digest(value, 12)
        for name, value in (("mixes", node.mixes), ("selections", node.selections))
        if value
    }
    return {
        "kind": "MapDataset",
        "records": node.length,
        "chain": digest(node.identity, 12),
        **later,
    }


@dataclass(frozen=True, eq=False)
class OnOne(Node):
    """Base of nodes that are made from one other node.

    Attributes:
        input: the other node.
    """

    input: Node

    keeps_indices: ClassVar[bool] = False
    """True if the element at an index is made of the element below with the same index."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def length(self) -> int:
        return self.input.length

    def dataset_at(self, index: int) -> str | None:
        return self.input.dataset_at(index)

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        return self.input.made_of(index)


class OfSeveral(OnOne):
    """Base of nodes (packs, batches by budget) whose elements are made of several elements below.

    A plan, which is known before anything is read, says of which elements.
    """

    @property
    def operations(self) -> int:
        return int(self.input.operations) + 1

    @property
    def may_be_none(self) -> bool:
        return False

    def dataset_at(self, index: int) -> None:
        """Return None, because the parts of an element may come from several datasets."""


@contextmanager
def naming_datasets(node: Node, indices: Indices) -> Iterator[None]:
    """Return a context that adds the names of mixed datasets to an error of a batch or pack.

    If a `BatchError` or `PackError` is raised in the context, and the elements come from several
    datasets, the error gets a note with the names. Then it is raised again.

    Args:
        node: the node of the elements that are batched or packed.
        indices: `int64[n]`, the indices of these elements.
    """
    try:
        yield
    except (BatchError, PackError) as error:
        names = dict.fromkeys(
            name for name in map(node.dataset_at, indices.tolist()) if name is not None
        )
        if len(names) > 1:
            error.add_note(f"headrace: the elements come from the datasets {first_few(names)}.")
        raise


def some_lengths(lengths: Any, indices: Indices) -> Any:
    """Return the lengths at some indices.

    Args:
        lengths: an array; or a dict (perhaps nested) of arrays by leaf (field of an element).
        indices: `int64[n]`.

    Returns:
        an array `int[n]`, or a dict of such arrays, like `lengths`.
    """
    if isinstance(lengths, Mapping):
        return {name: some_lengths(of_leaf, indices) for name, of_leaf in lengths.items()}
    return np.asarray(lengths)[indices]
