"""Streams that come together, or that are taken otherwise than from beginning to end: what `IterDataset` has methods for.

In: streams. Out: one; the engine's joins do the work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

from ..common.fingerprint_values import MAX_ITEMS, digest
from ..common.messages import short_repr
from ..common.validation import one_of, whole_number
from ..errors import JoinError
from ..loader.options import ExecutionOptions
from ..loader.plan.compile import compiled
from ..loader.plan.joins import JoinPolicy
from ..loader.plan.leaf import Leaf
from ..loader.plan.nodes import Apply, Joined, Node, Read
from ..loader.plan.rules.in_turn import Interleaved, InTurn
from ..loader.plan.rules.mix import MixRows
from ..loader.plan.rules.of_one import Again, All, First
from ..operations import ZipRows
from ..samplers import NoSharding, ShardOptions
from ..samplers.chain_order import ChainOrder
from ..samplers.mix.order import MixOrder
from ..samplers.protocol import ENDLESS
from ..sources.run_through import RunThroughSource
from .nodes.seeds import nearest_first
from .stream import Stream

Exhausted = Literal["first", "all", "repeat"]


def mixed(
    streams: Sequence[Stream], order: MixOrder, when_exhausted: Exhausted, max_epochs: Mapping[str, int]
) -> Stream:
    """Elements of several streams, in an order of streams by name; those with so many epochs leave it after them."""
    one_of("when_exhausted", when_exhausted, "first", "all", "repeat")
    inputs = []
    for name, stream in zip(order.names, streams):
        if name in max_epochs:
            stream = dataclasses.replace(stream, tree=_over_epochs(stream.tree, max_epochs[name]))
        elif when_exhausted == "repeat":
            stream = dataclasses.replace(stream, tree=_over_epochs(stream.tree, None))
        inputs.append(stream)
    leaving = tuple(number for number, name in enumerate(order.names) if name in max_epochs)
    return merged(inputs, order.names, MixRows(order, when_exhausted == "all", leaving))


def merged(streams: Sequence[Stream], names: tuple[str, ...], rule: JoinPolicy) -> Stream:
    """Elements of several streams, as a rule takes them."""
    inputs = tuple(_named(stream.tree, name) for stream, name in zip(streams, names))
    return _joined(streams, Joined(inputs, rule, names))


def zipped(streams: Sequence[Stream], names: Sequence[str] | None, strict: bool) -> Stream:
    """An element of each stream, together."""
    labels = tuple(names or map(str, range(len(streams))))
    inputs = tuple(_named(stream.tree, label) for stream, label in zip(streams, labels))
    joined = Joined(inputs, InTurn(len(streams), bool(strict)), labels)
    return _joined(streams, Apply(joined, (ZipRows(len(streams), names or ()),)), 1)


def interleaved(streams: Sequence[Stream], names: Sequence[str] | None, cycle_length: int | None) -> Stream:
    """An element of each of the open streams, in turn."""
    count = len(streams)
    cycle = count if cycle_length is None else whole_number("cycle_length", cycle_length, 1, None, "a positive number")
    labels = names or map(str, range(count))
    inputs = tuple(_named(stream.tree, label) for stream, label in zip(streams, labels))
    return _joined(streams, Joined(inputs, Interleaved(count, min(cycle, count))))


def limited(stream: Stream, count: int) -> Stream:
    """The first elements."""
    first = whole_number("count", count, 1, None, "a number of elements, at least 1")
    return stream.on(Joined((stream.tree,), First(first)))


def cached(stream: Stream) -> Stream:
    """All elements, kept in memory."""
    return stream.on(Joined((stream.tree,), All(keeps=True)))


def repeated(stream: Stream, num_epochs: int | None) -> Stream:
    """All elements, several times."""
    times = None if num_epochs is None else whole_number("num_epochs", num_epochs, 1, None, "at least 1, or None")
    return stream.on(Joined((stream.tree,), Again(times)))


def run_through(dataset: Any) -> Stream:
    """A dataset of a user's own class, which can only be run through."""
    source = RunThroughSource(dataset, parents=[digest(each, 12) for each in fingerprints_within(vars(dataset))])
    return Stream(Read(Leaf(source, ChainOrder((), ENDLESS, ENDLESS, None), NoSharding())), (), 0)


