"""Leftovers: windows, or batches split into elements, that an earlier shard delivered only in part.

A window has the inputs that a `Pack`, for example, processes together.

In: the place where the earlier shard stopped. Out: a place from which any shard can continue, and
leftovers. One of the new shards makes each leftover again, and delivers the elements that the
earlier shard did not deliver.

The place after a window must be known. If the inputs of a window are records, its end is computed.
If they are rows that earlier operations made, the window is run to find its end.
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
from ...samplers.grain.own_orders import order_of
from ...samplers.protocol import VectorSampler
from ..plan.cursor import Cursor, Leftover, Subtree, cursor_of_join, those_within
from ..plan.leaf import Leaf
from ..plan.lineage import ReshardHistory
from ..plan.mix_rules import former_mix
from ..plan.pipeline import Pipeline, PreviousShard
from ..stream.rows import Rows
from .schema import LoaderState

Run: TypeAlias = Callable[[Pipeline, Cursor], Generator[tuple[Any, Rows, int], None, None]]
"""Function that runs a pipeline from a cursor (place in the stream) on.

It yields, for each element: the element, the `Rows` object that contains it, and its index in these
rows.
"""


def split_leftover(loaders: Pipeline, state: LoaderState, run: Run, mix: str = "") -> Cursor:
    """Return the cursor (place in the stream) from which any shard can continue after one stopped.

    A window or batch of which the shard had delivered only some elements becomes a `Leftover` in
    the cursor, and the place itself is moved to the end of this window or batch. The function is
    also used if the same shard continues with another mix.

    Args:
        loaders: the current program's pipeline, before any state is applied.
        state: state of the shard.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if the shard stopped
            inside the window and earlier operations made its inputs.
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
        """Return the cursor (place in the stream) to continue a part of the pipeline.

        If a window or batch in this part was begun, it becomes a leftover in the returned cursor.

        Args:
            part: the part of the pipeline.
            cursor: cursor of this part at which the shard stopped.
        """
        rests = tuple(rest for rest in cursor.unfinished if rest.stage == part.stage)
        if part.stage is None:
            join = former.joins[part.join or 0]
            inputs = map(split, join.inputs, former.inputs_at(join, cursor))
            cursor = cursor_of_join(inputs, cursor.notes[-1])
            return cursor.with_unfinished(*rests, *cursor.unfinished)
        stage = former.stages[part.stage]
        cursor = cursor.with_unfinished(*(rest for rest in cursor.unfinished if rest not in rests))
        if stage.number in former.begun_at(part, cursor):
            rests = (*rests, Leftover(state.shard, cursor, lineages, ends, stage.number, mix))
            cursor = _end(former, part, cursor, run)
        if stage.input is not None:
            cursor = split(stage.input, cursor.before()).then(cursor.skips[-1])
        return cursor.with_unfinished(*rests, *cursor.unfinished)

    return split(former.top, state.cursor)


def set_apart(
    former: Pipeline, states: Sequence[LoaderState], length: int, run: Run
) -> list[LoaderState]:
    """Return states that can continue in a changed order.

    A window has the inputs that a `Pack`, for example, processes together. If a state was saved
    inside a window, the window usually has the same records in the earlier and in the changed
    order, and the state is returned unchanged. Two kinds of windows need the earlier order. They
    become leftovers: unfinished work that is saved apart in the state, and is made in the earlier
    order.

    * windows of rows that earlier operations made
    * a window that is shorter than others because the earlier order ended in it

    Args:
        former: pipeline with the earlier order.
        states: states of the run.
        length: number of positions of the earlier order, on all shards together.
        run: function that runs a pipeline (see `Run`), to find the end of a window of rows.
    """
    return [
        dataclasses.replace(state, cursor=split_leftover(former, state, run))
        if _needs_former(former, state, length)
        else state
        for state in states
    ]


def _needs_former(former: Pipeline, state: LoaderState, length: int) -> bool:
    """Return True if a state was saved inside a window that only the earlier order can finish.

    Such a window (inputs that a `Pack`, for example, processes together) has rows that earlier
    operations made; or it is shorter than others because the earlier order ended in it.

    Args:
        former: pipeline with the earlier order.
        state: the state.
        length: number of positions of the earlier order, on all shards together.
    """
    begun = former.begun_at(former.top, state.cursor)
    shard = ShardOptions(*state.shard, former.shard.drop_remainder)
    total, end = (
        shard.length(state.history.shards[0].length(length)),
        state.cursor.positions[0] + former.stage_on(0).unit,
    )
    return any(stage > 0 or end > total for stage in begun)


