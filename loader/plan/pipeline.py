"""The pipeline that a loader runs: leaves, stages (operations that run in one task each) and joins.

Immutable.

In: the leaves, stages and joins that `compile` has numbered. Out: facts for the modules that run
them.

A leaf is a source with its sampler.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...operations import Operation
from ...operations.trees import flatten
from ...samplers import ShardOptions
from ...samplers.protocol import Int64s
from ...sources.protocol import is_text_column
from ..failures import Skips
from .cursor import Cursor, Leftover, Subtree
from .history import History
from .identity import Identity
from .joins import Join
from .leaf import Leaf
from .stages import Stage, column_span_length, span_length


class PreviousShard(NamedTuple):
    """A shard of an earlier run, whose unfinished work this run completes.

    Attributes:
        whose: identifies the run and the shard; see `Leftover.whose`.
        leaves: its leaves (sources with their samplers).
        joins: its joins (mix, zip and others).
    """

    whose: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    joins: tuple[Join, ...]


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline.

    A leaf is a source with its sampler. A stage is a list of operations that run together in one
    task. A join merges the rows of several sections of the pipeline into one stream.

    Attributes:
        leaves: the leaves, from which records come.
        stages: the stages, each after the stages and joins from which it gets rows.
        joins: the joins, each after the joins from which it gets rows.
        top: the whole tree of leaves, stages and joins. Its last stage or join returns the elements
            that the user gets.
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides.
        snapshot: fingerprints of sources and operations from the time when the pipeline was made,
            because sources and operations may change while they work.
        formers: shards of earlier runs, whose unfinished work this run completes.
        traced: True if each row of a `Pack` remembers the documents that it was made of, which
            needs memory.
    """

    leaves: tuple[Leaf, ...]
    stages: tuple[Stage, ...]
    joins: tuple[Join, ...]
    top: Subtree
    snapshot: Identity
    skips_errors: Skips = False
    formers: tuple[PreviousShard, ...] = ()
    traced: bool = False

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of the pipeline, in the order of their indices."""
        return tuple(chain.from_iterable(stage.operations for stage in self.stages))

    @property
    def leaf(self) -> Leaf:
        (leaf,) = self.leaves
        return leaf

    def leaf_of(self, stage: Stage) -> Leaf:
        """Return the leaf (source with its sampler) from which rows of a stage (operations) come.

        If several leaves are joined, it is the first.
        """
        return self.leaves[self.leaf_number(stage)]

    def leaf_number(self, stage: Stage) -> int:
        return stage.part.first.leaves

    @cached_property
    def every_leaf(self) -> tuple[Leaf, ...]:
        """The leaves of this run, and then the leaves of each shard of an earlier run.

        A leaf is a source with its sampler.
        """
        return (*self.leaves, *chain.from_iterable(former.leaves for former in self.formers))

    def read_by(self, stage: int, former: int) -> int:
        """Return the index in `every_leaf` of the leaf that a stage reads.

        A stage is a group of operations that run in one task; a leaf is a source with its sampler.

        Args:
            stage: index of the stage, which must read a leaf.
            former: 0 for the current shard; or the number, from 1, of a shard of an earlier run.
        """
        leaf = self.stages[stage].leaf
        assert leaf is not None, "a stage on a leaf"
        return former * len(self.leaves) + leaf

    def former_of(self, rest: Leftover) -> int:
        """Return the number, from 1, of the shard of an earlier run to which a leftover belongs.

        A leftover is unfinished work of such a shard.
        """
        return 1 + [former.whose for former in self.formers].index(rest.whose)

    def joins_of(self, former: int) -> tuple[Join, ...]:
        return self.formers[former - 1].joins if former else self.joins

    def shard_of(self, former: int) -> ShardOptions:
        return self.formers[former - 1].leaves[0].shard if former else self.shard

    def place_of(self, tag: int) -> tuple[Leaf, int]:
        """Return the leaf and the global position for which a tag (number from `tags_of`) stands.

        A leaf is a source with its sampler.
        """
        position, leaf = divmod(tag, len(self.every_leaf))
        return self.every_leaf[leaf], position

    def tags_of(self, leaf: int, positions: Int64s) -> Int64s:
        """Return tags `int64[n]` of positions of a leaf: numbers that stand for leaf and position.

        If there are several leaves (sources with their samplers), a tag is `position * count +
        leaf`; if there is one, it is the position.

        Args:
            leaf: index into `every_leaf`.
            positions: global positions (counted over all shards), `int64[n]`.
        """
        return positions * len(self.every_leaf) + leaf if len(self.every_leaf) > 1 else positions

    def inputs_at(self, join: Join, cursor: Cursor) -> list[Cursor]:
        """Return the cursor (place in the stream) of each input of a join, from the join's cursor.

        Leftovers (unfinished work of earlier shards) go to the input that makes them.
        """
        cursors = cursor.parts([one.size for one in join.inputs])
        if not cursor.unfinished:
            return cursors
        rests = [
            [rest for rest in cursor.unfinished if rest.stage in one.stages] for one in join.inputs
        ]
        return [one.with_unfinished(*unfinished) for one, unfinished in zip(cursors, rests)]

    def begun_at(self, part: Subtree, cursor: Cursor) -> set[int]:
        """Return the indices of the stages that delivered only some rows of one batch or window.

        A stage is a group of operations that run together in one task.

        Args:
            part: section of the pipeline, whose stages are looked at.
            cursor: the place in the stream of this section.
        """
        stages = zip(cursor.skips, self.stages[part.stages.start : part.stages.stop])
        return {
            stage.number
            for skip, stage in stages
            if skip > 0 and (stage.leaf is None or stage.unit > 1)
        }

    def is_below_join(self, stage: Stage) -> bool:
        """Return True if rows of a stage come from joined streams (mix, zip and so on).

        A stage is the operations that run in one task.
        """
        below = stage.input
        return below is not None and (
            below.stage is None or self.is_below_join(self.stages[below.stage])
        )

    def join_below(self, stage: Stage) -> Join:
        """Return the join (mix, zip and others) from which a stage (operations) gets its rows."""
        below = stage.input
        assert below is not None, "a stage below a join"
        return (
            self.join_below(self.stages[below.stage])
            if below.stage is not None
            else self.joins[below.join or 0]
        )

    def begins_anew(self, leaf: int) -> bool:
        """Return True if a leaf is below a `repeat` of streams, and so is read more than once.

        A leaf is a source with its sampler.
        """
        restarting = (
            part.leaves for join in self.joins if join.rule.restarts for part in join.inputs
        )
        return any(leaves.start <= leaf < leaves.stop for leaves in restarting)

    def repeats_in(self, part: Subtree) -> dict[int, range]:
        """Return the endless `repeat`s of streams in a section of the pipeline.

        Such a `repeat` reads its input from the beginning again and again.

        Args:
            part: the section.

        Returns:
            A dict with an entry for each `repeat`. The key is the index of its progress in `notes`
            of the section's cursor (place in the stream). The value is the range of the indices,
            in the section, of the sources that it reads.
        """
        first = part.first
        endless = (
            join for join in self.joins[part.joins] if join.rule.restarts and join.rule.endless
        )
        return {
            join.number - first.joins: range(
                below.leaves.start - first.leaves, below.leaves.stop - first.leaves
            )
            for join in endless
            for below in join.inputs
        }

    def stage_on(self, leaf: int) -> Stage:
        """Return the stage that reads the leaf (source with its sampler) at index `leaf`.

        A stage is the operations that run in one task.
        """
        return next(stage for stage in self.stages if stage.leaf == leaf)

    @property
    def shard(self) -> ShardOptions:
        """The shard of this process: its share of the positions of each source."""
        return self.leaves[0].shard

    @cached_property
    def aligned(self) -> bool:
        """True if each element is made of a fixed number of consecutive positions.

        That needs a single stage (operations that run together in one task) whose operations
        neither drop nor add elements, no join, and no skipped failures.
        """
        return (
            len(self.stages) == 1
            and self.stages[0].one_to_one
            and not self.joins
            and not self.skips_errors
        )

    @property
    def endless(self) -> bool:
        """True if the stream never ends, as far as this is known without reading."""
        return self._never_ends(self.top)

    def _never_ends(self, part: Subtree) -> bool:
        if part.stage is None:
            join = self.joins[part.join or 0]
            return join.rule.endless or (
                not join.rule.limits and all(map(self._never_ends, join.inputs))
            )
        stage = self.stages[part.stage]
        if stage.input is not None:
            return self._never_ends(stage.input)
        leaf = self.leaf_of(stage)
        return leaf.source_facts.endless if leaf.in_order else leaf.endless

    @property
    def start(self) -> Cursor:
        return self.start_of(self.top)

    def start_of(self, part: Subtree) -> Cursor:
        notes = tuple(join.rule.start for join in self.joins[part.joins])
        return Cursor((0,) * part.size.leaves, (0,) * part.size.stages, notes)

    def whole_from(self, start: Cursor) -> bool:
        """Return True if a run from the cursor (a place in the stream) reads the whole stream.

        That is so at the start, with one shard, if no earlier run on another number of shards is
        continued.
        """
        untouched = all(
            leaf.shard.shard_count == 1 and not leaf.lineage.orders for leaf in self.leaves
        )
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
        """Number of positions that one task reads, for each leaf (a source with its sampler)."""
        return tuple(map(self._span, range(len(self.leaves))))

    def _span(self, leaf: int) -> int:
        stage = self.stage_on(leaf)
        if self.columns is None:
            later = self.stages[stage.number + 1 :]
            return span_length(stage, next((one for one in later if one.leaf is None), None))
        return column_span_length(
            stage.unit, sum(column.nbytes // len(column) for column in flatten(self.columns)[0])
        )

    @cached_property
    def regrouped(self) -> frozenset[int]:
        """Indices of the stages whose rows a later stage groups into batches or windows.

        A stage is a group of operations that run in one task. These are all stages except the last;
        the result is empty if the pipeline ends with a join.
        """
        last = self.top.stage
        return frozenset(
            stage.number for stage in self.stages if last is not None and stage.number != last
        )

    @cached_property
    def history(self) -> History:
        """Changes of the orders since the first run, and how far earlier runs on shards had read.

        A checkpoint stores this history.
        """
        return History(
            tuple(leaf.lineage for leaf in self.leaves),
            tuple(leaf.sampler.changes for leaf in self.leaves),
        )

    @cached_property
    def identity(self) -> Identity:
        """The description of the pipeline that a checkpoint stores, in plain JSON values.

        It has sources, orders, joins and operations.
        """
        return dataclasses.replace(
            self.snapshot,
            orders=tuple(leaf.sampler.fingerprint for leaf in self.leaves),
            joins=tuple(join.fingerprint for join in self.joins),
            sizes=tuple(each.takes for each in self.operations if each.takes is not None),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickling, without the columns, which the source contains."""
        return {name: value for name, value in vars(self).items() if name != "columns"}

    def runs_like(self, other: Pipeline) -> bool:
        """Return True if both pipelines continue the same earlier runs.

        A task then means the same work in both.
        """
        histories = [
            ([leaf.lineage for leaf in one.leaves], [former.whose for former in one.formers])
            for one in (self, other)
        ]
        return histories[0] == histories[1]

    def with_leaf(self, **changes: Any) -> Pipeline:
        """Return this pipeline of a single source, with attributes of its leaf replaced.

        The leaf is the source with its sampler; `changes` has new values by attribute name.
        """
        return dataclasses.replace(self, leaves=(dataclasses.replace(self.leaf, **changes),))


def _is_stackable(column: Any) -> bool:
    """Return True for a text column, or a column of native byte order without objects.

    Batches may be slices of it.
    """
    return is_text_column(column) or bool(
        column.dtype == np.result_type(column.dtype) and column.dtype.kind != "O"
    )
