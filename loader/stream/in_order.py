"""The results of a stage on a source that can only be run through: each task begins where the one before it ended.

In: the cursor to start from. Out: (request, block) in order. One task is at work at a time, ahead of who asks.
"""

from __future__ import annotations

import dataclasses
from time import perf_counter

from ..executors.protocol import Executor, Handle
from ..plan.cursor import Cursor, Note
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.tasks import Block, SpanTask
from .pull import Ended
from .requests import Request, SpanRequest


class InOrder:
    """Has tasks run one after the other."""

    def __init__(self, pipeline: Pipeline, stage: Stage, start: Cursor, executor: Executor) -> None:
        assert stage.leaf is not None, "a stage on a source"
        self._stage = stage
        self._leaf = stage.leaf
        self._length = pipeline.spans[stage.leaf]
        self._executor = executor
        self._ahead = executor.window(stage.number) > 1
        self._position = start.positions[0]
        self._note: Note = start.notes[0]
        self._submitted: tuple[SpanRequest, Handle, float] | None = None  # and when
        self._ended: Ended | None = None

    def fill(self) -> None:
        """Have work begin, without waiting."""
        if self._ahead:
            self._submit()

    def _submit(self) -> None:
        if self._submitted is None and self._ended is None:
            since = (int(self._note[0]), str(self._note[1])) if self._note else None
            task = SpanTask(self._stage.number, self._position, self._position + self._length, since)
            request = SpanRequest(task, self._leaf, self._stage.unit)
            moment = perf_counter()
            self._submitted = request, self._executor.submit(task), moment

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The result of the next task."""
        if self._ended is not None:
            return self._ended
        self.fill() if not wait else self._submit()
        if self._submitted is None or not (wait or self._submitted[1].ready()):
            return None
        (request, handle, submitted), self._submitted = self._submitted, None
        asked = perf_counter()
        block = handle.result()
        block.moments = submitted, asked, perf_counter()
        before, self._position = self._note, request.task.stop
        if block.stand is not None and block.failure is None:
            self._note = (self._position, block.stand.state)
        if block.failure is not None or block.stand is None or block.stand.ended:
            self._ended = Ended(block.failure)
        self.fill()
        return dataclasses.replace(request, notes=((before,), (self._note,))), block