def fingerprints_within(value: Any) -> Iterator[Any]:
    """The fingerprints of datasets in the attributes of one; of a long list of them, the first ones and how many."""
    if hasattr(value, "to_iter_dataset"):
        yield value.fingerprint
    elif isinstance(stream := getattr(value, "_stream", None), Stream):
        yield compiled(stream.tree, stream.skips_errors).fingerprint
    elif isinstance(value, (list, tuple, dict)):
        within = list(value.values()) if isinstance(value, dict) else value
        found = [fingerprint for each in within[:MAX_ITEMS] for fingerprint in fingerprints_within(each)]
        yield from [*found, len(within)] if found and len(within) > MAX_ITEMS else found


def sharded(stream: Stream, shard: ShardOptions) -> Stream:
    """The part of each source that is a shard's.

    Raises:
        ValueError: the stream is a shard's part already.
    """

    def of_shard(leaf: Any) -> Any:
        if leaf.shard.shard_count > 1:
            raise ValueError(
                f"shard({short_repr(shard)}): the dataset has {short_repr(leaf.shard)} already, from a shard() or "
                "shard_options= before, and a shard is not divided again; give the options of this process once."
            )
        return dataclasses.replace(leaf, sampler=leaf.sampler.with_shard_options(shard), shard=shard)

    return dataclasses.replace(stream, tree=over_leaves(stream.tree, of_shard))


def _joined(streams: Sequence[Stream], tree: Node, operations: int = 0) -> Stream:
    """A stream of several: what was said of any of them holds for all."""
    shards = [leaf.shard for stream in streams for leaf in _leaves(stream.tree)]
    if len({(shard.shard_index, shard.shard_count, shard.drop_remainder) for shard in shards}) > 1:
        raise JoinError(
            "the datasets have different shard_options; give them to the joined one: .shard(shard_options)."
        )
    limits = [stream.max_errors for stream in streams if stream.max_errors is not None]
    return Stream(
        tree,
        nearest_first([stream.seeds for stream in streams]),
        sum(stream.operations for stream in streams) + operations,
        reduce(_both, (stream.execution for stream in streams)),
        any(stream.skips_errors for stream in streams),
        min(limits, default=None),
    )


def _both(one: ExecutionOptions, other: ExecutionOptions) -> ExecutionOptions:
    """Options of one or another dataset: those that are not the default; of numbers the larger."""
    default = ExecutionOptions()
    changes: dict[str, Any] = {}
    for option in dataclasses.fields(ExecutionOptions):
        values = [getattr(each, option.name) for each in (one, other)]
        told = [value for value in values if value != getattr(default, option.name)]
        if told:
            changes[option.name] = max(told) if isinstance(told[0], (int, float)) else told[-1]
    return dataclasses.replace(default, **changes)


def _leaves(tree: Node) -> list[Any]:
    if isinstance(tree, Read):
        return [tree.leaf]
    return [leaf for below in _inputs(tree) for leaf in _leaves(below)]


def _inputs(tree: Apply | Joined) -> tuple[Node, ...]:
    return (tree.input,) if isinstance(tree, Apply) else tree.inputs


def _named(tree: Node, name: str) -> Node:
    """A tree whose sources are named after the dataset that they belong to."""

    def renamed(leaf: Any) -> Any:
        return dataclasses.replace(leaf, name=f"{name}/{leaf.name}" if leaf.name else name)

    return over_leaves(tree, renamed)


def _over_epochs(tree: Node, epochs: int | None) -> Node:
    """A tree whose source goes on with its next epochs; what is made of several, is empty, or has one epoch, begins anew."""
    base = _line(tree)[-1]
    if not isinstance(base, Read) or base.leaf.in_order or not isinstance(base.leaf.sampler, ChainOrder):
        return Joined((tree,), Again(epochs))
    if not base.leaf.sampler.length:
        return Joined((tree,), Again(epochs))
    return over_leaves(tree, lambda leaf: dataclasses.replace(leaf, sampler=leaf.sampler.over(epochs)))


def _line(tree: Node) -> list[Node]:
    return [tree, *_line(tree.input)] if isinstance(tree, Apply) else [tree]


def over_leaves(tree: Node, change: Any) -> Node:
    """A tree with other sources."""
    if isinstance(tree, Read):
        return Read(change(tree.leaf))
    if isinstance(tree, Apply):
        return dataclasses.replace(tree, input=over_leaves(tree.input, change))
    return dataclasses.replace(tree, inputs=tuple(over_leaves(each, change) for each in tree.inputs))
