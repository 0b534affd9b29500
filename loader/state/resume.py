"""Resume a pipeline from the state of its own shard, or from those of all shards of an earlier run.

In: saved states, and the current pipeline. Out: the pipeline and the state to resume with; or a
`CheckpointError` that says why the run cannot be resumed. No record is read here, with one
exception: the caller's function `run` may be called to find the end of a window (inputs that a
`Pack`, for example, processes together) that was delivered in part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from ...common.fields import replaced
from ...common.messages import short_repr
from ...errors import CheckpointError, JoinError
from ...samplers import ShardOptions
from ...samplers.grain.own_orders import has_own_orders
from ..plan.cursor import Cursor, JoinState, Leftover
from ..plan.history import Mark
from ..plan.identity import differences
from ..plan.leaf import Leaf
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from ..plan.steps.skipped import Ranges, SkippedSteps, count_of, union
from .changed_streams import migrate
from .changed_weights import check_left
from .checks.batch_sizes import sizes_in_use
from .checks.equal_steps import at_equal_steps
from .checks.refusals import REMEDY, of_another, remedy_of
from .kept import Kept
from .leftover import (
    Run,
    everything,
    is_outside,
    order_for,
    split_leftover,
    with_formers,
    with_lineages,
)
from .schema import LoaderState


class Resumed(NamedTuple):
    """A run that resumes from a state.

    Attributes:
        program: the current program's pipeline, adapted to changes since the state was saved.
        pipeline: the pipeline that runs. It reads only what earlier runs did not read.
        start: cursor (place in the stream) from which it runs.
        state: state of this shard.
    """

    program: Pipeline
    pipeline: Pipeline
    start: Cursor
    state: LoaderState


def resume(
    program: Pipeline,
    states: Sequence[LoaderState],
    strict: bool,
    run: Run,
    of_all_shards: bool = False,
    equal_steps: bool = False,
) -> Resumed:
    """Resume a run from saved states, also if the current program orders records differently.

    Args:
        program: the current program's pipeline, before any state is applied.
        states: a list with the state of this shard; or with other states, see `of_all_shards` and
            `equal_steps`.
        strict: False accepts a state of another source, sampler or other operations.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if a state was saved
            inside the window and earlier operations made its inputs.
        of_all_shards: True if `states` has the states of all shards of a run, in any order.
        equal_steps: True if `states` has the state of only one shard, and all shards were at the
            same step. Then `of_all_shards` must be True, too.

    Raises:
        CheckpointError: a state is missing, or is from another run or program, or the run cannot be
            resumed with this program.
    """
    if equal_steps:
        states = at_equal_steps(program, states)
    program, states = migrate(program, states, strict, run)
    state = merge_shard_states(program, states, strict, run) if of_all_shards else states[0]
    found = resumed(program, state, strict)
    check_left(program, found.pipeline, state.cursor, run)
    return found


def resumed(pipeline: Pipeline, state: LoaderState, strict: bool) -> Resumed:
    """Resume from a state of this shard, with a pipeline that was adapted to the state's order.

    Args:
        pipeline: the adapted pipeline (see `migrate`).
        state: state of the same shard.
        strict: False accepts a state of another source, sampler or other operations.

    Raises:
        CheckpointError: the state belongs to another shard or pipeline, or its place is after the
            end of the pipeline's stream.
    """
    changed = _changes(pipeline, state) if strict else []
    shard = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    if state.shard != shard:
        changed.append(f"shard: {state.shard[0]} of {state.shard[1]} → {shard[0]} of {shard[1]}")
    if changed:
        remedy = remedy_of(state, pipeline, len(changed) > 1)
        raise CheckpointError(of_another("the state belongs", changed, remedy))
    found = with_lineages(pipeline, state.history.shards, pipeline.shard)
    cursor = state.cursor
    if (len(cursor.skips) != len(found.stages) and any(cursor.skips)) or is_outside(
        found, found.top, cursor
    ):
        raise CheckpointError(
            "the state does not fit this loader: when it was saved, its shard had read "
            f"{short_repr(list(cursor.positions))} records (of each source, in all epochs). Here "
            f"the shard has {short_repr([leaf.total for leaf in found.leaves])} records, or the "
            "operations are others. Restore it with the pipeline that saved it, or with at least "
            "as many records and epochs."
        )
    resuming = with_formers(pipeline, found, cursor.unfinished)
    skips = cursor.skips if any(cursor.skips) else resuming.start.skips
    return Resumed(pipeline, resuming, replaced(cursor, skips=skips), state)


def _changes(pipeline: Pipeline, state: LoaderState) -> list[str]:
    """Return short texts that say how a pipeline differs from the one that saved a state.

    The list is empty if they do not differ. Another batch size counts as a difference only if the
    state was saved inside a batch, or if one of the pipelines has more batches or windows than the
    other.
    """
    saved, present = (each.identity.labelled for each in (state, pipeline))
    if len(saved["batch_sizes"]) == len(present["batch_sizes"]):
        fixed = sizes_in_use(pipeline, state)
        for labelled in (saved, present):
            labelled["batch_sizes"] = [
                size if fix else None for size, fix in zip(labelled["batch_sizes"], fixed)
            ]
    changed = differences(saved, present)
    if not changed and len(state.cursor.skips) != len(pipeline.stages) and any(state.cursor.skips):
        changed.append(f"stages: {len(state.cursor.skips)} → {len(pipeline.stages)}")
    return changed


def merge_shard_states(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> LoaderState:
    """Return the state with which this shard resumes, made of the states of all earlier shards.

    If the earlier run had as many shards as now, the result is the saved state of this shard.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of all shards of the earlier run, in any order.
        strict: False accepts states of another source, sampler or other operations.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if a shard of the
            earlier run stopped inside the window and earlier operations made its inputs.

    Raises:
        CheckpointError: a state is missing, or is of another run or pipeline.
    """
    by_shard = _complete(states)
    shard = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    if shard[1] == len(by_shard):
        return by_shard[shard[0]]
    first = by_shard[0]
    for state in by_shard:
        _check_elastic(pipeline, state, strict)
    kept = Kept.of_shards([state.kept for state in sorted(by_shard, key=lambda state: -state.step)])
    skipped = kept.skipped
    cursors = [split_leftover(pipeline, state, run) for state in by_shard]
    lineages = tuple(
        _lineage_after(pipeline, number, by_shard, cursors, skipped)
        for number in range(len(pipeline.leaves))
    )
    if pipeline.aligned:
        absorbed = union((*skipped.absorbed, *skipped.steps))
        kept = dataclasses.replace(kept, skipped=SkippedSteps(skipped.steps, absorbed))
    step = max(state.step for state in by_shard)
    unfinished = _dealt_out(chain.from_iterable(cursor.unfinished for cursor in cursors))[
        shard[0] :: shard[1]
    ]
    start = replaced(
        pipeline.start,
        notes=_notes(pipeline, cursors),
        unfinished=tuple(chain.from_iterable(unfinished)),
    )
    history = dataclasses.replace(first.history, shards=lineages)
    marks = {leaf: Mark(ended=mark.ended) for leaf, mark in first.marks.items() if mark.ended}
    return LoaderState(start, step, shard, first.identity, history, kept, marks)


def _dealt_out(unfinished: Iterable[Leftover]) -> list[list[Leftover]]:
    """Group leftovers (unfinished work of earlier shards) by the shard that began them.

    All leftovers of a group must go to the same new shard: a zip, for example, needs all of its
    inputs on one shard.

    Returns:
        A list of groups.
    """
    by_former: dict[tuple[Any, ...], list[Leftover]] = {}
    for rest in unfinished:
        by_former.setdefault((rest.shard, rest.lineages), []).append(rest)
    return list(by_former.values())


def _notes(pipeline: Pipeline, cursors: Sequence[Cursor]) -> tuple[JoinState, ...]:
    shards = pipeline.shard.shard_count
    try:
        return tuple(
            join.rule.shared([cursor.notes[join.number] for cursor in cursors], shards)
            for join in pipeline.joins
        )
    except JoinError as error:
        raise CheckpointError(str(error)) from None


def _lineage_after(
    pipeline: Pipeline,
    number: int,
    states: Sequence[LoaderState],
    cursors: Sequence[Cursor],
    skipped: SkippedSteps,
) -> ReshardHistory:
    leaf, stage = pipeline.leaves[number], pipeline.stage_on(number)
    before = states[0].history.shards[number]
    if leaf.plans_batches:
        return _dealt_after(leaf, before, states, cursors, number, skipped)
    order_shards = before.order_shards or (len(states) if has_own_orders(leaf.sampler) else 0)
    total = len(
        everything(leaf.sampler, order_for(leaf.sampler, leaf.shard, order_shards), order_shards)
    )
    unread = _unread(states, skipped, total) if pipeline.aligned else ()
    places = [(cursor.positions[number], cursor.skips[stage.number]) for cursor in cursors]
    after = dataclasses.replace(before, order_shards=order_shards).followed_by(
        places, total, unread
    )
    return after.dealt_anew(leaf.lineage.blocks)


def _dealt_after(
    leaf: Leaf,
    before: ReshardHistory,
    states: Sequence[LoaderState],
    cursors: Sequence[Cursor],
    number: int,
    skipped: SkippedSteps,
) -> ReshardHistory:
    """Return the history of shards after a run with planned batches.

    Planned batches are those of `BudgetBatch` with known lengths. The history says which batches
    the shards of earlier runs have read.

    Args:
        leaf: source of the planned batches, with its sampler.
        before: history before the run.
        states: states of all shards of the run.
        cursors: for each of these states, the cursor (place in the stream).
        number: index of the source among all sources of the pipeline.
        skipped: steps that the run skips.

    Raises:
        CheckpointError: steps are still to be skipped, or a batch is being split into its elements.
    """
    last = min(state.step for state in states)
    if any(stop > last for _, stop in skipped.present) or any(
        any(cursor.skips) for cursor in cursors
    ):
        raise CheckpointError(
            "planned batches cannot change their number of shards while steps are still to be "
            "skipped, or inside a batch that a FlatMap splits. Change the number of shards at a "
            "later step."
        )
    former: Any = leaf.sampler
    former = former.after(before.layers, ShardOptions(0, len(states)))
    return ReshardHistory.planned(
        former.layers_after([cursor.positions[number] for cursor in cursors])
    )


def _complete(states: Sequence[LoaderState]) -> list[LoaderState]:
    """Return the states sorted by shard, after checking that all states of one run are given.

    Raises:
        CheckpointError: states are missing, or are of different runs; or two states are of the same
            shard, and differ.
    """
    if not states:
        raise CheckpointError(
            "set_states needs the states of all shards of the former run, but the list is empty. "
            "Pass a list with a state of each shard."
        )
    first, count = states[0], states[0].shard[1]
    by_shard = {state.shard[0]: state for state in states}
    expected = (count, first.history, first.identity.of_any_sizes)
    for state in states:
        if by_shard[state.shard[0]] != state:
            raise CheckpointError(
                f"two states are of shard {state.shard[0]}, but they differ. Pass one state for "
                "each shard."
            )
        if (state.shard[1], state.history, state.identity.of_any_sizes) != expected:
            raise CheckpointError(
                f"the states of shards {first.shard[0]} and {state.shard[0]} are of different "
                "runs, or only one of them was saved after a change of the run. Pass states of one "
                "run, saved at the same step."
            )
    if len(by_shard) < count:
        missing = [
            shard for shard in range(min(count, len(by_shard) + 8)) if shard not in by_shard
        ][:8]
        more = (
            ""
            if len(missing) == count - len(by_shard)
            else f" and others, {count - len(by_shard)} in all,"
        )
        raise CheckpointError(
            f"the states of shards {missing}{more} of {count} are missing. Call set_states(…) with "
            f"the states of all {count} shards. If all shards were at the same step, call "
            "set_states([state], equal_steps=True)."
        )
    return [by_shard[shard] for shard in range(count)]


def _check_elastic(pipeline: Pipeline, state: LoaderState, strict: bool) -> None:
    if any(lineage.within_shard for lineage in state.history.shards):
        raise CheckpointError(
            "the states resume a Grain run on several workers and shards, whose orders cannot be "
            "combined. Keep the number of shards."
        )
    if strict and (changed := _changes(pipeline, state)):
        raise CheckpointError(of_another("the states belong", changed, REMEDY))


def _unread(states: Sequence[LoaderState], skipped: SkippedSteps, total: int) -> Ranges:
    """Return the ranges of local positions that the shards skipped, or still have to skip.

    Local positions are counted within one shard. Each step of the pipeline must have the same
    number of positions.

    Args:
        states: states of all shards of a run.
        skipped: steps that the run skips.
        total: number of positions of the order, on all shards together.

    Raises:
        CheckpointError: the shards changed their batch size at different steps.
    """
    if not skipped:
        return ()
    # Where a shard has ended, its last step may be a short one.
    ends = states[0].history.shards[0].length(total) // len(states)
    going = [state for state in states if state.cursor.positions[0] < ends] or states[:1]
    units = {prod(state.identity.sizes) for state in going}
    unit = max(units)
    begins = {
        state.cursor.positions[0] - (state.step - count_of(skipped.absorbed, state.step)) * unit
        for state in going
    }
    if len(begins) > 1 or len(units) > 1:
        raise CheckpointError(
            "steps were skipped, and the batch size changed at another step in each shard, so a "
            "step contains other records in each shard. Restore states that all shards saved at "
            "the same step."
        )
    last = min(going, key=lambda state: state.step)
    return skipped.positions((last.cursor.positions[0], last.step), unit)
