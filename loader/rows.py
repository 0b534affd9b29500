"""Gives every row the cursor that follows it.

In: blocks in order. Out: the same rows, in runs that know their cursors; rows that were delivered before a restore are
left out. Cursors are computed when somebody asks for one, not row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import NothingPassesError
from .order import Ended, Ordered
from .pipeline import Pipeline
from .plan import Span
from .state import Cursor
from .tasks import Block, Failure, Group, Rows, Task

MIN_BARREN_GROUPS = 100
"""Groups in a row that may come to nothing, however few positions an epoch has."""


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows `[start, stop)` of a task's block."""

    task: Task
    block: Block
    start: int
    stop: int
    unit: int

    def take(self, index: int) -> Any:
        """Row `index` of the block, which lets go of it, so that its memory is free once the user drops it."""
        element, self.block.elements[index] = self.block.elements[index], None
        return element

    def rows(self, start: int, stop: int) -> Rows:
        """A part of the run."""
        return Rows(self.block, start, stop)

    def cursor_after(self, index: int) -> Cursor:
        """Where the stream goes on after row `index` of the block."""
        if isinstance(self.task, Group):
            last = index + 1 == len(self.block.elements)
            return self.task.stop.then(0) if last else self.task.start.then(index + 1)
        return self._cursor_in_span(self.task, index)

    def _cursor_in_span(self, span: Span, index: int) -> Cursor:
        tags = self.block.tags
        if tags is None:
            return Cursor(min(span.start + (index + 1) * self.unit, span.stop), (0,))
        units, unit = tags.units, tags.units[index]
        if index + 1 < len(units) and units[index + 1] == unit:
            return Cursor(span.start + unit * self.unit, (index + 1 - units.index(unit),))
        return Cursor(min(span.start + (unit + 1) * self.unit, span.stop), (0,))


class RowRuns:
    """The rows of a stage."""

    def __init__(self, stage: Ordered, pipeline: Pipeline, segment: int, start: Cursor) -> None:
        self._stage = stage
        self._pipeline = pipeline
        self._unit = pipeline.segments[segment].unit
        self._skip = start.skips[segment]
        self._last_position = start.position
        self._barren_groups = 0

    def fill(self) -> None:
        """Have work begin, without waiting."""
        self._stage.fill()

    def next(self, wait: bool) -> RowRun | Ended | None:
        """The next rows, at least one."""
        while True:
            result = self._stage.next(wait)
            if result is None or isinstance(result, Ended):
                return result
            task, block = result
            skip, self._skip = self._skip, 0
            if len(block.elements) > skip:
                self._note_rows(task)
                return RowRun(task, block, skip, len(block.elements), self._unit)
            if (failure := self._note_barren(task)) is not None:
                return Ended(failure)

    def _note_rows(self, task: Task) -> None:
        self._last_position, self._barren_groups = _position_after(task), 0

    def _note_barren(self, task: Task) -> Failure | None:
        """A task came to no rows. A failure when that has gone on for an epoch of an endless stream."""
        self._barren_groups += isinstance(task, Group)
        barren = _position_after(task) - self._last_position
        enough = isinstance(task, Span) or self._barren_groups >= MIN_BARREN_GROUPS
        if not self._pipeline.endless or barren < self._pipeline.sampler.epoch_length or not enough:
            return None
        return Failure(
            NothingPassesError(
                f"no element came out of the operations for {barren} records in a row, {self._last_position} to "
                f"{_position_after(task)} of an endless stream, and an epoch has {self._pipeline.sampler.epoch_length}: "
                "a Filter or FlatMap drops everything. Check its condition, or pass num_epochs= to let the stream end."
            )
        )


def _position_after(task: Task) -> int:
    return task.stop.position if isinstance(task, Group) else task.stop
