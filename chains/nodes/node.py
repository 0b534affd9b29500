"""Nodes: the tree behind a `MapDataset` chain, with the chain's sources at the bottom.

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
    """Collect the seeds that apply to a node. A seed that was set nearer to the node comes first.

    Args:
        of_inputs: for each input of the node, pairs of a seed that was set before, and the number
            of nodes since then (its distance).

    Returns:
        pairs of a seed and its distance from the node, which is its distance from the input plus 1.
    """
    found = [(seed, depth + 1) for seeds in of_inputs for seed, depth in seeds]
    return tuple(sorted(found, key=lambda each: each[1]))


def default_seed(seeds: Seeds) -> int | None:
    """Derive a seed in `[0, 2^32)` from the seeds set earlier in a chain; None if none was set.

    Args:
        seeds: pairs of a seed and the number of nodes since it was set. The result depends on both.
    """
    if not seeds:
        return None
    words = [word for each in seeds for word in each]
    return int(np.random.SeedSequence(words).generate_state(1, dtype=np.uint32)[0])


Get = Callable[[int], Any]


def _of_inputs(name: str, together: Callable[[list[Any]], Any]) -> Any:
    """Make a property of a node that combines the values of this property in the node's inputs.

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
    """Base of the nodes of a `MapDataset` chain. A node makes the elements of one dataset.

    Nodes are immutable. Several threads may use a node at the same time.
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
        """Plain values that identify this node and all nodes before it, down to the sources."""
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
        all other elements, also for packed rows that were reordered.

        Args:
            cost: function of an array of lengths; None: the cost is the length.
        """
        return None

    def place(self, index: int) -> tuple[int, int]:
        """Return two numbers, position and row, from which random maps derive their random numbers.

        The position is that of a record or element from which the element is made. The row
        distinguishes the elements that a flat map makes of one element; it is 0 if there is no flat
        map.
        """
        return index, 0

    def dataset_at(self, index: int) -> str | None:
        """Return the name of the mixed or concatenated dataset from which an element comes.

        Return None if no datasets are joined in the chain, if the element comes from several
        datasets, or if its dataset is unknown.

        Args:
            index: index of the element.
        """
        return None

    def made_of(self, index: int) -> Sequence[UsedRecord]:
        """Return the records from which the element at an index is made.

        This default implementation returns the element itself as the only record, without a source.
        """
        return [UsedRecord(None, index)]

    @property
    def line(self) -> Line:
        """The `Line` (source, order, operations) that the engine runs for this node."""
        return self.evaluated

    @property
    def facts(self) -> SourceFacts:
        """Facts about the node's elements, for a loader that uses the node as a source.

        The facts are combined from the facts of the chain's sources.
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
        """A `Line` (source, order, operations) with this node as its source, and no operations.

        It is used if the engine cannot run the operations itself.
        """
        return Line(Evaluated(self), None, self.length, self.length, may_be_none=self.may_be_none)

    @property
    def base_and_order(self) -> tuple[Node, Line]:
        """Separate this node's elements from their order.

        Returns:
            a node without the order; and a `Line` (source, order, operations) with only the order.
            This default implementation separates nothing: this node itself, and a `Line` with its
            elements in their present order.
        """
        return self, self.evaluated

    def __getstate__(self) -> dict[str, Any]:
        """Return only the dataclass fields for pickling, without cached values.

        Cached values may not be valid in another process.
        """
        return fields_of(self) or {}


class Evaluated:
    """A source whose records are the elements of a node, at any index.

    Args:
        node: the node (a dataset in a chain of dataset methods) that returns the records.
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
    """Base of nodes (packs, batches by budget) each of whose elements is made of several elements.

    A plan says which elements these are. The plan is known before any element is read.
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
    datasets, the error gets a note with the names. Then the error is raised again.

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
