"""Gives every row the cursor that follows it.

In: blocks in order. Out: the same rows, in runs that know their cursors; rows that were delivered before a restore are
left out. Cursors are computed when somebody asks for one, not row by row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import NothingPassesError
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.stages import Span
from ..work.notices import Notices
from ..work.tasks import Block, Failure, Group, Rows, Task, local_positions
from .ordered import Stage
from .pull import Ended
from .skipped import SkippedRecords

BARREN_EPOCHS = 8
"""Epochs' worth of positions that one shard of several may read without any row."""

MIN_BARREN_GROUPS = 100
"""Groups in a row that may come to nothing, however few positions an epoch has."""


@dataclass(slots=True)
class RowRun:
    """Rows `[start, stop)` of a task's block."""

    task: Task
    block: Block
    start: int
    stop: int
    unit: int

    def take(self, index: int) -> Any:
        """Row `index` of the block, which lets go of it, so that its memory is free once the user drops it."""
        elements = self.block.elements
        element, elements[index] = elements[index], None
        return element

    def rows(self, start: int, stop: int) -> Rows:
        """A part of the run."""
        return Rows(self.block, start, stop, self.local_positions)

    def local_positions(self, index: int) -> Sequence[int]:
        """The local positions of the records behind row `index` of the block, ascending."""
        if isinstance(self.task, Group):
            return local_positions(self.task)
        unit = index if self.block.tags is None else self.block.tags.units[index]
        start = self.task.start + unit * self.unit
        return range(start, min(start + self.unit, self.task.stop))

    def cursor_after(self, index: int) -> Cursor:
        """Where the stream goes on after row `index` of the block."""
        if isinstance(self.task, Group):
            last = index + 1 == self.block.count
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

    def __init__(self, stage: Stage, pipeline: Pipeline, segment: int, start: Cursor, skipped: SkippedRecords) -> None:
        self._stage = stage
        self._pipeline = pipeline
        self._unit = pipeline.segments[segment].unit
        self._skip = start.skips[segment]
        self._productive: Task = Span(start.position, start.position)
        self._barren_groups = 0
        self._skipped = skipped
        self._notices = Notices()

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
            if block.notices:
                self._notices.warn(block.notices)
            if block.skipped and (failure := self._skipped.note(block.skipped)) is not None:
                return Ended(failure)
            skip, self._skip = self._skip, 0
            count = block.count
            if skip and block.tags is not None and isinstance(task, Span):
                skip = min(skip, bisect_right(block.tags.units, 0))  # never more than the unit that was being delivered
            if count > skip:
                self._productive, self._barren_groups = task, 0
                return RowRun(task, block, skip, count, self._unit)
            if block.failure is not None:
                continue  # the stage tells it next; how much came before it says nothing about what passes
            if (failure := self._note_barren(task)) is not None:
                return Ended(failure)

    def _note_barren(self, task: Task) -> Failure | None:
        """A task came to no rows. A failure when that has gone on for whole epochs of an endless stream."""
        self._barren_groups += isinstance(task, Group)
        enough = isinstance(task, Span) or self._barren_groups >= MIN_BARREN_GROUPS
        if not self._pipeline.endless or not enough or _position_after(task) < self._barren_limit():
            return None
        barren = _position_after(task) - _position_after(self._productive)
        return Failure(
            NothingPassesError(
                f"no element came out of the operations for {barren} records in a row of an endless stream, and an epoch has "
                f"{self._pipeline.epoch_length}: a Filter, a FlatMap or on_error='skip' drops everything. "
                "Check its condition, or pass num_epochs= to let the stream end."
            )
        )

    def _barren_limit(self) -> int:
        """The local position at which it is certain that no record passes.

        An epoch that began after the last row and ended without one has shown every record. A shard is shown its part of
        them only, another one in each epoch; a single good record would be missing from all of these with probability
        exp(-BARREN_EPOCHS).
        """
        shard, epoch = self._pipeline.shard, self._pipeline.epoch_length
        dense_from, offset = self._pipeline.lineage.dense_from  # before that, positions come in no order
        last = max(shard.global_position(_position_after(self._productive)), dense_from) + offset
        epochs = 1 if shard.shard_count == 1 else BARREN_EPOCHS * shard.shard_count
        return -(-((last // epoch + 1 + epochs) * epoch - offset) // shard.shard_count)


def _position_after(task: Task) -> int:
    return task.stop.position if isinstance(task, Group) else task.stop
