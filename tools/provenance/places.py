"""The place from which a pipeline is run to a step: the step itself if arithmetic tells it, else the last known one before it.

In: where a run is. Out: a pipeline, a cursor, and the number of its step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import TraceError
from ...loader.plan.cursor import Cursor, Subtree, cursor_of_join
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import within
from ...loader.state.position import StreamPosition


@dataclass(frozen=True)
class Place:
    """A place in the stream of one shard, from which to run to a step."""

    pipeline: Pipeline  # as it goes on there
    cursor: Cursor
    step: int  # the number of the element that comes next there
    told: bool  # arithmetic told it

    @classmethod
    def nearest(cls, mark: StreamPosition, step: int) -> Place:
        """The last place at or before a step that can be told without reading.

        Raises:
            TraceError: the step is left out, or is one of before the shards or the batch size changed.
        """
        if within(mark.skipped.steps, step) is not None:
            raise TraceError(f"step {step} is left out by skip(): it has no records.")
        pipeline, at = mark.pipeline, mark.cursor
        if pipeline.aligned:
            return cls(pipeline, Cursor((_position(mark, step),), (0,) * len(at.skips), at.notes), step, True)
        if cursor_after(pipeline, pipeline.top, mark.step) == at:  # the run did not change on its way
            jump = cursor_after(pipeline, pipeline.top, step)
            if jump is not None:
                return cls(pipeline, jump, step, True)
        if step >= mark.step:
            return cls(pipeline, at, mark.step, False)
        if any(leaf.lineage.layers for leaf in pipeline.leaves):
            raise _too_early(mark, step)
        return cls(pipeline, pipeline.start, 0, False)


def _position(mark: StreamPosition, step: int) -> int:
    """The local position at which a step of an aligned pipeline begins."""
    unit, at, leaf = mark.pipeline.stages[0].unit, mark.cursor.positions[0], mark.pipeline.leaf
    if step >= mark.step:
        return mark.skipped.position_of(step, (at, mark.step), unit)
    if leaf.lineage.layers or mark.skipped.absorbed:
        position = at - (mark.step - step) * unit
        known = position >= 0 and at % unit == 0 and not mark.skipped.steps
    else:
        position, known = step * unit, min(mark.step * unit, leaf.total) == at
    if not known:
        raise _too_early(mark, step)
    return position


def _too_early(mark: StreamPosition, step: int) -> TraceError:
    return TraceError(
        f"step {step} came before the checkpoint, at step {mark.step}, and the number of shards or the batch size changed on "
        "the way; pass a checkpoint of before that, or none for steps of the first run."
    )


def cursor_after(pipeline: Pipeline, part: Subtree, rows: int) -> Cursor | None:
    """The cursor of a part after so many of its rows; None if an operation decides it."""
    if pipeline.skips_errors:
        return None
    if part.stage is None:
        join = pipeline.joins[part.join or 0]
        cursors = [cursor_after(pipeline, one, count) for one, count in zip(join.inputs, join.rule.taken(rows))]
        known = [cursor for cursor in cursors if cursor is not None]
        return cursor_of_join(known, join.rule.after(join.rule.start, rows)) if len(known) == len(cursors) else None
    stage = pipeline.stages[part.stage]
    others = [operation for operation in stage.operations if not operation.one_to_one]
    window = 1 if not others else others[0].takes if len(others) == 1 and others[0].keeps_elements else None
    if window is None:
        return None
    units, skip = divmod(rows, window)
    inputs = units * stage.unit
    if stage.input is not None:
        below = cursor_after(pipeline, stage.input, inputs)
        return None if below is None else below.then(skip)
    leaf = pipeline.leaf_of(stage)
    known_leaf = not leaf.in_order and not leaf.lineage.layers and inputs + skip <= leaf.total
    return Cursor((inputs,), (skip,)) if known_leaf else None
