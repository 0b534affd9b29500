"""Change the weights of a mix during a run. They are written into the order at once, with the position at which they begin.

In: the user's position, weights, and the first step with them. Out: the change as an object; and the pipeline with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...plan.pipeline import Pipeline
from ..position import StreamPosition
from .places import position_of, step_of

if TYPE_CHECKING:
    from ....samplers.mix.sampler import MixSampler
    from . import Change


class WeightsChange(NamedTuple):
    """A change of the weights of a mix.

    Attributes:
        position: first global position (counted over all shards) at which they are used.
        weights: the weights, as the user passed them.
    """

    position: int
    weights: Any

    def replaces(self, other: Change) -> bool:
        """Return True if another change, which was made earlier, no longer has an effect.

        That is so if the other change is one of weights, too, and does not begin before this one.
        """
        return isinstance(other, WeightsChange) and other.position >= self.position

    @property
    def is_of_order(self) -> bool:
        """True: the order, and so each state, contains the change as soon as the user has asked for it."""
        return True


def weights_change(here: StreamPosition, weights: Any, at_step: int | None, ahead: int = 0) -> WeightsChange:
    """Return a change of the weights of a mix, which begins at a step.

    Args:
        here: the user's position.
        weights: a dict by name of the part, or a list of numbers.
        at_step: number of the first step with these weights; None for the first step that is possible.
        ahead: number of steps after the user's position that may have been read already.

    Raises:
        TypeError: the pipeline has no mix, or joins streams; steps differ in their number of records; records are appended
            during the run; or `weights` or `at_step` has the wrong type.
        ValueError: the step is too early, after the end, or inside a global batch that was divided
            by cost; or the weights are outside their range.
    """
    pipeline = here.pipeline
    if len(pipeline.leaves) > 1 or not pipeline.leaf.facts.parts or not pipeline.aligned:
        raise TypeError(
            "change(weights=) needs a mix in which each step has the same number of records: a MixSampler, or "
            "MapDataset.mix, without Filter, FlatMap, Pack, BudgetBatch, window_shuffle, joined streams and on_error=. Save "
            "the states of all shards, and restore them with set_states(states, strict=False) in a program with the new "
            "weights."
        )
    if pipeline.leaf.growth is not None:
        raise TypeError(
            "change(weights=) does not work for a mix whose parts grow during the run, because shards agree on appended "
            'records by the weights. Pass growth="hand" to the loader, or change the weights between two runs.'
        )
    step = step_of(here, at_step, ahead)
    position = position_of(here, step)
    _mix_of(pipeline).with_weights(weights, position)  # which checks the weights
    return WeightsChange(position, weights)


def with_change(pipeline: Pipeline, change: WeightsChange) -> Pipeline:
    """Return the pipeline of a run with the changed weights of its mix."""
    sampler = _mix_of(pipeline).with_weights(change.weights, change.position)
    return pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=sampler))


def _mix_of(pipeline: Pipeline) -> MixSampler:
    return cast("MixSampler", pipeline.leaf.sampler)


def at_changes(here: StreamPosition, changes: Iterable[Change]) -> StreamPosition:
    """Return a position whose state contains the changes of weights among `changes`; other changes are ignored."""
    for change in changes:
        if isinstance(change, WeightsChange) and not _has_change_at(_mix_of(here.pipeline), change.position):
            here = here._replace(pipeline=with_change(here.pipeline, change))
    return here


def _has_change_at(mix: MixSampler, position: int) -> bool:
    return any(change.position == position and change.part is None for change in mix.changes)
