"""What is known of steps without reading: the records behind one, the step that holds a record, and steps left out.

In: a pipeline; numbers of steps, as the whole stream counts them. Out: record keys, places, ranges of positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import whole_number
from ...wording import shown
from .pipeline import Pipeline
from .ranges import MAX_STEP, Ranges, count_of, without
from .record_keys import KeyBlocks


class Place(NamedTuple):
    """Where a record stands: `row` of the batch that is element number `step` of this shard."""

    step: int
    row: int


def position_of(step: int, at: tuple[int, int], unit: int, passed: Ranges) -> int:
    """The local position at which a later step begins.

    Args:
        step: which.
        at: the local position and number of an earlier step.
        unit: positions in a step.
        passed: ranges of steps that take no positions.
    """
    position, known = at
    return position + (step - known - count_of(passed, step) + count_of(passed, known)) * unit


def positions_left_out(left_out: Ranges, at: tuple[int, int], unit: int, passed: Ranges) -> Ranges:
    """The local positions of steps that are still to come and left out; arguments as for `position_of`."""
    return tuple(
        (position_of(max(start, at[1]), at, unit, passed), position_of(stop, at, unit, passed))
        for start, stop in left_out
        if stop > at[1]
    )


def number_of(pipeline: Pipeline, at: tuple[int, int], left_out: Ranges) -> int:
    """How many elements a stream has; behind a run on other shards, what that one left.

    Args:
        pipeline: that stands `at` a local position, the beginning of a step, and the number of that step.
        at: as above.
        left_out: ranges of steps.

    Raises:
        TypeError: it is endless, or an operation decides how many there are.
    """
    if pipeline.endless:
        raise TypeError("this stream never ends, so it has no len(); pass num_epochs= to the sampler.")
    if not pipeline.aligned:
        raise TypeError(
            "the number of elements is unknown before they are read, because of a Filter, a FlatMap or "
            'on_error="skip"; count them, or ask len(loader) without it.'
        )
    (position, step), passed, outputs = at, pipeline.lineage.left_out, pipeline.segments[0].outputs
    before = outputs(position)
    first, count, ahead = step - before, before + outputs(pipeline.total - position), without(left_out, passed)
    end = first + count + count_of(passed, MAX_STEP)
    return count - count_of(ahead, end) + count_of(ahead, first)


def records_at(pipeline: Pipeline, step: int) -> NDArray[np.int64]:
    """As `DataLoader.records_at`."""
    step = whole_number("step", step, 0, None, "the number of an element, from 0")
    return records_of_step(pipeline, step, (0, 0), ())


def records_of_step(pipeline: Pipeline, step: int, at: tuple[int, int], passed: Ranges) -> NDArray[np.int64]:
    """The record keys of a step behind another one; arguments as for `position_of`."""
    _need_aligned(pipeline, "records_at")
    unit = pipeline.segments[0].unit
    start = position_of(step, at, unit, passed)
    if pipeline.segments[0].useful(min(pipeline.total - start, unit)) <= 0:
        count = pipeline.segments[0].outputs(pipeline.total)
        raise IndexError(f"step {shown(step)} is after the end of the stream, which has {count} elements.")
    return KeyBlocks(pipeline).checked(pipeline.positions(start, min(start + unit, pipeline.total)))


def find(pipeline: Pipeline, record_key: int, epoch: int) -> Place:
    """As `DataLoader.find`."""
    _need_aligned(pipeline, "find")
    records = len(pipeline.source)
    key = whole_number("record_key", record_key, 0, records - 1, "the key of a record of the source")
    epoch = whole_number("epoch", epoch, 0, None, "the number of an epoch, from 0")
    length = pipeline.epoch_length
    if (epoch + 1) * length > len(pipeline.sampler) + length - 1:
        raise LookupError(f"epoch {shown(epoch)} is after the end of the stream of {len(pipeline.sampler)} positions.")
    position = _position_of(pipeline, key, epoch)
    if position is None or position >= len(pipeline.sampler):
        raise LookupError(f"record {key} is not read in epoch {epoch} by this shard.")
    local, shard = divmod(position, pipeline.shard.shard_count)
    unit = pipeline.segments[0].unit
    place = Place(*divmod(local, unit))
    if shard != pipeline.shard.shard_index:
        raise LookupError(
            f"record {key} is read by shard {shard} of {pipeline.shard.shard_count}, at its step {place.step}, "
            f"row {place.row}; this is shard {pipeline.shard.shard_index}."
        )
    if local >= pipeline.segments[0].useful(pipeline.total):
        raise LookupError(f"record {key} is left out in epoch {epoch}: it is in a last batch that is not full.")
    return place


def _position_of(pipeline: Pipeline, key: int, epoch: int) -> int | None:
    """The global position of a record within an epoch."""
    sampler = pipeline.sampler
    if hasattr(sampler, "position_of"):
        return sampler.position_of(key, epoch)  # type: ignore[no-any-return]
    start, stop = epoch * pipeline.epoch_length, min((epoch + 1) * pipeline.epoch_length, len(sampler))
    for first in range(start, stop, sampler.block_size):
        positions = np.arange(first, min(first + sampler.block_size, stop), dtype=np.int64)
        found = np.flatnonzero(sampler.record_keys(positions) == key)
        if found.size:
            return int(positions[found[0]])
    return None


def _need_aligned(pipeline: Pipeline, name: str) -> None:
    if not pipeline.aligned:
        raise TypeError(
            'a Filter, a FlatMap or on_error="skip" decides which records make an element, so that they are unknown '
            f"before they are read; {name} works for pipelines without. iterator.last_records() works for all."
        )
