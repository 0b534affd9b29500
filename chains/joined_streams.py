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
    """Mix streams in the given order.

    A stream named in `max_epochs` leaves the mix after this number of epochs.

    `IterDataset.mix` describes `when_exhausted`.
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

    Raise JoinError if their shard options differ.
    """
    inputs = tuple(named(stream.tree, name) for stream, name in zip(streams, names))
    return _joined(streams, Joined(inputs, rule, names))


def zipped(streams: Sequence[Stream], names: Sequence[str] | None, strict: bool) -> Stream:
    """Combine one element of each stream to a tuple, or to a dict if there are names.

    With `strict`, a stream that ends before the others raises `JoinError` when it is read.
    """
    labels = tuple(names or map(str, range(len(streams))))
    inputs = tuple(named(stream.tree, label) for stream, label in zip(streams, labels))
    joined = Joined(inputs, InTurn(len(streams), bool(strict)), labels)
    return _joined(streams, Apply(joined, (ZipRows(len(streams), names or ()),)), 1)


def interleaved(
    streams: Sequence[Stream], names: Sequence[str] | None, cycle_length: int | None
) -> Stream:
    """Take an element of each of `cycle_length` open streams in turn (None: all).

    When one ends, the next one is opened.
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

    Raise JoinError if their shards differ.

    `tree` is its tree of nodes, which has `operations` operations more than the streams together.
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
    """Combine the options of two streams: options that differ from the default win.

    If both differ from the default, the larger number is used, or else the value of `other`. Worker
    processes win over threads.
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
