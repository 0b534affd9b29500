"""Find the place in the stream at which a change of a run begins.

In: the position after the user's last element, and the number of a step. Out: the step, and its
first position on all shards; or an error if the run cannot change at this step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from ....common.fields import replaced
from ....common.validation import whole_number
from ....samplers import NoSharding
from ...plan.leaf import Leaf

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline
    from ..position import StreamPosition


def step_of(here: StreamPosition, at_step: int | None, ahead: int) -> int:
    """Return the step at which a change begins.

    Args:
        here: position after the last element that the user received.
        at_step: number of the step that the user gave; None for the first possible step.
        ahead: number of steps after `here` that may have been read already.

    Raises:
        TypeError: `at_step` is not an int.
        ValueError: the step is too early.
    """
    least = here.step + ahead
    step = (
        least
        if at_step is None
        else whole_number("at_step", at_step, 0, None, "the number of a step")
    )
    if step < least:
        read_ahead = "" if not ahead else f", and this feeder reads up to {ahead} steps ahead"
        raise ValueError(
            f"at_step={step} is too early: the next step is {here.step}{read_ahead}. Pass {least} "
            "or more."
        )
    return step


def local_of(here: StreamPosition, step: int) -> int:
    """Return the first position of a step, counted over this shard."""
    unit = here.pipeline.stages[0].unit
    return here.kept.skipped.position_of(step, (here.cursor.positions[0], here.step), unit)


def with_sizes(
    here: StreamPosition, sizes: Iterable[tuple[int, Callable[[Pipeline], Pipeline]]], stop: int
) -> StreamPosition:
    """Return the place of the last change of the batch size before a step, with the changed size.

    Args:
        here: position after the last element that the user received; it is returned if there is no
            such change.
        sizes: for each change of the batch size, its step, and a function that returns the changed
            pipeline.
        stop: number of the step.
    """
    for step, changed in sorted(sizes, key=itemgetter(0)):
        if here.step <= step < stop:
            start = replaced(here.cursor, positions=(local_of(here, step),))
            pipeline = changed(here.pipeline)
            here = here._replace(pipeline=pipeline, start=start, run=None, step=step)
    return here


def check_coming_weights(step: int, of_weights: int) -> None:
    """Check that new weights of a mix have begun at a step at which the batch size changes.

    Weights begin at a position. With another batch size, this would be another step than the one
    that the user gave.

    Args:
        step: number of the step at which the batch size changes.
        of_weights: number of the step at which the last new weights begin.

    Raises:
        ValueError: the weights begin after the step.
    """
    if step < of_weights:
        raise ValueError(
            f"at_step={step} is before step {of_weights}, at which new weights of the mix begin. "
            f"With another batch size, they would begin at another step. Pass {of_weights} or "
            "more; or change the batch size first, and then the weights."
        )


def position_of(here: StreamPosition, step: int) -> int:
    """Return the first global position (counted over all shards) of a step.

    Raises:
        ValueError: at this step, shards still read records that an earlier run on another number of
            shards did not read; the step is after the end; or the step is inside a block of records
            that were divided among shards by cost.
    """
    leaf, unit, local = here.pipeline.leaf, here.pipeline.stages[0].unit, local_of(here, step)
    index, (dense, offset) = local * leaf.shard.shard_count, leaf.lineage.dense_from
    if index < dense or leaf.lineage.within_shard:
        raise ValueError(
            f"at_step={step} is too early: its records are the rest of a run on another number of "
            "shards, whose order cannot change. Pass "
            f"{step + -(-(dense - index) // (leaf.shard.shard_count * unit))} or more."
        )
    check_within(leaf, step, local)
    position = index + offset
    blocks = leaf.lineage.blocks
    if (
        blocks is not None
        and blocks.shards > 1
        and (rest := (blocks.first - position) % blocks.size)
    ):
        raise ValueError(
            f"at_step={step} is in the middle of a group of {blocks.size} records that are divided "
            "together among the shards by cost. Pass "
            f"{step + -(-rest // (leaf.shard.shard_count * unit))}, where the next group begins."
        )
    return position


def check_within(leaf: Leaf, step: int, local: int) -> None:
    """Check that all shards have a record at a step.

    Args:
        leaf: the source with its sampler.
        step: number of the step, for the message.
        local: this shard's position at the step.

    Raises:
        ValueError: a shard has no record at the step.
    """
    if _has_ended(leaf, local):
        where = "" if leaf.shard.shard_count == 1 else " on some shards"
        raise ValueError(
            f"at_step={step} is after the end of the stream{where}. Pass a smaller step."
        )


def _has_ended(leaf: Leaf, local: int) -> bool:
    """Return True if at least one shard has no record at a step.

    All shards get the same answer, also a shard that is at its end.

    Args:
        leaf: the source with its sampler.
        local: this shard's position at the step. If the shard is at its end after a batch that was
            not full, `local` is the position of the end.
    """
    shards = leaf.shard.shard_count
    return _left(leaf) - local * shards < shards


def has_ended_early(here: StreamPosition) -> bool:
    """Return True if a shard has no record at the next step although other shards may have one.

    The next step is the one after the last element that the user received.

    Return False if all shards have the same number of records.
    """
    leaf = here.pipeline.leaf
    uneven = (
        not leaf.plans_batches
        and not leaf.shard.drop_remainder
        and _left(leaf) % leaf.shard.shard_count > 0
    )
    return uneven and _has_ended(leaf, here.cursor.positions[0])


def _left(leaf: Leaf) -> int:
    """Return how many positions, counted over all shards, are left after earlier runs.

    Earlier runs are those on other numbers of shards. Without such a run, return the number of all
    positions.
    """
    return leaf.lineage.length(len(leaf.sampler.with_shard_options(NoSharding())))
