"""Leftovers: windows, or batches split into elements, that a shard of an earlier run had delivered in part.

In: the place where that shard stopped. Out: a place from which any shard can continue; and leftovers,
which one of the new shards makes again to deliver the rest. The end of a window of records is
computed. A window of rows is read to its end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from ...common.fields import replaced
from ...common.messages import short_repr, shorten
from ...errors import CheckpointError
from ...samplers import NoSharding, ShardOptions
from ...samplers.own_orders import order_of
from ...samplers.protocol import VectorSampler
from ..plan.cursor import Cursor, Leftover, Subtree, cursor_of_join, those_within
from ..plan.leaf import Leaf
from ..plan.lineage import ReshardHistory
from ..plan.mix_rules import former_mix
from ..plan.pipeline import Pipeline, PreviousShard
from ..stream.rows import Rows
from .schema import LoaderState

Run: TypeAlias = Callable[[Pipeline, Cursor], Generator[tuple[Any, Rows, int], None, None]]
"""Function that runs a pipeline from a cursor on. It yields elements, each with its rows and its index there.

A cursor is a place in the stream.
"""


def split_leftover(loaders: Pipeline, state: LoaderState, run: Run, mix: str = "") -> Cursor:
    """Return the cursor (place in the stream) from which any shard can continue after a shard has stopped.

    Work that the shard had delivered in part becomes a `Leftover` in the cursor. Also used if the
    same shard continues with another mix.

    Args:
        loaders: pipeline as its loader made it.
        state: state of the shard.
        run: function that runs a pipeline. It is used to find the end of a window of rows, if the shard
            stopped inside one.
        mix: the earlier mix as JSON text, if the mix has changed; else "".

    Raises:
        CheckpointError: the state does not fit the pipeline.
    """
    if not loaders.begun_at(loaders.top, state.cursor):
        return state.cursor
    former = _former(loaders, loaders.top, state, mix)
    former = with_formers(loaders, former, state.cursor.unfinished)
    lineages = tuple(leaf.lineage for leaf in former.leaves)
    ends = tuple(None if leaf.endless else leaf.total for leaf in former.leaves)

    def split(part: Subtree, cursor: Cursor) -> Cursor:
        """Return the cursor (place in the stream) to continue a part of the pipeline, with leftovers for begun work."""
        rests = tuple(rest for rest in cursor.unfinished if rest.stage == part.stage)
        if part.stage is None:
            join = former.joins[part.join or 0]
            inputs = map(split, join.inputs, former.inputs_at(join, cursor))
            cursor = cursor_of_join(inputs, cursor.notes[-1])
            return cursor.with_unfinished(*rests, *cursor.unfinished)
        stage = former.stages[part.stage]
        cursor = cursor.with_unfinished(*(rest for rest in cursor.unfinished if rest not in rests))
        if stage.number in former.begun_at(part, cursor):
            rests = (*rests, Leftover(state.shard, cursor, lineages, ends, 0, stage.number, mix))
            cursor = _end(former, part, cursor, run)
        if stage.input is not None:
            cursor = split(stage.input, cursor.before()).then(cursor.skips[-1])
        return cursor.with_unfinished(*rests, *cursor.unfinished)

    return split(former.top, state.cursor)


def set_apart(former: Pipeline, states: Sequence[LoaderState], length: int, run: Run) -> list[LoaderState]:
    """Return states that can continue in a changed order. Begun windows that need the earlier order become leftovers.

    A leftover (rest of an earlier shard's work) is made with the earlier order. Other begun windows have the
    same records in both orders, except a window that the end of the earlier order cut short.

    Args:
        former: pipeline with the earlier order.
        states: states of the run.
        length: number of positions of the earlier order.
        run: function that runs a pipeline. It is used to find the end of a window of rows.
    """
    return [
        dataclasses.replace(state, cursor=split_leftover(former, state, run))
        if _needs_former(former, state, length)
        else state
        for state in states
    ]


def _needs_former(former: Pipeline, state: LoaderState, length: int) -> bool:
    """Return True if a state was saved inside a window of rows, or inside a window that the end of the order cut short.

    `length` is the number of positions of the earlier order.
    """
    begun = former.begun_at(former.top, state.cursor)
    shard = ShardOptions(*state.shard, former.shard.drop_remainder)
    total, end = shard.length(state.lineages[0].length(length)), state.cursor.positions[0] + former.stage_on(0).unit
    return any(stage > 0 or end > total for stage in begun)


def read_to_end(loaders: Pipeline, rest: Leftover, run: Run) -> None:
    """Run a leftover (the rest of an earlier shard's work) and drop its rows, so that an error in it is raised now.

    Args:
        loaders: pipeline as its loader made it.
        rest: the leftover.
        run: function that runs a pipeline.
    """
    part = part_of(loaders, rest) or loaders.top
    if part.stage is not None:
        former = with_formers(loaders, _former(loaders, part, rest, rest.mix), rest.cursor.unfinished)
        _end(former, part, rest.cursor, run)


def _end(former: Pipeline, part: Subtree, cursor: Cursor, run: Run) -> Cursor:
    """Return the cursor (place in the stream) after a group of inputs that was delivered in part.

    Args:
        former: pipeline of the shard that had begun the group.
        part: part of the pipeline that ends with the stage of the group.
        cursor: cursor of this part, inside the group.
        run: function that runs a pipeline, to find the end of a group of rows.
    """
    assert part.stage is not None, "only stages make something of several inputs"
    stage = former.stages[part.stage]
    if stage.leaf is not None:
        end = min(cursor.positions[0] + stage.unit, former.leaves[stage.leaf].total)
        return replaced(cursor, positions=(end,), skips=(0,))
    for rows, row in _to_end(former, part, cursor, run):
        cursor = rows.origin.cursor_after(row)
    return cursor


def _to_end(former: Pipeline, part: Subtree, cursor: Cursor, run: Run) -> Iterator[tuple[Rows, int]]:
    """Run a part of a pipeline to the end of the window in which its cursor lies.

    Yields, for each element, a set of rows and the element's index in it. `former` is the pipeline of
    the shard that had begun the window; `part` ends with the stage of the window.
    """
    with closing(run(dataclasses.replace(former, top=part), cursor)) as elements:
        for _, rows, row in elements:
            yield rows, row
            if part.stage not in former.begun_at(part, rows.origin.cursor_after(row)):
                break


def with_lineages(pipeline: Pipeline, lineages: Sequence[ReshardHistory], shard: ShardOptions) -> Pipeline:
    """Return the pipeline of a shard that reads, of each leaf (source with its sampler), what earlier runs did not read.

    `lineages` are the histories of these runs, one for each leaf; `shard` is the shard.

    Raises:
        CheckpointError: there are not as many histories as leaves, or a history does not fit the
            leaf's order.
    """
    if len(lineages) != len(pipeline.leaves):
        counts = f"{len(lineages)} sources, but this one has {len(pipeline.leaves)}"
        raise CheckpointError(f"the state is of a pipeline with {counts}. Restore it with the pipeline that saved it.")
    leaves = tuple(_with_lineage(leaf, lineage, shard) for leaf, lineage in zip(pipeline.leaves, lineages))
    return dataclasses.replace(pipeline, leaves=leaves)


def _with_lineage(leaf: Leaf, lineage: ReshardHistory, shard: ShardOptions) -> Leaf:
    if leaf.plans_batches:
        dealt: Any = leaf.sampler
        return dataclasses.replace(leaf, sampler=dealt.after(lineage.layers, shard), shard=shard, lineage=lineage)
    if lineage.blocks is not None and lineage.blocks.shards > 1 and leaf.sampler.facts.balance is None:
        raise CheckpointError(
            f"the state is of a run whose batches of {lineage.blocks.size} records were divided among "
            f"{lineage.blocks.shards} shards by cost, but this sampler has no balance=. Pass the former balance=."
        )
    order = order_for(leaf.sampler, shard, lineage.order_shards)
    whole = everything(leaf.sampler, order, lineage.order_shards)
    total = leaf.shard.length(len(order)) if lineage.within_shard else len(whole)
    lineage.check_total(total)
    return dataclasses.replace(leaf, sampler=order, shard=shard, lineage=lineage)


def is_outside(pipeline: Pipeline, part: Subtree, cursor: Cursor) -> bool:
    """Return True if a cursor (place in the stream) is after the end of a part of the pipeline, or does not fit it."""
    ends = [leaf.total for leaf in pipeline.leaves[part.leaves]]
    beyond = any(position > end for position, end in zip(cursor.positions, ends))
    joins = pipeline.joins[part.joins]
    known = len(cursor.notes) == len(joins) and len(cursor.positions) == len(ends)
    return beyond or not known or not all(join.rule.is_state(state) for join, state in zip(joins, cursor.notes))


def with_formers(loaders: Pipeline, pipeline: Pipeline, unfinished: Sequence[Leftover]) -> Pipeline:
    """Add to a pipeline the shards of the earlier run that are needed to make leftovers (rests of earlier shards' work).

    Args:
        loaders: pipeline as its loader made it.
        pipeline: pipeline to which they are added.
        unfinished: the leftovers.

    Raises:
        CheckpointError: a leftover lies outside the pipeline, or does not fit its order.
    """
    formers: dict[tuple[Any, ...], PreviousShard] = {}
    for rest in those_within(unfinished):
        former = _former(loaders, part_of(loaders, rest), rest, rest.mix)
        formers[rest.whose] = PreviousShard(rest.whose, former.leaves, former.joins)
    return dataclasses.replace(pipeline, formers=tuple(formers.values()))


def _former(loaders: Pipeline, part: Subtree | None, rest: LoaderState | Leftover, mix: str) -> Pipeline:
    former = with_lineages(loaders, rest.lineages, ShardOptions(*rest.shard, loaders.shard.drop_remainder))
    if isinstance(rest, Leftover):
        ends = zip(former.leaves, rest.ends, strict=True)
        former = dataclasses.replace(former, leaves=tuple(dataclasses.replace(leaf, end=end) for leaf, end in ends))
    if mix:
        former = dataclasses.replace(former, joins=(*former.joins[:-1], former_mix(former.joins[-1], mix)))
    if part is None or len(rest.cursor.skips) != part.size.stages or is_outside(former, part, rest.cursor):
        raise CheckpointError(
            f"the state has an unfinished element at {short_repr(list(rest.cursor[:3]))}, where this "
            "pipeline has none. Restore it with the pipeline that saved it."
        )
    return former


def part_of(pipeline: Pipeline, rest: Leftover) -> Subtree | None:
    """Return the part of the pipeline that makes a leftover; None if the pipeline has no such part.

    A leftover is the rest of an earlier shard's work.
    """
    return pipeline.stages[rest.stage].part if rest.stage < len(pipeline.stages) else None


def sizes_in_use(pipeline: Pipeline, state: LoaderState) -> list[bool]:
    """Return, for each operation that takes several inputs, True if its batch or window was delivered in part.

    That is so at the state's place, or in one of its leftovers. A change of the operation's size would
    then repeat or lose elements.
    """
    begun = [(pipeline.top, state.cursor)]
    begun += [(part_of(pipeline, rest) or pipeline.top, rest.cursor) for rest in those_within(state.cursor.unfinished)]
    within = set[int]().union(*(pipeline.begun_at(*where) for where in begun))
    every = ((stage.number, operation) for stage in pipeline.stages for operation in stage.operations)
    return [number in within for number, operation in every if operation.takes is not None]


def check_sizes(pipeline: Pipeline, state: LoaderState) -> None:
    """Check that batches and windows that were delivered in part have the same size in the pipeline as in the state.

    Raises:
        CheckpointError: such a batch or window has another size, so that elements would be repeated
            or lost.
    """
    before, now = state.identity.sizes, pipeline.identity.sizes
    aligned = _aligned(pipeline, state)
    if aligned is None:
        return
    in_use = sizes_in_use(pipeline, aligned)
    for former, size, begun in zip(reversed(before), reversed(now), reversed(in_use)):
        if begun and former != size:
            raise CheckpointError(
                "the checkpoint was saved between two elements of a batch or window of "
                f"{short_repr(former)}. With {short_repr(size)}, its elements would repeat or be "
                "lost. Keep the size until this batch or window ends, or restore a checkpoint that "
                "was saved between two batches."
            )


def _aligned(pipeline: Pipeline, state: LoaderState) -> LoaderState | None:
    """Return the state with its values rearranged to the stages (operations that run in one task) of this pipeline.

    If datasets of the uppermost mix were added or removed, only the stages after the mix are compared. The result is
    None if the pipeline has other stages than the state.
    """
    skips, stages = state.cursor.skips, len(pipeline.stages)
    if len(skips) == stages:
        same = len(state.identity.sizes) == len(pipeline.identity.sizes)
        return state if same else None
    after = stages - sum(part.size.stages for part in pipeline.joins[-1].inputs) if pipeline.joins else 0
    if not 0 < after <= len(skips):
        return None
    moved = (*(0,) * (stages - after), *skips[len(skips) - after :])
    return dataclasses.replace(state, cursor=replaced(state.cursor, skips=moved, unfinished=()))


def everything(sampler: VectorSampler, order: VectorSampler, order_shards: int) -> VectorSampler:
    """Return the sampler whose length is the number of positions of all shards of a run.

    Args:
        sampler: the user's sampler.
        order: the order of one shard, as `order_for` returns it.
        order_shards: number of shards of the first run if each had an order of its own; 1 if all
            read parts of one such order; else 0.

    Returns:
        `order` if `order_shards` is not 0; else the unsharded sampler, whose length includes the
        positions that shards of equal length drop.
    """
    return order if order_shards else sampler.with_shard_options(NoSharding())


def order_for(sampler: VectorSampler, shard: ShardOptions, order_shards: int) -> VectorSampler:
    """Return the order that a shard reads.

    Args:
        sampler: the user's sampler.
        shard: the shard.
        order_shards: number of shards of the first run if each had an order of its own; 1 if all read parts of one
            such order; else 0.

    Raises:
        CheckpointError: the sampler cannot have this number of own orders, so the state is damaged.
    """
    try:
        return order_of(sampler, shard, order_shards)
    except ValueError as error:
        raise CheckpointError(f"the state is damaged: {shorten(error)}. Restore another checkpoint.") from None
