"""Compute facts about steps without reading: a step's records, a record's step, number of steps.

In: a pipeline; numbers of steps, counted over the whole stream. Out: record keys, places, counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....common.messages import short_repr
from ....common.validation import whole_number
from ....samplers.protocol import ENDLESS
from ..cursor import Cursor, Subtree
from ..leaf import Leaf
from ..pipeline import Pipeline
from ..rules import OfOne
from ..stages import Stage
from .skipped import MAX_STEP, NONE_SKIPPED, SkippedSteps, count_of


class Place(NamedTuple):
    """The place of a record in this shard's stream.

    Attributes:
        step: number of the element (batch), from 0.
        row: index of the row in it, from 0.
    """

    step: int
    row: int


def number_of(pipeline: Pipeline, at: tuple[int, int], skipped: SkippedSteps) -> int:
    """Return the number of elements of a shard's whole stream, also of those already delivered.

    There is one exception: if the pipeline resumes a run on another number of shards, the elements
    that were delivered before this change are not counted.

    Args:
        pipeline: pipeline of the stream.
        at: any local position (of this shard) at which a step begins, and the number of that step.
            The other steps follow from this pair.
        skipped: steps that are skipped.

    Raises:
        TypeError: the stream is endless, or the number of elements depends on an operation or on
            failing records.
    """
    whole = _length_of(pipeline, pipeline.top)
    if pipeline.endless:
        raise TypeError(
            "this stream never ends, so it has no len(). Pass num_epochs= to the sampler, to "
            'load() or to repeat(), or when_exhausted="first" or "all" to a mix.'
        )
    if not pipeline.aligned:
        if whole is None or any(leaf.lineage.orders for leaf in pipeline.leaves):
            raise TypeError(
                "the number of elements is unknown before they are read, because of a source "
                "without random access, a Filter, FlatMap, Pack, window_shuffle, BudgetBatch "
                "without lengths or the like, joined streams (mix, zip and so on) or an on_error= "
                'other than "raise". Count them in a loop, or take the len() of the pipeline '
                "without these."
            )
        return whole - count_of(skipped.steps, whole)
    (position, step), outputs = at, pipeline.stages[0].outputs
    before = outputs(position)
    first, count = step - before, before + outputs(pipeline.leaf.left_from(position))
    end = first + count + count_of(skipped.absorbed, MAX_STEP)
    return count - count_of(skipped.present, end) + count_of(skipped.present, first)


def _length_of(pipeline: Pipeline, part: Subtree) -> int | None:
    """Return the number of rows of a section of a pipeline; None if it is unknown.

    It is `ENDLESS` if the section never ends.
    """
    if part.stage is None:
        join = pipeline.joins[part.join or 0]
        if not isinstance(join.rule, OfOne):
            return None
        rows = _length_of(pipeline, join.inputs[0])
        return None if rows is None else join.rule.length(rows)
    stage = pipeline.stages[part.stage]
    if not stage.one_to_one or pipeline.skips_errors:
        return None
    if stage.input is not None:
        rows = _length_of(pipeline, stage.input)
    else:
        leaf = pipeline.leaf_of(stage)
        rows = None if leaf.in_order else ENDLESS if leaf.endless else leaf.total
    return rows if rows is None or rows == ENDLESS else stage.outputs(rows)


def passed_before(pipeline: Pipeline, at: tuple[int, int], skipped: SkippedSteps) -> int:
    """Return how many delivered elements come before a place of a stream, without skipped steps.

    If each element has the same number of records, elements that were delivered before the number
    of shards changed are not counted, as in `number_of`. Otherwise, and if streams are joined, all
    delivered elements are counted.

    Args:
        pipeline: pipeline of the stream.
        at: the place: a local position at which a step begins, and the number of that step.
        skipped: steps that are skipped.
    """
    position, step = at
    if not pipeline.aligned:
        return step - count_of(skipped.steps, step)
    before = pipeline.stages[0].outputs(position)
    return before - count_of(skipped.present, step) + count_of(skipped.present, step - before)


def records_at(pipeline: Pipeline, step: int) -> Any:
    """Return the record keys of the element number `step` of a pipeline, as an array `int64[n]`.

    For a mix, return a dict of such arrays by part name.

    Raises:
        TypeError: an operation, a join or `on_error` decides which records are in an element; or
            `step` is not an integer.
        ValueError: `step` is negative.
        IndexError: the stream ends before the step.
    """
    step = whole_number("step", step, 0, None, "the number of an element, from 0")
    return records_of_step(pipeline, step, (0, 0), NONE_SKIPPED)


def records_of_step(
    pipeline: Pipeline, step: int, at: tuple[int, int], skipped: SkippedSteps
) -> Any:
    """Return the record keys of a step: `int64[n]`; for a mix, a dict of such arrays by part name.

    Args:
        pipeline: pipeline of the stream.
        step: number of the step.
        at: a local position at which a step begins, and the number of that step, which is not later
            than `step`.
        skipped: steps that are skipped.

    Raises:
        TypeError: an operation, a join or `on_error` decides which records are in an element.
        IndexError: the stream ends before the step.
    """
    leaf, stage = _aligned(pipeline, "records_at")
    start = skipped.position_of(step, at, stage.unit)
    useful = stage.useful(min(leaf.left_from(start), stage.unit))
    if useful == 0:
        count = stage.outputs(leaf.total)
        raise IndexError(
            f"step {short_repr(step)} is after the end of the stream, which has {count} elements. "
            "Pass a smaller step."
        )
    keys = leaf.record_keys(leaf.positions(start, min(start + useful, leaf.total)))
    return leaf.source_facts.records_of(keys)


def part_epochs(pipeline: Pipeline, cursor: Cursor) -> dict[str, int]:
    """Return the epoch that each part of a mix, or joined stream, has reached, by its name.

    It is the epoch of its last record before a place. At the beginning, it is the epoch of the
    first record.

    Args:
        pipeline: the pipeline.
        cursor: the place in the stream.

    Raises:
        AttributeError: the pipeline has one source that is not a mix.
    """
    before = 0 if any(cursor.skips) else 1
    reached = [max(position - before, 0) for position in cursor.positions]
    if len(reached) == 1:
        return pipeline.leaf.part_epochs(reached[0])
    return {
        leaf.name or str(number): leaf.epoch_of(reached[number])
        for number, leaf in enumerate(pipeline.leaves)
    }


def part_records(pipeline: Pipeline, cursor: Cursor) -> dict[str, int]:
    """Return how many records each part of a mix, or joined stream, has before a place, by name.

    Records up to this shard's last record before the place count.

    Args:
        pipeline: the pipeline.
        cursor: the place in the stream.

    Raises:
        AttributeError: the pipeline has one source that is not a mix.
    """
    if len(cursor.positions) == 1:
        return pipeline.leaf.part_records(cursor.positions[0])
    return {
        leaf.name or str(number): leaf.before(cursor.positions[number])
        for number, leaf in enumerate(pipeline.leaves)
    }


def find(pipeline: Pipeline, record_key: int, epoch: int) -> Place:
    """Return the step and row of a record in this shard's stream.

    Args:
        pipeline: pipeline of the stream.
        record_key: key of a record of the source.
        epoch: number of the epoch, from 0.

    Raises:
        TypeError: an operation, a join or `on_error` decides which records are in an element; a
            number is not an integer; or the order is a mix.
        ValueError: a number is out of range. (For planned batches, a key above all keys raises
            LookupError.)
        LookupError: another shard reads the record in this epoch, or none does; or the stream ends
            before the epoch.
    """
    leaf, stage = _aligned(pipeline, "find")
    known = leaf.source_facts.record_count
    last = None if leaf.plans_batches else (len(leaf.source) if known is None else known) - 1
    key = whole_number("record_key", record_key, 0, last, "the key of a record of the source")
    epoch = whole_number("epoch", epoch, 0, None, "the number of an epoch, from 0")
    shard, place = (_in_batches if leaf.plans_batches else _in_order)(leaf, stage, key, epoch)
    if shard != leaf.shard.shard_index:
        raise LookupError(
            f"record {key} is read by shard {shard} of {leaf.shard.shard_count}, at its step "
            f"{place.step}, row {place.row}, but this is shard {leaf.shard.shard_index}. Call this "
            f"in shard {shard}."
        )
    if not leaf.plans_batches and place.step * stage.unit + place.row >= stage.useful(leaf.total):
        raise LookupError(
            f"record {key} is left out in epoch {epoch}: it is in a last batch that is not full, "
            "or in a remainder that cannot be divided among all shards. Pass another epoch or key."
        )
    return place


def _in_order(leaf: Leaf, stage: Stage, key: int, epoch: int) -> tuple[int, Place]:
    """Return the shard that reads a record, and the step and row of the record in this shard."""
    epochs = leaf.sampler.epoch_count
    if epochs is not None and epoch >= epochs:
        raise LookupError(
            f"epoch {short_repr(epoch)} is after the last one: the sampler has {epochs} "
            f"epochs. Pass an epoch in [0, {epochs})."
        )
    position = leaf.sampler.position_of(key, epoch)
    if position is None and key in leaf.sampler.omitted_keys:
        raise LookupError(
            f"record {key} is never read: omit= contains it, or it was deleted from its source. "
            "Pass another key."
        )
    if position is not None and leaf.dealing is not None:
        position = leaf.dealing.place_of(position)
    if position is None or position >= len(leaf.sampler):
        raise LookupError(
            f"record {key} is not read in epoch {epoch} by this shard. Pass another epoch or key, "
            "or look in another shard."
        )
    local, shard = divmod(position, leaf.shard.shard_count)
    return shard, Place(*divmod(local, stage.unit))


def _in_batches(leaf: Leaf, stage: Stage, key: int, epoch: int) -> tuple[int, Place]:
    """Return the shard that reads a record in planned batches, and its step and row there."""
    order: Any = leaf.sampler
    place = leaf.source.place_of(key)
    found = None if place is None else order.find(place, epoch)
    if found is None or found[0] >= leaf.total:
        raise LookupError(f"record {key} is not read in epoch {epoch}. Pass another epoch or key.")
    step, shard, row = found
    step, inner = divmod(step, stage.unit)
    return shard, Place(step, row if stage.unit == 1 else inner)


def _aligned(pipeline: Pipeline, name: str) -> tuple[Leaf, Stage]:
    """Return the only source and the only stage of a pipeline, with steps known without reading.

    A stage is a group of operations that run together in one task.

    Args:
        pipeline: the pipeline.
        name: name of the caller, for the error message.

    Raises:
        TypeError: an operation, a join or `on_error` decides which records are in an element.
    """
    if not pipeline.aligned:
        raise TypeError(
            f"{name} cannot know which records make an element before they are read, because of a "
            "Filter, FlatMap, Pack, window_shuffle, BudgetBatch without lengths or the like, "
            'joined streams (mix, zip, limit and so on) or an on_error= other than "raise". Use '
            "iterator.last_records(), which works for all pipelines."
        )
    return pipeline.leaf, pipeline.stages[0]