def read_to_end(loaders: Pipeline, rest: Leftover, run: Run) -> None:
    """Run a leftover (unfinished work of an earlier shard) to its end, and drop its rows.

    So if the work fails, the error is raised when the run resumes, and not in the middle of the
    run. Nothing is run if the inputs of the leftover are records of a source: there is only work to
    run if earlier operations made its inputs.

    Args:
        loaders: the current program's pipeline, before any state is applied.
        rest: the leftover.
        run: function that runs a pipeline (see `Run`).
    """
    part = part_of(loaders, rest) or loaders.top
    if part.stage is not None:
        former = with_formers(
            loaders, _former(loaders, part, rest, rest.mix), rest.cursor.unfinished
        )
        _end(former, part, rest.cursor, run)


def _end(former: Pipeline, part: Subtree, cursor: Cursor, run: Run) -> Cursor:
    """Return the cursor (place in the stream) at the end of a batch or window delivered in part.

    Args:
        former: pipeline of the shard that had begun the batch or window.
        part: the part of this pipeline from its sources to the batch or window.
        cursor: cursor of this part, inside the batch or window.
        run: function that runs a pipeline (see `Run`). It is called if the inputs of the window are
            rows that earlier operations made, not records.
    """
    assert part.stage is not None, "only stages make something of several inputs"
    stage = former.stages[part.stage]
    if stage.leaf is not None:
        end = min(cursor.positions[0] + stage.unit, former.leaves[stage.leaf].total)
        return replaced(cursor, positions=(end,), skips=(0,))
    for rows, row in _to_end(former, part, cursor, run):
        cursor = rows.origin.cursor_after(row)
    return cursor


def _to_end(
    former: Pipeline, part: Subtree, cursor: Cursor, run: Run
) -> Iterator[tuple[Rows, int]]:
    """Run a part of a pipeline to the end of the window at a cursor (place in the stream).

    Args:
        former: pipeline of the shard that had begun the window.
        part: the part of this pipeline from its sources to the window.
        cursor: cursor of this part, inside the window.
        run: function that runs a pipeline (see `Run`).

    Yields:
        For each element of the window that is not yet delivered: the `Rows` object that contains
        it, and its index in this object.
    """
    with closing(run(dataclasses.replace(former, top=part), cursor)) as elements:
        for _, rows, row in elements:
            yield rows, row
            if part.stage not in former.begun_at(part, rows.origin.cursor_after(row)):
                break


def with_lineages(
    pipeline: Pipeline, lineages: Sequence[ReshardHistory], shard: ShardOptions
) -> Pipeline:
    """Return a shard's pipeline in which each source is read only where earlier runs did not read.

    Args:
        pipeline: pipeline that reads everything.
        lineages: for each leaf (source with its sampler), the history of earlier runs on other
            numbers of shards.
        shard: the shard.

    Raises:
        CheckpointError: there are more or fewer histories than leaves, or a history does not fit
            the leaf's order.
    """
    if len(lineages) != len(pipeline.leaves):
        raise CheckpointError(
            f"the state is of a pipeline with {len(lineages)} sources, but this one has "
            f"{len(pipeline.leaves)}. Restore it with the pipeline that saved it."
        )
    leaves = tuple(
        _with_lineage(leaf, lineage, shard) for leaf, lineage in zip(pipeline.leaves, lineages)
    )
    return dataclasses.replace(pipeline, leaves=leaves)


def _with_lineage(leaf: Leaf, lineage: ReshardHistory, shard: ShardOptions) -> Leaf:
    if leaf.plans_batches:
        dealt: Any = leaf.sampler
        return dataclasses.replace(
            leaf, sampler=dealt.after(lineage.layers, shard), shard=shard, lineage=lineage
        )
    if (
        lineage.blocks is not None
        and lineage.blocks.shards > 1
        and leaf.sampler.facts.balance is None
    ):
        raise CheckpointError(
            f"the state is of a run whose batches of {lineage.blocks.size} records were divided "
            f"among {lineage.blocks.shards} shards by cost, but this sampler has no balance=. Pass "
            "the former balance=."
        )
    order = order_for(leaf.sampler, shard, lineage.order_shards)
    whole = everything(leaf.sampler, order, lineage.order_shards)
    total = leaf.shard.length(len(order)) if lineage.within_shard else len(whole)
    lineage.check_total(total)
    return dataclasses.replace(leaf, sampler=order, shard=shard, lineage=lineage)


