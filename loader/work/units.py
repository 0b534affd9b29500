"""Tasks of several batches, each of which is made when it is asked for.

In: a task of several units. Out: its elements, one by one. So a task costs little beside each batch, and a batch is made of
what is in the caches, in memory that the batch before it has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from ..plan.pipeline import Pipeline
from .tasks import Block, Failure, RecordsAhead, SpanTask


class MakesUnits(Protocol):
    """What makes the elements."""

    def begin(self, task: SpanTask) -> RecordsAhead | None:
        """Begin to read the records of a task; None: nobody reads them ahead."""

    def reads_in_place(self, task: SpanTask) -> bool:
        """True if no thread is to read the records of a task."""

    def run_unit(self, task: SpanTask, ahead: RecordsAhead | None, made: list[Any]) -> Block | None:
        """Add the element of a unit to `made`; return its block where more is to be told."""

    def note_units(self, units: int, seconds: float) -> None:
        """Note how long a task of so many units took."""


def _tell_nobody(task: SpanTask, block: Block | None) -> None:
    """Tell nobody."""


class InlineUnits:
    """A task, and at the same time its handle and what makes its elements."""

    __slots__ = ("_begun", "_count", "_executor", "_left", "_seconds", "_task", "_unit", "made", "note")

    def __init__(self, executor: MakesUnits, task: SpanTask, unit: int) -> None:
        self._executor, self._task, self._unit = executor, task, unit
        self._left = iter(range(task.start, task.stop, unit))
        self._count = -(-(task.stop - task.start) // unit)
        self._begun: deque[RecordsAhead | None] = deque()
        self._seconds = 0.0
        self.made: list[Any] = []
        self.note: Callable[[SpanTask, Block | None], None] = _tell_nobody

    def ready(self) -> bool:
        return False

    def result(self) -> Block:
        return Block(self._count, units=self)

    def make(self) -> Failure | None:
        """Make the next element; return why that failed."""
        began = perf_counter()
        task = self._part(next(self._left))
        block = self._executor.run_unit(task, self._reading_of(task), self.made)
        if block is not None:
            now = perf_counter()
            block.moments = began, began, now
        self.note(task, block)
        self._seconds += perf_counter() - began
        if task.stop == self._task.stop:
            self._executor.note_units(self._count, self._seconds)
        return None if block is None else block.failure

    def _part(self, start: int) -> SpanTask:
        stage, _, _, leaf, *_ = self._task
        return SpanTask(stage, start, min(start + self._unit, self._task.stop), leaf)

    def _reading_of(self, task: SpanTask) -> RecordsAhead | None:
        """Begin to read the records of a unit; once the source waits, those of all that is left."""
        if not self._begun:
            if self._executor.reads_in_place(task):
                return self._executor.begin(task)
            starts = range(task.start, self._task.stop, self._unit)
            self._begun.extend(self._executor.begin(self._part(start)) for start in starts)
        return self._begun.popleft()


def has_units(pipeline: Pipeline) -> bool:
    """True if elements are batches of consecutive positions, whose order is known from the beginning.

    Batches of columns are made several at a time: that takes less time than to ask for each.
    """
    if not pipeline.aligned or not pipeline.stages[0].groups or pipeline.columns is not None:
        return False
    return not pipeline.leaf.in_order and pipeline.leaf.growth is None
