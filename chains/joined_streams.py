"""Streams that are joined: mixed, merged, zipped or interleaved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce

from ..common.fields import field_values
from ..common.validation import one_of, whole_number
from ..errors import JoinError
from ..loader.options import ExecutionOptions
from ..loader.plan.joins import Apply, Joined, JoinPolicy
from ..loader.plan.joins import Node as Tree
from ..loader.plan.mix_rules import MixRows
from ..loader.plan.rules import Interleaved, InTurn
from ..operations import ZipRows
from ..samplers.mix.order import MixOrder
from .nodes.node import nearest_first
from .stream import Exhausted, Stream
from .trees import leaves_of, named, over_epochs


def mixed(
    streams: Sequence[Stream],
    order: MixOrder,
    when_exhausted: Exhausted,
    max_epochs: Mapping[str, int],
) -> Stream:
    """Mix streams in the order that `order` gives.

    Args:
        streams: the streams.
        order: says for each position from which stream the element comes.
        when_exhausted: "first", "all" or "repeat": what happens when a stream has run out, as for
            `IterDataset.mix`.
        max_epochs: number of epochs after which a stream leaves the mix, by name of the stream.
            Streams that are not in the dict have no such limit.
    """
    one_of("when_exhausted", when_exhausted, "first", "all", "repeat")
    inputs = []
    for name, stream in zip(order.names, streams):
        if name in max_epochs or when_exhausted == "repeat":
            stream = dataclasses.replace(
                stream, tree=over_epochs(stream.tree, max_epochs.get(name))
            )
        inputs.append(stream)
    leaving = tuple(number for number, name in enumerate(order.names) if name in max_epochs)
    return merged(inputs, order.names, MixRows(order, when_exhausted == "all", leaving))


def merged(streams: Sequence[Stream], names: tuple[str, ...], rule: JoinPolicy) -> Stream:
    """Join streams by a rule that decides which stream gives the next row.

    Args:
        streams: the streams.
        names: a name for each stream.
        rule: the rule.

    Raises:
        JoinError: if the streams have different shard options.
    """
    inputs = tuple(named(stream.tree, name) for stream, name in zip(streams, names))
    return _joined(streams, Joined(inputs, rule, names))


def zipped(streams: Sequence[Stream], names: Sequence[str] | None, strict: bool) -> Stream:
    """Combine one element of each stream to a tuple, or to a dict if there are names.

    Args:
        streams: the streams.
        names: the keys of the dict; None for tuples.
        strict: if True, reading the joined stream raises `JoinError` when one stream ends before
            the others; if False, the joined stream ends with the shortest stream.
    """
    labels = tuple(names or map(str, range(len(streams))))
    inputs = tuple(named(stream.tree, label) for stream, label in zip(streams, labels))
    joined = Joined(inputs, InTurn(len(streams), bool(strict)), labels)
    return _joined(streams, Apply(joined, (ZipRows(len(streams), names or ()),)), 1)


def interleaved(
    streams: Sequence[Stream], names: Sequence[str] | None, cycle_length: int | None
) -> Stream:
    """Take an element of each open stream in turn. When a stream ends, the next one is opened.

    Args:
        streams: the streams.
        names: names of the streams; None: their indices.
        cycle_length: number of streams that are open at a time; None: all.
    """
    count = len(streams)
    cycle = (
        count
        if cycle_length is None
        else whole_number("cycle_length", cycle_length, 1, None, "a positive number")
    )
    labels = names or map(str, range(count))
    inputs = tuple(named(stream.tree, label) for stream, label in zip(streams, labels))
    return _joined(streams, Joined(inputs, Interleaved(count, min(cycle, count))))


def _joined(streams: Sequence[Stream], tree: Tree, operations: int = 0) -> Stream:
    """Return a stream joined from several streams, with the options of all of them.

    Args:
        streams: the streams.
        tree: tree of sources, operations and joins that contains the trees of all streams.
        operations: number of operations in this tree besides the operations of the streams.

    Raises:
        JoinError: if the shards of the streams differ.
    """
    shards = [leaf.shard for stream in streams for leaf in leaves_of(stream.tree)]
    if len({(shard.shard_index, shard.shard_count, shard.drop_remainder) for shard in shards}) > 1:
        raise JoinError(
            "the datasets have different shard_options. Pass shard_options to none of these "
            "datasets, and call .shard(shard_options) of the joined dataset."
        )
    limits = [stream.max_errors for stream in streams if stream.max_errors is not None]
    return Stream(
        tree,
        nearest_first([stream.seeds for stream in streams]),
        sum(stream.operations for stream in streams) + operations,
        reduce(_both, (stream.execution for stream in streams)),
        next((stream.skips_errors for stream in streams if stream.skips_errors), False),
        min(limits, default=None),
    )


def _both(one: ExecutionOptions, other: ExecutionOptions) -> ExecutionOptions:
    """Combine the options of two streams.

    For each option: if only one of the two values differs from the default, this value is used. If
    both differ, the larger one is used if they are numbers, else the value of `other`. If one
    stream uses threads, and the other one uses worker processes or actors, threads are not used.
    """
    changes = field_values(ExecutionOptions())
    given = field_values(one), field_values(other)
    for name, default in list(changes.items()):
        chosen = [values[name] for values in given if values[name] != default]
        if chosen:
            numbers = all(isinstance(value, (int, float)) for value in chosen)
            changes[name] = max(chosen) if numbers else chosen[-1]
    kinds = {each.worker_kind for each in (one, other) if each.worker_count != 0}
    if len(kinds) > 1 and "thread" in kinds:  # threads leave the work to processes or actors
        (changes["worker_kind"],) = kinds - {"thread"}
    return ExecutionOptions(**changes)
