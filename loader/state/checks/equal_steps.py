"""Make the states of all shards from the state of one shard, if all were at the same step.

In: the pipeline, and a saved state. Out: states; or a `CheckpointError` if other shards may have
been at other places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ....errors import CheckpointError
from ....samplers import ShardOptions
from ...plan.pipeline import Pipeline
from ..schema import LoaderState
from .record_checks import run_length


def at_equal_steps(pipeline: Pipeline, states: Sequence[LoaderState]) -> list[LoaderState]:
    """Make the states of all shards of a run from the state of one shard.

    All shards must have been at the same step when the state was saved.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: a list with the one state.

    Returns:
        A list with a state for each shard of the earlier run.

    Raises:
        CheckpointError: the list has more or fewer than one state; steps of the pipeline can have
            different numbers of records; records are appended during the run; or this shard has
            reached its end, and the shards differ in their number of records.
    """
    if len(states) != 1:
        raise CheckpointError(
            f"equal_steps=True takes the state of one shard, not {len(states)} states. Pass a list "
            "with one state; or leave equal_steps= out, and pass the states of all shards."
        )
    (state,) = states
    if state.shard[1] == 1:
        return [state]
    if not pipeline.aligned or any(state.cursor.skips) or state.cursor.unfinished:
        raise CheckpointError(
            "equal_steps=True needs a pipeline in which each step has the same number of records, "
            "without Filter, FlatMap, Pack, BudgetBatch, window_shuffle, joined streams or "
            "on_error=. Call set_states(…) with the states of all shards."
        )
    if pipeline.leaf.growth is not None:
        raise CheckpointError(
            "equal_steps=True cannot be used with a growing source, because some shards may have "
            "found appended records already. Call set_states(…) with the states of all shards. Or "
            'make the loader with growth="hand", which reads only the records that exist now.'
        )
    count, position = state.shard[1], state.cursor.positions[0]
    shards = [ShardOptions(shard, count, pipeline.shard.drop_remainder) for shard in range(count)]
    left = state.history.shards[0].length(run_length(pipeline, state))
    # shards have equally many planned batches, whatever earlier shards have left
    lengths = [] if pipeline.leaf.plans_batches else [shard.length(left) for shard in shards]
    if len({*lengths}) > 1 and position >= lengths[state.shard[0]]:
        raise CheckpointError(
            f"equal_steps=True cannot be used at the end of a shard of {position} records, because "
            f"other shards have {min(lengths)} to {max(lengths)}. Call set_states(…) with the "
            "states of all shards."
        )
    return [dataclasses.replace(state, shard=(shard, count)) for shard in range(count)]
