"""The leaves and stages that a loader runs. Immutable.

In: what `compile` made of the user's description. Out: what work, stream and state ask about it.
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
from .fingerprint import Fingerprint, Identity
from .joins import Join
from .leaf import Leaf
from .stages import Stage, column_span_length, span_length


class PreviousShard(NamedTuple):
    """The shard of a former run, whose work is to be finished: what tells it from others, and what it had of a pipeline."""

    whose: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    joins: tuple[Join, ...]


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline."""

    leaves: tuple[Leaf, ...]  # where records come from
    stages: tuple[Stage, ...]  # what is done to them, each after its inputs
    joins: tuple[Join, ...]  # where rows of several of these come together, each after its inputs
    top: Subtree  # what gives the elements: the last stage or join
    skips_errors: Skips = False  # a record that fails is left out
    # what identifies source and operations, taken when the pipeline was made, because what they load or remember while they
    # work may change them. None: taken now.
    identity: Identity | None = None
    formers: tuple[PreviousShard, ...] = ()  # shards of former runs
    traced: bool = False  # what comes out of a `Pack` tells what it was made of, at the cost of memory

    def __post_init__(self) -> None:
        if self.identity is None:
            object.__setattr__(self, "identity", Identity.of([leaf.source for leaf in self.leaves], self.operations))

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, by their numbers."""
        return tuple(chain.from_iterable(stage.operations for stage in self.stages))

    @property
    def leaf(self) -> Leaf:
        (leaf,) = self.leaves
        return leaf

    def leaf_of(self, stage: Stage) -> Leaf:
        """The leaf that the rows of a stage come from; the first one of those that are joined."""
        return self.leaves[self.leaf_number(stage)]

    def leaf_number(self, stage: Stage) -> int:
        return stage.part.first.leaves

    @cached_property
    def every_leaf(self) -> tuple[Leaf, ...]:
        """The leaves, and after them those of each of the formers."""
        return (*self.leaves, *chain.from_iterable(former.leaves for former in self.formers))

    def read_by(self, stage: int, former: int) -> int:
        """The number, among every leaf, of the one that a stage reads, for the shard of now or number `former`, from 1."""
        leaf = self.stages[stage].leaf
        assert leaf is not None, "a stage on a leaf"
        return former * len(self.leaves) + leaf

    def former_of(self, rest: Leftover) -> int:
        """The number, from 1, of the former shard that had begun something."""
        return 1 + [former.whose for former in self.formers].index(rest.whose)

    def joins_of(self, former: int) -> tuple[Join, ...]:
        return self.formers[former - 1].joins if former else self.joins

    def shard_of(self, former: int) -> ShardOptions:
        return self.formers[former - 1].leaves[0].shard if former else self.shard

    def place_of(self, tag: int) -> tuple[Leaf, int]:
        """The leaf and the global position in it that the tag of a row of a leaf names; see `tags_of`."""
        position, leaf = divmod(tag, len(self.every_leaf))
        return self.every_leaf[leaf], position

    def tags_of(self, leaf: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """One number for each of the global positions `int64[n]` in one of every leaf, and for that leaf."""
        return positions * len(self.every_leaf) + leaf if len(self.every_leaf) > 1 else positions

    def inputs_at(self, join: Join, cursor: Cursor) -> list[Cursor]:
        """The cursors of the inputs of a join, of that of the join."""
        cursors = cursor.parts([one.size for one in join.inputs])
        if not cursor.unfinished:
            return cursors
        rests = [[rest for rest in cursor.unfinished if rest.stage in one.stages] for one in join.inputs]
        return [one.with_unfinished(*unfinished) for one, unfinished in zip(cursors, rests)]

    def begun_at(self, part: Subtree, cursor: Cursor) -> set[int]:
        """The numbers of the stages of a part that have begun to deliver what they make of several inputs, at its cursor."""
        stages = zip(cursor.skips, self.stages[part.stages.start : part.stages.stop])
        return {stage.number for skip, stage in stages if skip > 0 and (stage.leaf is None or stage.unit > 1)}

    def is_below_join(self, stage: Stage) -> bool:
        """True if the rows of a stage, or the rows that its groups were made of, come from a join."""
        below = stage.input
        return below is not None and (below.stage is None or self.is_below_join(self.stages[below.stage]))

    def join_below(self, stage: Stage) -> Join:
        """The join that the rows of a stage, or what groups make of them, come from."""
        below = stage.input
        assert below is not None, "a stage below a join"
        return self.join_below(self.stages[below.stage]) if below.stage is not None else self.joins[below.join or 0]

    def begins_anew(self, leaf: int) -> bool:
        """True if a join reads a leaf again from its beginning."""
        restarting = (part.leaves for join in self.joins if join.rule.restarts for part in join.inputs)
        return any(leaves.start <= leaf < leaves.stop for leaves in restarting)

    def stage_on(self, leaf: int) -> Stage:
        return next(stage for stage in self.stages if stage.leaf == leaf)

    @property
    def shard(self) -> ShardOptions:
        """The part of each leaf that is this process's."""
        return self.leaves[0].shard

    @cached_property
    def aligned(self) -> bool:
        """Every position gives exactly one row, so that a span is a batch."""
        return len(self.stages) == 1 and self.stages[0].one_to_one and not self.joins and not self.skips_errors

    @property
    def endless(self) -> bool:
        return all(leaf.endless for leaf in self.leaves)

    @property
    def start(self) -> Cursor:
        return self.start_of(self.top)

    def start_of(self, part: Subtree) -> Cursor:
        notes = tuple(join.rule.start for join in self.joins[part.joins])
        return Cursor((0,) * part.size.leaves, (0,) * part.size.stages, notes)

    def whole_from(self, start: Cursor) -> bool:
        """True if all of the stream, of all shards, follows a cursor."""
        untouched = all(leaf.shard.shard_count == 1 and not leaf.lineage.layers for leaf in self.leaves)
        return untouched and start == self.start

    @cached_property
    def columns(self) -> Any:
        """The source's columns, a tree of arrays, if the pipeline stacks them before anything else; None if not."""
        columns = getattr(self.leaves[0].source, "columns", None)
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
        """For each leaf, the positions in a task."""
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
        """Numbers of the stages whose rows other stages take; those of the others are elements."""
        last = self.top.stage
        return frozenset(stage.number for stage in self.stages if last is not None and stage.number != last)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Identity of source, sampler and operations, in plain JSON values."""
        assert self.identity is not None
        joins = [join.fingerprint for join in self.joins]
        return self.identity.fingerprint([leaf.sampler for leaf in self.leaves], joins, self.operations)

    def fingerprint_like(self, saved: Fingerprint) -> dict[str, Any]:
        """The fingerprint in the form of a saved one, which an older version may have written."""
        assert self.identity is not None
        return self.identity.in_the_form_of(saved, self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        """Without the columns: the source has them, and they would be sent twice."""
        return {name: value for name, value in vars(self).items() if name != "columns"}

    def runs_like(self, other: Pipeline) -> bool:
        """True if tasks are the same work in both, which come of one loader: the histories of their shards are the same."""
        histories = [
            ([leaf.lineage for leaf in one.leaves], [former.whose for former in one.formers]) for one in (self, other)
        ]
        return histories[0] == histories[1]

    def with_leaf(self, leaf: Leaf) -> Pipeline:
        return dataclasses.replace(self, leaves=(leaf,))


def _is_stackable(column: Any) -> bool:
    """True if a batch of a column's rows is an array of the column's dtype, whatever the rows."""
    return is_text_column(column) or bool(column.dtype == np.result_type(column.dtype) and column.dtype.kind != "O")
