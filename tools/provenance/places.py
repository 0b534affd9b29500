"""The place from which a pipeline is run to a step: the step itself if arithmetic tells it, else the last known one before it.

In: where a run is. Out: a pipeline, a cursor, and the number of its step.
"""

from __future__ import annotations

from ...errors import TraceError
from ...loader.plan.cursor import Cursor, Subtree, cursor_of_join
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.stages import Stage
from ...loader.plan.steps.skipped import within
from ...loader.state.position import StreamPosition


class Place:
    """A place in the stream of one shard, from which to run to a step.

    Attributes:
        pipeline: as it goes on there.
        cursor: the place.
        step: the number of the element that comes next there.
        told: arithmetic told it.
    """

    def __init__(self, pipeline: Pipeline, cursor: Cursor, step: int, told: bool) -> None:
        self.pipeline, self.cursor, self.step, self.told = pipeline, cursor, step, told

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
        if (jump := _jump(mark, step)) is not None:
            return cls(pipeline, jump, step, True)
        if step >= mark.step:
            return cls(pipeline, at, mark.step, False)
        if any(leaf.lineage.layers for leaf in pipeline.leaves):
            raise _too_early(mark, step)
        return cls(pipeline, pipeline.start, 0, False)


def _jump(mark: StreamPosition, step: int) -> Cursor | None:
    """The cursor at a step of a run that did not change on its way, where no operation decides what is in a step."""
    pipeline = mark.pipeline
    as_begun = cursor_after(pipeline, pipeline.top, mark.step) == mark.cursor
    return cursor_after(pipeline, pipeline.top, step) if as_begun else None


def _position(mark: StreamPosition, step: int) -> int:
    """The local position at which a step of an aligned pipeline begins."""
    unit, at = mark.pipeline.stages[0].unit, (mark.cursor.positions[0], mark.step)
    if step >= mark.step:
        return mark.skipped.position_of(step, at, unit)
    if mark.pipeline.leaf.lineage.layers or mark.skipped.absorbed:
        position = at[0] - (mark.step - step) * unit
        if position < 0 or at[0] % unit or mark.skipped.steps:
            raise _too_early(mark, step)
        return position
    if min(mark.step * unit, mark.pipeline.leaf.total) != at[0]:
        raise _too_early(mark, step)
    return step * unit


def _too_early(mark: StreamPosition, step: int) -> TraceError:
    return TraceError(
        f"step {step} came before the checkpoint, at step {mark.step}, and the number of shards or the batch size changed on "
        "the way; pass a checkpoint of before that, or none for steps of the first run."
    )


def cursor_after(pipeline: Pipeline, part: Subtree, rows: int) -> Cursor | None:
    """The cursor of a part after so many of its rows."""
    if pipeline.skips_errors:
        return None
    if part.stage is None:
        return _after_join(pipeline, part, rows)
    stage = pipeline.stages[part.stage]
    window = _window(stage)
    if window is None:
        return None
    units, skip = divmod(rows, window)
    inputs = units * stage.unit
    if stage.input is not None:
        below = cursor_after(pipeline, stage.input, inputs)
        return None if below is None else below.then(skip)
    leaf = pipeline.leaf_of(stage)
    known = not leaf.in_order and not leaf.lineage.layers and inputs + skip <= leaf.total
    return Cursor((inputs,), (skip,)) if known else None


def _window(stage: Stage) -> int | None:
    """The number of rows of a unit of a stage; None if an operation decides it."""
    others = [operation for operation in stage.operations if not operation.one_to_one]
    if not others:
        return 1
    return others[0].takes if len(others) == 1 and others[0].keeps_elements else None


def _after_join(pipeline: Pipeline, part: Subtree, rows: int) -> Cursor | None:
    join = pipeline.joins[part.join or 0]
    taken = join.rule.taken(rows)
    cursors = [cursor_after(pipeline, one, count) for one, count in zip(join.inputs, taken)]
    known = [cursor for cursor in cursors if cursor is not None]
    if len(known) < len(join.inputs):
        return None
    return cursor_of_join(known, join.rule.after(join.rule.start, rows))