def is_outside(pipeline: Pipeline, part: Subtree, cursor: Cursor) -> bool:
    """Return True if a cursor (place in the stream) does not fit a part of a pipeline.

    It does not fit if it lies after the end of the part; if it has more or fewer entries than the
    part has sources and joins; or if an entry cannot be the progress of its join.

    Args:
        pipeline: the pipeline.
        part: the part of the pipeline.
        cursor: the cursor.
    """
    ends = [leaf.total for leaf in pipeline.leaves[part.leaves]]
    beyond = any(position > end for position, end in zip(cursor.positions, ends))
    joins = pipeline.joins[part.joins]
    known = len(cursor.notes) == len(joins) and len(cursor.positions) == len(ends)
    return (
        beyond
        or not known
        or not all(join.rule.is_state(state) for join, state in zip(joins, cursor.notes))
    )


def with_formers(loaders: Pipeline, pipeline: Pipeline, unfinished: Sequence[Leftover]) -> Pipeline:
    """Add shards of earlier runs to a pipeline, to finish their leftovers.

    Leftovers are unfinished work of such shards. They are made with the order and the mix of the
    shard that began them.

    Args:
        loaders: the current program's pipeline, before any state is applied.
        pipeline: pipeline to which the shards are added.
        unfinished: the leftovers.

    Raises:
        CheckpointError: a leftover lies outside the pipeline, or does not fit its order.
    """
    formers: dict[tuple[Any, ...], PreviousShard] = {}
    for rest in those_within(unfinished):
        former = _former(loaders, part_of(loaders, rest), rest, rest.mix)
        formers[rest.whose] = PreviousShard(rest.whose, former.leaves, former.joins)
    return dataclasses.replace(pipeline, formers=tuple(formers.values()))


def _former(
    loaders: Pipeline, part: Subtree | None, rest: LoaderState | Leftover, mix: str
) -> Pipeline:
    lineages = rest.lineages if isinstance(rest, Leftover) else rest.history.shards
    former = with_lineages(
        loaders, lineages, ShardOptions(*rest.shard, loaders.shard.drop_remainder)
    )
    if isinstance(rest, Leftover):
        ends = zip(former.leaves, rest.ends, strict=True)
        former = dataclasses.replace(
            former, leaves=tuple(dataclasses.replace(leaf, end=end) for leaf, end in ends)
        )
    if mix:
        former = dataclasses.replace(
            former, joins=(*former.joins[:-1], former_mix(former.joins[-1], mix))
        )
    if (
        part is None
        or len(rest.cursor.skips) != part.size.stages
        or is_outside(former, part, rest.cursor)
    ):
        raise CheckpointError(
            "the state was saved in the middle of a batch, Pack, FlatMap or the like that this "
            f"pipeline does not have there ({short_repr(list(rest.cursor[:3]))}). Restore it with "
            "the pipeline that saved it."
        )
    return former


def part_of(pipeline: Pipeline, rest: Leftover) -> Subtree | None:
    """Return the part of a pipeline that makes a leftover (unfinished work of an earlier shard).

    Return None if the pipeline has no such part.
    """
    return pipeline.stages[rest.stage].part if rest.stage < len(pipeline.stages) else None


def everything(sampler: VectorSampler, order: VectorSampler, order_shards: int) -> VectorSampler:
    """Return a sampler whose length is the number of positions of all shards of a run together.

    Args:
        sampler: the user's sampler.
        order: the order of one shard, as `order_for` returns it.
        order_shards: says how the shards of the run get their orders. 0: all shards read one order,
            or each shard has an order of its own and the number of shards never changed. 1: all
            shards read parts of the order that a single shard would have. A larger number n: the
            first run had n shards, each with an order of its own.

    Returns:
        `order` if `order_shards` is not 0; else the sampler for a single shard. Its length includes
        the positions at the end that are dropped if shards must be equally long.
    """
    return order if order_shards else sampler.with_shard_options(NoSharding())


def order_for(sampler: VectorSampler, shard: ShardOptions, order_shards: int) -> VectorSampler:
    """Return the order that a shard reads, as a sampler.

    Args:
        sampler: the user's sampler.
        shard: the shard.
        order_shards: says how the shards of the run get their orders, see `everything`.

    Raises:
        CheckpointError: the sampler cannot give that many shards an order of their own.
    """
    try:
        return order_of(sampler, shard, order_shards)
    except ValueError as error:
        reason = str(error).partition(". ")[0]
        raise CheckpointError(
            'the state is of a run with algorithm="grain", and does not fit this sampler: '
            f"{shorten(reason)}. Restore it with the sampler that saved it, and with as many "
            "records."
        ) from None
