"""Decides how a pipeline goes on from states: of its own shard, or of all shards of a former run.

In: states, and the pipeline as its loader made it. Out: the pipeline and the state that go on; or a `CheckpointError` that
says why they cannot. Nothing here reads a record, unless a shard stood inside a batch that a `FlatMap` takes apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

from ...errors import CheckpointError
from ...samplers import NoSharding, ShardOptions
from ...samplers.own_orders import has_own_orders, order_of
from ...samplers.protocol import VectorSampler
from ...wording import brief, first_few
from ..plan.cursor import Cursor
from ..plan.fingerprint import differences
from ..plan.lineage import Lineage
from ..plan.pipeline import Pipeline
from ..plan.ranges import Ranges, count_of, union
from ..plan.steps import positions_left_out
from .loader_state import LoaderState, Unfinished
from .unfinished import in_a_batch, place_behind


def parsed(states: Any) -> list[LoaderState]:
    """The states of a run, read."""
    if not isinstance(states, (list, tuple)):
        raise CheckpointError(
            f"set_states takes a list of states, not a {type(states).__name__}; pass those of all shards."
        )
    read: list[LoaderState] = []
    for number, state in enumerate(states):
        try:
            read.append(LoaderState.from_json(state, like=read[0] if read else None))
        except CheckpointError as error:
            raise CheckpointError(f"state {number} of {len(states)}: {brief(error, 400)}") from None
    return read


def resumed(pipeline: Pipeline, state: LoaderState, strict: bool) -> Pipeline:
    """The pipeline that goes on from a state of its shard.

    Args:
        pipeline: as the loader made it.
        state: where to go on.
        strict: refuse a state of another source, sampler, or list of operations.
    """
    changed = _changes(pipeline, state) if strict else []
    shard = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    if state.shard != shard:
        changed.append(f"shard: {state.shard[0]} of {state.shard[1]} → {shard[0]} of {shard[1]}")
    if changed:
        remedy = "pass set_states the states of all its shards" if state.shard != shard else _REMEDY
        raise CheckpointError(f"the state belongs to another pipeline ({first_few(changed)}); {remedy}.")
    order = _order(pipeline.sampler, pipeline.shard, state.lineage.order_shards)
    _check_lineage(pipeline, state.lineage, order)
    found = dataclasses.replace(pipeline, sampler=order, lineage=state.lineage)
    cursor = state.cursor
    if (len(cursor.skips) != len(found.segments) and any(cursor.skips)) or cursor.position > found.total:
        raise CheckpointError(
            f"the state's cursor {[cursor.position, *cursor.skips]} lies outside this pipeline, which has "
            f"{found.total} positions and {len(found.segments)} segments."
        )
    formers(pipeline, state.unfinished)
    return found


def formers(pipeline: Pipeline, unfinished: Sequence[Unfinished]) -> list[Pipeline]:
    """The pipelines of the former shards that were in the middle of something."""
    found = []
    for rest in unfinished:
        shard = ShardOptions(*rest.shard, pipeline.shard.drop_remainder)
        order = _order(pipeline.sampler, shard, rest.lineage.order_shards)
        _check_lineage(pipeline, rest.lineage, order)
        former = dataclasses.replace(pipeline, sampler=order, shard=shard, lineage=rest.lineage)
        if len(rest.cursor.skips) != len(former.segments) or rest.cursor.position > former.total:
            raise CheckpointError(f"the state's unfinished place {list(rest.cursor)} lies outside this pipeline.")
        found.append(former)
    return found


_REMEDY = (
    "restore it with the pipeline that it was taken from, or go on deliberately with set_state(state, strict=False)"
)


def _changes(pipeline: Pipeline, state: LoaderState) -> list[str]:
    """What is another than it was; another batch size is one of them only in the middle of a batch's rows."""
    saved, present = dict(state.fingerprint), pipeline.fingerprint_like(state.fingerprint)
    if not in_a_batch(pipeline, state.cursor) and len(saved["batch_sizes"]) == len(present["batch_sizes"]):
        saved.pop("batch_sizes"), present.pop("batch_sizes")
    changed = differences(saved, present)
    if not changed and len(state.cursor.skips) != len(pipeline.segments) and any(state.cursor.skips):
        changed.append(f"segments: {len(state.cursor.skips)} → {len(pipeline.segments)}")
    return changed


def _check_lineage(pipeline: Pipeline, lineage: Lineage, order: VectorSampler) -> None:
    whole = _everything(pipeline.sampler, order, lineage.order_shards)
    total = pipeline.shard.length(len(order)) if lineage.within_shard else len(whole)
    if lineage.layers and lineage.total != total:
        raise CheckpointError(
            f"the state is one of a run over {lineage.total} positions, on other shards before; this sampler has {total}."
        )


