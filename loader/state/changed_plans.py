"""Resume planned batches (`BudgetBatch` with known lengths) whose shapes have changed.

A plan says, before anything is read, which records each batch has. It is made window by window: the
records of a window are grouped into batches together.

In: the current pipeline, and saved states. Out: both, with the earlier run's plan for all windows
that a shard has begun, and the current plan for all later windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...errors import CheckpointError
from ...planned.protocol import PlannedSource
from ...samplers.history import SavedOrder, Values
from ..plan.history import History
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from .checks.missing_shards import check_all_shards
from .schema import LoaderState


def with_plan(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Let planned batches resume from states that were saved with another plan.

    Planned batches are those of `BudgetBatch` with known lengths. Their plan says in advance which
    records each batch has; it is made window by window. The saved plan is kept for all windows that
    a shard has begun, and the current program's plan is used for all later windows.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of all shards of one run, or of one shard.
        strict: if True, another plan is not used, and the caller later raises if the plan differs.

    Returns:
        The pipeline and the states to resume from. Both are returned unchanged if the pipeline has
        no planned batches.

    Raises:
        CheckpointError: the plan has changed, and the states do not allow this: states of some
            shards are missing; steps are still to be skipped; or a state was saved inside the
            result of a later operation that groups several batches, or splits a batch.
    """
    if not states or len(pipeline.leaves) > 1 or not pipeline.leaf.source_facts.planned:
        return pipeline, states
    leaf, saved = pipeline.leaf, states[0].identity.order
    planned: PlannedSource = leaf.source
    if not planned.may_resume(leaf.sampler, saved):
        return pipeline, states  # comparing the identities will tell
    source, order = planned.with_changes(leaf.sampler, states[0].history.orders[0])
    if strict or without_epochs(saved) == without_epochs(leaf.sampler.fingerprint):
        return _with_source(pipeline, source, order), states
    if not any(state.cursor.positions[0] or state.history.shards[0].orders for state in states):
        return _with_source(pipeline, source, order), _with_order(states, order.saved)
    shards = {state.shard[0]: state for state in states}
    check_all_shards(states, "the shapes of planned batches changed")
    if len(shards) < states[0].shard[1]:
        return pipeline, states  # some are missing, for which the next check raises
    _check_between(states)
    positions = [shards[shard].cursor.positions[0] for shard in range(len(shards))]
    source, order, layers = source.replanned(
        order, saved, states[0].history.shards[0].layers, positions
    )
    pipeline = _with_source(pipeline, source, order)
    history = History((ReshardHistory.planned(layers),))
    step = max(state.step for state in states)  # shards begin together
    moved = [
        dataclasses.replace(state, cursor=pipeline.start, step=step, history=history)
        for state in states
    ]
    return pipeline, _with_order(moved, pipeline.leaf.sampler.saved)


def _with_order(states: Sequence[LoaderState], order: SavedOrder) -> list[LoaderState]:
    return [state.with_order(0, order) for state in states]


def without_epochs(order: Values) -> Values:
    """Return the values that describe an order of planned batches, without the number of epochs.

    The plan of an epoch does not depend on the number of epochs. So two orders have the same plan
    if the returned values are equal.
    """
    return {name: value for name, value in order.items() if name != "epochs"}


def _with_source(pipeline: Pipeline, source: Any, order: Any) -> Pipeline:
    return pipeline.with_leaf(source=source, sampler=order)


def _check_between(states: Sequence[LoaderState]) -> None:
    last = min(state.step for state in states)
    if any(any(state.cursor.skips) or state.cursor.unfinished for state in states) or any(
        stop > last for state in states for _, stop in state.kept.skipped.present
    ):
        raise CheckpointError(
            "the state was saved inside the result of an operation that groups or splits batches "
            "of BudgetBatch, or steps that loader.skip() leaves out are still to come. At such a "
            "step, the shapes of the batches cannot change. Restore with the former max_tokens= "
            "and pad_to=, and change them at a later step."
        )
