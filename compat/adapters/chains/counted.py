"""Streams whose elements are counted: Grain's orders and generators depend on how many came before.

In: a stream. Out: the same one, with the number of positions that an element has.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ....chains.stream import Stream
from ....loader.plan.compile import compiled, line_of
from ....loader.plan.joins import Apply, Joined, Node
from ....loader.plan.rules import All
from ....loader.plan.stages import runs_of, unit_of
from ....operations import Operation


@dataclass(frozen=True)
class Indexed(Apply):
    """The upper end of a `MapDataset`: what comes out of it has the indices that Grain's states tell."""


def counted(stream: Stream) -> tuple[Stream, int]:
    """A stream, of which element i stands at the positions from i times the number that is given.

    Where something is left out or added, a join of one counts what arrives: its rows have numbers.
    """
    base, operations = line_of(stream.tree)
    shards = compiled(stream.tree).shard.shard_count
    by_position = isinstance(base, Joined) or (not base.leaf.in_order and shards == 1)
    if by_position and all(each.one_to_one for each in operations) and not stream.skips_errors:
        return stream, unit_of(operations) * (shards if isinstance(base, Joined) else 1)
    return dataclasses.replace(stream, tree=counting(stream.tree)), shards


def counting(tree: Node) -> Node:
    """The same rows, which are counted."""
    return Joined((tree,), All())


def applied(operation: Operation, stream: Stream) -> Stream:
    """Apply an operation to a stream.

    What leaves out or adds rows keeps apart from what has a state in Grain: that state counts the rows that come out of it, and
    a stage those that come out of all its operations.
    """
    _, operations = line_of(stream.tree)
    mixed_up = not operation.one_to_one and any(hasattr(each, "below") for each in runs_of(operations)[-1])
    tree = counting(stream.tree) if mixed_up else stream.tree
    return stream.on(Apply(tree, (operation,)), 1)


def indexed(tree: Node) -> Node:
    """The tree of a `MapDataset`, marked as such."""
    return Indexed(tree.input, tree.operations) if isinstance(tree, Apply) else Indexed(tree, ())
