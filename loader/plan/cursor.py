"""The place from which a stream continues, as plain numbers: a cursor.

Checkpoints store it, and runs start from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .lineage import ReshardHistory

JoinState: TypeAlias = tuple[Any, ...]
"""Progress of a join, or of a source without random access: a tuple of integers and texts.

See `JoinPolicy`.
"""


MAX_ROWS = 1 << 60
"""Upper limit of counts. No stream gets so far, so a larger count means that a state is damaged."""


class NodeCounts(NamedTuple):
    """Numbers of leaves, stages and joins in a section of a pipeline.

    A leaf is a source with its sampler. A stage is a group of operations that run together in one
    task.

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
    """A section of a pipeline: a stage or a join, with everything from which it gets its rows.

    A stage is a group of operations that run together in one task. A leaf is a source with its
    sampler.

    Attributes:
        stage: index of the stage at the end of the section; None if it ends with a join.
        join: index of the join at the end of the section; None if it ends with a stage.
        first: indices, in the pipeline, of the first leaf, stage and join of the section.
        size: how many leaves, stages and joins the section has.
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
    """The place from which a pipeline, or a section that ends with some stage or join, continues.

    A leaf is a source with its sampler. A stage is a group of operations that run together in one
    task. They are numbered so that the inputs of each stage and join come directly before it (see
    `compile`). So the cursor of a section is the cursors of its inputs, one after another, and then
    the value of its last stage or join.

    Attributes:
        positions: for each leaf, the local position of the first record that is still to be read.
        skips: for each stage, how many of the rows that it makes next were delivered already. All
            are 0, except while the rows made of one group of inputs are delivered.
        notes: for each join, and each source without random access, its progress: a few integers,
            for such a source also a text.
        unfinished: leftovers (unfinished work of shards of earlier runs). Their rows come before
            all others of their stages.
    """

    positions: tuple[int, ...]
    skips: tuple[int, ...]
    notes: tuple[JoinState, ...] = ()
    unfinished: tuple[Leftover, ...] = ()

    def then(self, skip: int) -> Cursor:
        """Return this cursor with one more stage, whose next `skip` rows were delivered.

        A stage is the operations that run in one task.
        """
        return self._replace(skips=(*self.skips, skip))

    def before(self) -> Cursor:
        return self._replace(skips=self.skips[:-1])

    def with_unfinished(self, *rests: Leftover) -> Cursor:
        """Return this cursor with these leftovers in place of its own.

        A leftover is unfinished work of a shard of an earlier run. Its rows are delivered first.
        """
        return self._replace(unfinished=rests)

    def parts(self, sizes: Sequence[NodeCounts]) -> list[Cursor]:
        """Split this cursor, of several sections of a pipeline, into one cursor for each section.

        Leftovers (unfinished work of shards of earlier runs) are left out.

        Args:
            sizes: for each section, how many leaves, stages and joins it has. A join's own
                progress, which comes after its inputs, belongs to no section.
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
    """Work that a shard of an earlier run began, and of which another shard must deliver the rest.

    Such work is a window, or a batch that is split into its elements: it cannot be begun in the
    middle, so it is made again from its start, and the rows that were delivered are dropped. Its
    rows come out of the same stage (operations that run in one task) as the current shard's own
    rows, before them.

    Attributes:
        shard: index of the shard of the earlier run, and the number of shards of that run.
        cursor: place where that shard stopped, in the section of its pipeline that ends with the
            stage.
        lineages: for each leaf (source with its sampler), the history of shards before the earlier
            run.
        ends: for each leaf, the local position at which its order ended in the earlier run; None if
            it was endless.
        stage: index of the stage.
        mix: the pipeline's last mix of streams in the earlier run as JSON text, if the mix has
            changed since; else "".
    """

    shard: tuple[int, int]
    cursor: Cursor
    lineages: tuple[ReshardHistory, ...]
    ends: tuple[int | None, ...]
    stage: int
    mix: str

    @property
    def whose(
        self,
    ) -> tuple[tuple[int, int], tuple[ReshardHistory, ...], tuple[int | None, ...], str]:
        """Values that identify the shard that began this leftover, and its run: a key for dicts.

        All leftovers (unfinished work) of one shard have the same key.
        """
        return self.shard, self.lineages, self.ends, self.mix


def cursor_of_join(cursors: Iterable[Cursor], state: JoinState) -> Cursor:
    """Return the cursor (place in the stream) of a join (such as a mix) from those of its inputs.

    Args:
        cursors: cursors of its inputs.
        state: the join's own progress.
    """
    inputs: list[Any] = list(cursors)
    positions, skips, notes, unfinished = (
        tuple(chain.from_iterable(cursor[field] for cursor in inputs)) for field in range(4)
    )
    return Cursor(positions, skips, (*notes, state), unfinished)


def are_numbers(state: JoinState) -> bool:
    """Return True if the progress of a join (such as a mix) has only integers below `MAX_ROWS`.

    False shows that the checkpoint is damaged.
    """
    return all(isinstance(value, int) and value < MAX_ROWS for value in state)


def those_within(unfinished: Sequence[Leftover]) -> Iterator[Leftover]:
    """Yield leftovers, each followed by the leftovers that it contains.

    Leftovers are unfinished work of shards of earlier runs.
    """
    for rest in unfinished:
        yield rest
        yield from those_within(rest.cursor.unfinished)
