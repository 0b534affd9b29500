"""The leaves, stages (operations that run in one task each) and joins that a loader runs. Immutable.

In: the tree that `compile` has numbered. Out: answers for the modules of work, stream and state.

A leaf is a source with its sampler.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...operations import Operation
from ...operations.trees import flatten
from ...samplers import ShardOptions
from ...sources.protocol import is_text_column
from ..failures import Skips
from .cursor import Cursor, Leftover, Subtree
from .identity import Identity, IdentitySnapshot
from .joins import Join
from .leaf import Leaf
from .stages import Stage, column_span_length, span_length


class PreviousShard(NamedTuple):
    """A shard of an earlier run, whose unfinished work this run completes.

    Attributes:
        whose: what identifies the run and the shard, as in `Leftover.whose`.
        leaves: its leaves (sources with their samplers).
        joins: its joins.
    """

    whose: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    joins: tuple[Join, ...]


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline.

    A leaf is a source with its sampler. A stage is a list of operations that run together in one task. A
    join merges the rows of several parts of the pipeline into one stream.

    Attributes:
        leaves: the leaves, from which records come.
        stages: the stages, each after the stages and joins that it gets rows from.
        joins: the joins, each after the joins that it gets rows from.
        top: the whole tree of leaves, stages and joins. Its last stage or join returns the elements that
            the user gets.
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides.
        snapshot: fingerprints of sources and operations from the time when the pipeline was made, because
            sources and operations may change while they work.
        formers: shards of earlier runs, whose unfinished work this run completes.
        traced: True if each row of a `Pack` remembers the documents that it was made of, which needs
            memory.
    """

    leaves: tuple[Leaf, ...]
    stages: tuple[Stage, ...]
    joins: tuple[Join, ...]
    top: Subtree
    skips_errors: Skips = False
    snapshot: IdentitySnapshot | None = None
    formers: tuple[PreviousShard, ...] = ()
    traced: bool = False

    def __post_init__(self) -> None:
        if self.snapshot is None:
            object.__setattr__(
                self, "snapshot", IdentitySnapshot.of([leaf.source for leaf in self.leaves], self.operations)
            )

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of all stages, in the order of their indices."""
        return tuple(chain.from_iterable(stage.operations for stage in self.stages))

    @property
    def leaf(self) -> Leaf:
        (leaf,) = self.leaves
        return leaf

    def leaf_of(self, stage: Stage) -> Leaf:
        """Return the leaf (source with its sampler) from which a stage's rows come; for joined leaves, the first."""
        return self.leaves[self.leaf_number(stage)]

    def leaf_number(self, stage: Stage) -> int:
        return stage.part.first.leaves

    @cached_property
    def every_leaf(self) -> tuple[Leaf, ...]:
        """The leaves (sources with their samplers) of this run, and then the leaves of each shard of an earlier run."""
        return (*self.leaves, *chain.from_iterable(former.leaves for former in self.formers))

    def read_by(self, stage: int, former: int) -> int:
        """Return the index in `every_leaf` of the leaf that a stage (operations that run in one task) reads.

        `former` is 0 for the current shard, or the number of a shard of an earlier run, from 1.

        A leaf is a source with its sampler.
        """
        leaf = self.stages[stage].leaf
        assert leaf is not None, "a stage on a leaf"
        return former * len(self.leaves) + leaf

    def former_of(self, rest: Leftover) -> int:
        """Return the number, from 1, of the shard of an earlier run to which a leftover (rest of its work) belongs."""
        return 1 + [former.whose for former in self.formers].index(rest.whose)

    def joins_of(self, former: int) -> tuple[Join, ...]:
        return self.formers[former - 1].joins if former else self.joins

    def shard_of(self, former: int) -> ShardOptions:
        return self.formers[former - 1].leaves[0].shard if former else self.shard

    def place_of(self, tag: int) -> tuple[Leaf, int]:
        """Return the leaf (source with its sampler) and the global position that a tag of `tags_of` stands for."""
        position, leaf = divmod(tag, len(self.every_leaf))
        return self.every_leaf[leaf], position

    def tags_of(self, leaf: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return tags `int64[n]`: for each global position, one number that stands for the leaf and the position.

        `leaf` is an index into `every_leaf`. If there are several leaves (sources with their samplers), a tag
        is `position * count + leaf`; with one, the position.
        """
        return positions * len(self.every_leaf) + leaf if len(self.every_leaf) > 1 else positions

    def inputs_at(self, join: Join, cursor: Cursor) -> list[Cursor]:
        """Return the cursor (place in the stream) of each input of a join, with its leftovers.

        A leftover is the rest of an earlier shard's work.
        """
        cursors = cursor.parts([one.size for one in join.inputs])
        if not cursor.unfinished:
            return cursors
        rests = [[rest for rest in cursor.unfinished if rest.stage in one.stages] for one in join.inputs]
        return [one.with_unfinished(*unfinished) for one, unfinished in zip(cursors, rests)]

    def begun_at(self, part: Subtree, cursor: Cursor) -> set[int]:
        """Return the indices of the stages of a subtree that have delivered some, but not all, rows of a group of inputs.

        A stage is the operations that one task runs together.

        Args:
            part: part of the pipeline.
            cursor: place in the stream of this part.
        """
        stages = zip(cursor.skips, self.stages[part.stages.start : part.stages.stop])
        return {stage.number for skip, stage in stages if skip > 0 and (stage.leaf is None or stage.unit > 1)}

    def is_below_join(self, stage: Stage) -> bool:
        """Return True if the rows of a stage come from a join, directly or through other stages.

        A stage is a group of operations that run together in one task.
        """
        below = stage.input
        return below is not None and (below.stage is None or self.is_below_join(self.stages[below.stage]))

    def join_below(self, stage: Stage) -> Join:
        """Return the join from which a stage's rows come, directly or through other stages.

        A stage is a group of operations that run together in one task.
        """
        below = stage.input
        assert below is not None, "a stage below a join"
        return self.join_below(self.stages[below.stage]) if below.stage is not None else self.joins[below.join or 0]

    def begins_anew(self, leaf: int) -> bool:
        """Return True if a join may read a leaf (a source with its sampler) again from its beginning."""
        restarting = (part.leaves for join in self.joins if join.rule.restarts for part in join.inputs)
        return any(leaves.start <= leaf < leaves.stop for leaves in restarting)

    def stage_on(self, leaf: int) -> Stage:
        """Return the stage (operations that run in one task) that reads a leaf (a source with its sampler)."""
        return next(stage for stage in self.stages if stage.leaf == leaf)

    @property
    def shard(self) -> ShardOptions:
        """The shard of this process: its share of each leaf (a source with its sampler)."""
        return self.leaves[0].shard

    @cached_property
    def aligned(self) -> bool:
        """Return True if each element is made of a fixed number of consecutive positions.

        That needs a single stage (operations that run together in one task) whose operations neither drop
        nor add elements, no join, and no skipped failures.
        """
        return len(self.stages) == 1 and self.stages[0].one_to_one and not self.joins and not self.skips_errors

    @property
    def endless(self) -> bool:
        """Return True if no leaf (a source with its sampler) ends."""
        return all(leaf.endless for leaf in self.leaves)

    @property
    def start(self) -> Cursor:
        return self.start_of(self.top)

    def start_of(self, part: Subtree) -> Cursor:
        notes = tuple(join.rule.start for join in self.joins[part.joins])
        return Cursor((0,) * part.size.leaves, (0,) * part.size.stages, notes)

    def whole_from(self, start: Cursor) -> bool:
        """Return True if a run from the cursor (a place in the stream) reads the whole stream.

        That is the case at the start, with one shard, and after no run on other shards.
        """
        untouched = all(leaf.shard.shard_count == 1 and not leaf.lineage.layers for leaf in self.leaves)
        return untouched and start == self.start

    @cached_property
    def columns(self) -> Any:
        """The source's columns, a tree of arrays, if batches are slices of them; else None.

        This needs a source with columns of fixed dtypes, no join, no skipped failures, and a
        first operation that only stacks records into batches.
        """
        columns = self.leaves[0].source_facts.columns()
        if (
            columns is None
            or self.joins
            or self.skips_errors
            or not self.operations
            or not self.operations[0].only_stacks
        ):
            return None
        return columns if all(map(_is_stackable, flatten(columns)[0])) else None

    @cached_property
    def spans(self) -> tuple[int, ...]:
        """Number of positions in a task, for each leaf (a source with its sampler)."""
        return tuple(map(self._span, range(len(self.leaves))))

    def _span(self, leaf: int) -> int:
        stage = self.stage_on(leaf)
        if self.columns is None:
            return span_length(stage, self._following(stage))
        return column_span_length(stage.unit, sum(column.nbytes // len(column) for column in flatten(self.columns)[0]))

    def _following(self, stage: Stage) -> Stage | None:
        return next((one for one in self.stages[stage.number + 1 :] if one.leaf is None), None)

    @cached_property
    def regrouped(self) -> frozenset[int]:
        """Indices of all stages below the top stage, which groups their rows again.

        The result is empty if a join is at the top. A stage is the operations that one task runs together.
        """
        last = self.top.stage
        return frozenset(stage.number for stage in self.stages if last is not None and stage.number != last)

    @cached_property
    def identity(self) -> Identity:
        """The identity of sources, orders, joins and operations, in plain JSON values."""
        assert self.snapshot is not None
        return Identity(
            self.snapshot.sources,
            tuple(leaf.sampler.fingerprint for leaf in self.leaves),
            tuple(join.fingerprint for join in self.joins),
            self.snapshot.operations,
            tuple(operation.takes for operation in self.operations if operation.takes is not None),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickling, without the columns, which the source already contains."""
        return {name: value for name, value in vars(self).items() if name != "columns"}

    def runs_like(self, other: Pipeline) -> bool:
        """Return True if tasks of both pipelines mean the same work, because their shards have the same histories."""
        histories = [
            ([leaf.lineage for leaf in one.leaves], [former.whose for former in one.formers]) for one in (self, other)
        ]
        return histories[0] == histories[1]

    def with_leaf(self, leaf: Leaf) -> Pipeline:
        return dataclasses.replace(self, leaves=(leaf,))


def _is_stackable(column: Any) -> bool:
    """Return True if stacking rows of the column always gives the column's dtype."""
    return is_text_column(column) or bool(column.dtype == np.result_type(column.dtype) and column.dtype.kind != "O")
