"""Change the weights of a mix while a run goes on.

In: the user's position, other weights, and the step from which on they hold. Out: a change, which is
a position and the weights; and the pipeline with this change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...common.validation import whole_number
from ...samplers import NoSharding
from ..plan.pipeline import Pipeline
from .position import StreamPosition

if TYPE_CHECKING:
    from ...samplers.mix.sampler import MixSampler


class WeightsChange(NamedTuple):
    """Other weights of a mix.

    Attributes:
        position: first position at which they hold, in the order of all shards.
        weights: the weights, as the user passed them.
    """

    position: int
    weights: Any


def weights_change(here: StreamPosition, weights: Any, at_step: int | None, ahead: int = 0) -> WeightsChange:
    """Return the change of weights that begins with a step.

    Args:
        here: the user's position.
        weights: a dict by name of the part, or a list of numbers.
        at_step: number of the first step with these weights; None for the first one that is possible.
        ahead: number of steps that may have been read already.

    Raises:
        TypeError: the pipeline has no mix, or its parts grow during the run, or shards reach a step
            at different positions.
        ValueError: the step is too early, after the end, or inside a global batch that was divided
            by cost; or the weights are outside their range.
    """
    pipeline, least = here.pipeline, here.step + ahead
    if len(pipeline.leaves) > 1 or not pipeline.leaf.facts.parts or not pipeline.aligned:
        raise TypeError(
            "change(weights=) needs a mix in which each step has the same number of records: a MixSampler, or "
            'MapDataset.mix, without Filter, FlatMap, Pack, joined streams and on_error="skip". Save the states of '
            "all shards, and restore them with set_states(states, strict=False) in a program with the new weights."
        )
    if pipeline.leaf.growth is not None:
        raise TypeError(
            "change(weights=) does not work for a mix whose parts grow during the run, because shards agree on appended "
            'records by the weights. Pass growth="hand" to the loader, or change the weights between two runs.'
        )
    step = least if at_step is None else whole_number("at_step", at_step, 0, None, "the number of a step")
    if step < least:
        read = "" if not ahead else f", and this feeder reads up to {ahead} steps ahead"
        raise ValueError(f"at_step={step} is too early: the next step is {here.step}{read}. Pass {least} or more.")
    position = _position_of(here, step)
    _mix_of(pipeline).with_weights(weights, position)  # which checks the weights
    return WeightsChange(position, weights)


def _position_of(here: StreamPosition, step: int) -> int:
    """Return the first position, in the order of all shards, of a step.

    Raises:
        ValueError: some shards read what former runs left there; the step is after the end; or it
            is inside a block of records that were divided by cost.
    """
    leaf, unit = here.pipeline.leaf, here.pipeline.stages[0].unit
    local = here.skipped.position_of(step, (here.cursor.positions[0], here.step), unit)
    index, (dense, offset) = local * leaf.shard.shard_count, leaf.lineage.dense_from
    if index < dense or leaf.lineage.within_shard:
        raise ValueError(
            f"at_step={step} is too early: its records were left by a run on another number of shards, in their "
            f"former order. Pass {step + -(-(dense - index) // (leaf.shard.shard_count * unit))} or more."
        )
    position = index + offset
    if position >= len(leaf.sampler.with_shard_options(NoSharding())):
        raise ValueError(f"at_step={step} is after the end of the stream. Pass a smaller step.")
    blocks = leaf.lineage.blocks
    if blocks is not None and blocks.shards > 1 and (rest := (blocks.first - position) % blocks.size):
        raise ValueError(
            f"at_step={step} is inside {blocks.size} records that are divided among the shards by cost. Pass "
            f"{step + -(-rest // (leaf.shard.shard_count * unit))}."
        )
    return position


def with_change(pipeline: Pipeline, change: WeightsChange) -> Pipeline:
    """Return the pipeline of a run whose weights change."""
    sampler = _mix_of(pipeline).with_weights(change.weights, change.position)
    return pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=sampler))


def _mix_of(pipeline: Pipeline) -> MixSampler:
    return cast("MixSampler", pipeline.leaf.sampler)


def at_changes(here: StreamPosition, changes: Iterable[WeightsChange]) -> StreamPosition:
    """Return a position in a pipeline that knows these changes, so that its state tells them."""
    for change in changes:
        if change.position not in dict(map(tuple, _mix_of(here.pipeline).changes)):
            here = here._replace(pipeline=with_change(here.pipeline, change))
    return here