def _everything(sampler: VectorSampler, order: VectorSampler, order_shards: int) -> VectorSampler:
    """The sampler that tells how many positions there are for all shards.

    What shards of equal length leave out is among them, unless each shard has an order of its own.
    """
    return order if order_shards else sampler.with_shard_options(NoSharding())


def _order(sampler: VectorSampler, shard: ShardOptions, order_shards: int) -> VectorSampler:
    try:
        return order_of(sampler, shard, order_shards)
    except ValueError as error:
        raise CheckpointError(f"the state is damaged: {brief(error)}") from None


def joined(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> LoaderState:
    """The state from which a shard goes on behind all shards of a former run.

    Args:
        pipeline: as the loader made it.
        states: of all former shards, in any order.
        strict: as for `resumed`.
    """
    by_shard = _complete(states)
    shard = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    if shard[1] == len(by_shard):
        return by_shard[shard[0]]
    first = by_shard[0]
    for state in by_shard:
        _check_elastic(pipeline, state, strict)
    own_orders = has_own_orders(pipeline.sampler)
    order_shards = first.lineage.order_shards or (len(by_shard) if own_orders else 0)
    total = len(_everything(pipeline.sampler, _order(pipeline.sampler, pipeline.shard, order_shards), order_shards))
    left_out = union(chain.from_iterable(state.left_out for state in by_shard))
    unread = _unread(by_shard, left_out, total) if pipeline.aligned else ()
    passed = left_out if pipeline.aligned else ()
    before = dataclasses.replace(first.lineage, order_shards=order_shards)
    cursors, unfinished = _places(pipeline, by_shard)
    lineage = before.followed_by(cursors, total, unread, passed)
    start = Cursor(0, (0,) * len(pipeline.segments))
    step = max(state.step for state in by_shard)
    own = tuple(unfinished[shard[0] :: shard[1]])
    return LoaderState(start, step, shard, first.fingerprint, lineage, left_out, own)


def _places(pipeline: Pipeline, states: Sequence[LoaderState]) -> tuple[list[Cursor], list[Unfinished]]:
    """Where any shards can go on behind each of these, and what comes before that."""
    cursors: list[Cursor] = []
    unfinished: list[Unfinished] = []
    for state in states:
        cursor = state.cursor
        unfinished += state.unfinished
        if in_a_batch(pipeline, cursor):
            unfinished.append(Unfinished(state.shard, cursor, state.lineage))
            (former,) = formers(pipeline, unfinished[-1:])
            cursor = place_behind(former, cursor)
        cursors.append(cursor)
    return cursors, unfinished


def _complete(states: Sequence[LoaderState]) -> list[LoaderState]:
    """The states by shard, if they are those of one run, and all."""
    if not states:
        raise CheckpointError("set_states needs the states of all shards of the former run; there are none.")
    first, count = states[0], states[0].shard[1]
    by_shard = {state.shard[0]: state for state in states}
    for state in states:
        if by_shard[state.shard[0]] != state:
            raise CheckpointError(f"there are two states of shard {state.shard[0]}, which differ.")
        if (state.shard[1], state.lineage, state.fingerprint) != (count, first.lineage, first.fingerprint):
            raise CheckpointError(
                f"the states of shards {first.shard[0]} and {state.shard[0]} are of different runs; pass those of one."
            )
    if len(by_shard) < count:
        missing = [shard for shard in range(min(count, len(by_shard) + 8)) if shard not in by_shard][:8]
        more = "" if len(missing) == count - len(by_shard) else f" and others, {count - len(by_shard)} in all,"
        raise CheckpointError(f"the states of shards {missing}{more} of {count} are missing; pass all of them.")
    return [by_shard[shard] for shard in range(count)]


def _check_elastic(pipeline: Pipeline, state: LoaderState, strict: bool) -> None:
    if state.lineage.within_shard:
        raise CheckpointError(
            "the states go on after a run of Grain on several workers and shards, whose orders cannot be joined; "
            "keep the number of shards."
        )
    if strict and (changed := _changes(pipeline, state)):
        raise CheckpointError(f"the states belong to another pipeline ({first_few(changed)}); {_REMEDY}.")


def _unread(states: Sequence[LoaderState], left_out: Ranges, total: int) -> Ranges:
    """The local positions that the shards of an aligned pipeline left out, or were still to leave out."""
    if not left_out:
        return ()
    passed, unit = states[0].lineage.left_out, prod(states[0].fingerprint["batch_sizes"])
    ends = states[0].lineage.length(total) // len(states)  # where a shard has ended, its last step may be a short one
    going = [state for state in states if state.cursor.position < ends] or states[:1]
    begins = {state.cursor.position - (state.step - count_of(passed, state.step)) * unit for state in going}
    if len(begins) > 1:
        raise CheckpointError(
            "steps are left out, and the batch size changed at different steps of the shards, so that a step is not the same "
            "records for all; take the checkpoint at equal steps."
        )
    last = min(going, key=lambda state: state.step)
    return positions_left_out(left_out, (last.cursor.position, last.step), unit, passed)
