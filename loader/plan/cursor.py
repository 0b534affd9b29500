"""A cursor: the place from which a stream continues, as plain numbers. Checkpoints store it; stages start from it.

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
"""State of a join, or of a source without random access: a tuple of integers and texts; see `JoinPolicy`."""


MAX_ROWS = 1 << 60
"""Limit of counts. No stream gets so far, so a larger count means that a state is damaged."""


class NodeCounts(NamedTuple):
    """Numbers of leaves, stages (operations that run in one task each) and joins in a part of a pipeline.

    A leaf is a source with its sampler.

    Attributes:
        leaves: number of leaves.
        stages: number of stages.
        joins: number of joins, and of sources without random access.
    """

    leaves: int
    stages: int
    joins: int

    def plus(self, other: NodeCounts) -> NodeCounts:
        return NodeCounts(*(one + two for one, two in zip(self, other)))


@dataclass(frozen=True)
class Subtree:
    """A part of a pipeline: a stage (operations that run in one task) or a join, with everything below it.

    Attributes:
        stage: index of the stage at the top of the part; None if a join is at the top.
        join: index of the join at the top of the part; None if a stage is at the top.
        first: indices, in the pipeline, of the first leaf, stage and join of the part.
        size: how many leaves, stages and joins the part has.
    """

    stage: int | None
    join: int | None
    first: NodeCounts
    size: NodeCounts

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
    `compile`). So the cursor of a part of the pipeline is the cursors of its inputs, one after another,
    and then the value of its last stage or join.

    A stage is a group of operations that run together in one task.

    Attributes:
        positions: for each leaf (source with its sampler), the local position of the first record
            that is still to be read.
        skips: for each stage, how many of the rows that it makes next were delivered already. All
            are 0, except while the rows made of one group of inputs are delivered.
        notes: for each join, and each source without random access, its state (a few integers).
        unfinished: leftovers (rests of earlier shards' work). Their rows come before all others of
            their stages.
    """

    positions: tuple[int, ...]
    skips: tuple[int, ...]
    notes: tuple[JoinState, ...] = ()
    unfinished: tuple[Leftover, ...] = ()

    def then(self, skip: int) -> Cursor:
        """Return this cursor with one more stage (operations that run in one task), which has delivered `skip` rows."""
        return self._replace(skips=(*self.skips, skip))

    def before(self) -> Cursor:
        return self._replace(skips=self.skips[:-1])

    def with_unfinished(self, *rests: Leftover) -> Cursor:
        """Return this cursor with leftovers of shards of earlier runs, whose rows are delivered first.

        A leftover is the rest of an earlier shard's work.
        """
        return self._replace(unfinished=rests)

    def parts(self, sizes: Sequence[NodeCounts]) -> list[Cursor]:
        """Split this cursor, which covers several parts of a pipeline, into one cursor for each part.

        Leftovers (rests of earlier shards' work) are left out.

        Args:
            sizes: for each part, how many leaves, stages and joins it has. A join's own state, which
                comes after the states of its inputs, belongs to no part.
        """
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
    """Work that a shard of an earlier run had begun, and of which another shard must deliver the rest.

    Such work is a window, or a batch that is split into its elements: nobody can begin in its middle, so
    it is made again from its start. Its rows come out of the same stage (operations that run in one task)
    as the current shard's own rows, before them.

    Attributes:
        shard: index of the shard of an earlier run, and the number of shards of that run.
        cursor: place where the shard of an earlier run stopped, in the part of its pipeline that ends with the
            stage.
        lineages: for each leaf, the history of the order that the earlier run read.
        ends: for each leaf, the local position at which its order ended in the earlier run; None if
            it was endless.
        delivered: number of rows of the leftover that were delivered since.
        stage: index of the stage.
        mix: the earlier uppermost mix of streams below the stage as JSON text, if the mix has
            changed since; else "".
    """

    shard: tuple[int, int]
    cursor: Cursor
    lineages: tuple[ReshardHistory, ...]
    ends: tuple[int | None, ...]
    delivered: int
    stage: int
    mix: str

    @property
    def whose(self) -> tuple[tuple[int, int], tuple[ReshardHistory, ...], tuple[int | None, ...], str]:
        """What identifies the earlier run and its shard: leftovers of the same shard have equal values."""
        return self.shard, self.lineages, self.ends, self.mix


def cursor_of_join(cursors: Iterable[Cursor], state: JoinState) -> Cursor:
    """Return the cursor of a join.

    Args:
        cursors: cursors of its inputs.
        state: state of its rule.
    """
    positions: list[int] = []
    skips: list[int] = []
    notes: list[JoinState] = []
    unfinished: list[Leftover] = []
    for cursor in cursors:
        positions += cursor.positions
        skips += cursor.skips
        notes += cursor.notes
        unfinished += cursor.unfinished
    return Cursor(tuple(positions), tuple(skips), (*notes, state), tuple(unfinished))


def are_numbers(state: JoinState) -> bool:
    """Return True if a state of a join contains only integers below `MAX_ROWS`. A damaged file may have other values."""
    return all(isinstance(value, int) and value < MAX_ROWS for value in state)


def those_within(unfinished: Sequence[Leftover]) -> Iterator[Leftover]:
    """Yield leftovers (rests of earlier shards' work), each followed by the leftovers that it contains."""
    for rest in unfinished:
        yield rest
        yield from those_within(rest.cursor.unfinished)
