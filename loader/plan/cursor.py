"""The place from which a stream continues, as plain numbers. Checkpoints store it, and stages start from it.

A stage is a group of operations that run together in one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .lineage import ReshardHistory

JoinState: TypeAlias = tuple[Any, ...]
"""State of a join, or of a source without random access: numbers or text; see `joins`."""


MAX_ROWS = 1 << 60
"""Limit of counts. No stream gets so far, so a larger count means that a state is damaged."""


class NodeCounts(NamedTuple):
    """Numbers of leaves, stages (operations that run in one task each) and joins in a part of a pipeline.

    A leaf is a source with its sampler.
    """

    leaves: int
    stages: int
    joins: int

    def plus(self, other: NodeCounts) -> NodeCounts:
        return NodeCounts(*(one + two for one, two in zip(self, other)))


@dataclass(frozen=True)
class Subtree:
    """A part of a pipeline: a stage (operations that run in one task) or a join, with everything below it."""

    stage: int | None  # number of the stage; None: of a join
    join: int | None  # number of the join; None: of a stage
    first: NodeCounts  # the numbers of the first leaf, stage and join that belong to it
    size: NodeCounts  # how many belong to it

    @property
    def leaves(self) -> slice:
        return slice(self.first.leaves, self.first.leaves + self.size.leaves)

    @property
    def stages(self) -> range:
        return range(self.first.stages, self.first.stages + self.size.stages)

    @property
    def joins(self) -> slice:
        return slice(self.first.joins, self.first.joins + self.size.joins)


class Cursor(NamedTuple):
    """The place from which a pipeline, or the part of it up to some stage or join, continues.

    Leaves, stages and joins are numbered so that the inputs of each come right before it (see
    `compile`). So the cursor of a part is the cursors of its inputs, one after the other, and then
    the value of its last stage or join.

    A stage is a group of operations that run together in one task.
    """

    positions: tuple[int, ...]  # for each leaf, the local position of the first record that is still to be read
    # for each stage, how many of the rows that come next out of it were delivered before. All 0 except after a flat map.
    skips: tuple[int, ...]
    # for each join, and each source that can only be run through, what it must know to go on
    notes: tuple[JoinState, ...] = ()
    # what comes before all that, at its stages: what shards of former runs had begun
    unfinished: tuple[Leftover, ...] = ()

    def then(self, skip: int) -> Cursor:
        """Return this cursor extended by one stage, with this number of delivered rows.

        A stage is a group of operations that run together in one task.
        """
        return self._replace(skips=(*self.skips, skip))

    def before(self) -> Cursor:
        return self._replace(skips=self.skips[:-1])

    def with_unfinished(self, *rests: Leftover) -> Cursor:
        """Return this cursor with leftovers of former shards that come before it.

        A leftover is the rest of a former shard's work.
        """
        return self._replace(unfinished=rests)

    def parts(self, sizes: Sequence[NodeCounts]) -> list[Cursor]:
        """Split the cursor into the cursors of its parts, which have these sizes. Leftovers are not included."""
        positions, skips, notes = iter(self.positions), iter(self.skips), iter(self.notes)
        return [
            Cursor(
                tuple(islice(positions, size.leaves)),
                tuple(islice(skips, size.stages)),
                tuple(islice(notes, size.joins)),
            )
            for size in sizes
        ]


@dataclass(frozen=True, slots=True)
class Leftover:
    """The rest of work that a shard of a former run had begun, and that no other shard can begin in the middle.

    That is a window, or a batch that is split into its elements. Its rows come out of the same
    stage (operations that run in one task) as the present shard's own rows, before them.
    """

    shard: tuple[int, int]  # that shard, and the number of shards then
    cursor: Cursor  # that shard's, of the part that ends with the stage
    lineages: tuple[ReshardHistory, ...]  # of the order of each leaf
    delivered: int = 0  # rows that were delivered from there on since
    # its number; None (old states): the last one, until nothing that was begun at any stage is left
    stage: int | None = None
    mix: str = ""  # as JSON text the uppermost mix of streams below the stage, where it has been changed since

    @property
    def whose(self) -> tuple[tuple[int, int], tuple[ReshardHistory, ...], str]:
        """The identity of the former run and shard."""
        return self.shard, self.lineages, self.mix


def cursor_of_join(cursors: Iterable[Cursor], note: JoinState) -> Cursor:
    """Return the cursor of a join, from the cursors of its inputs and the join's state."""
    positions: list[int] = []
    skips: list[int] = []
    notes: list[JoinState] = []
    unfinished: list[Leftover] = []
    for cursor in cursors:
        positions += cursor.positions
        skips += cursor.skips
        notes += cursor.notes
        unfinished += cursor.unfinished
    return Cursor(tuple(positions), tuple(skips), (*notes, note), tuple(unfinished))


def are_numbers(note: JoinState) -> bool:
    """Return True if a state of a join contains only integers below the limit, as it may come from a damaged file."""
    return all(isinstance(value, int) and value < MAX_ROWS for value in note)


def those_within(unfinished: Sequence[Leftover]) -> Iterator[Leftover]:
    """Yield the leftovers (rests of former shards' work), and the leftovers inside each of them."""
    for rest in unfinished:
        yield rest
        yield from those_within(rest.cursor.unfinished)
