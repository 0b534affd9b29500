"""The results of a stage on a source that can only be run through: each task begins where the one before it ended.

In: the cursor to start from. Out: (request, block) in order. One task is at work at a time, ahead of who asks.
"""

from __future__ import annotations

import sys
from time import perf_counter

from ...errors import WorkerCrashedError
from ..executors.protocol import Executor, Handle
from ..plan.cursor import Cursor, JoinState
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.tasks import Block, Failure, SpanTask
from .pull import Ended
from .rows import Request, span_request


class InOrder:
    """Has tasks run one after the other."""

    def __init__(self, pipeline: Pipeline, stage: Stage, start: Cursor, executor: Executor, planned: bool) -> None:
        assert stage.leaf is not None, "a stage on a source"
        self._stage = stage
        self._leaf = stage.leaf
        self._executor = executor
        self._ahead = executor.window(stage.number) > 1
        self._position = start.positions[0]
        self._note: JoinState = start.notes[0]
        self._submitted: tuple[SpanTask, Handle, float] | None = None  # and when
        self._singly_until = sys.maxsize if planned else 0  # positions before it are tried one unit after the other
        self._lost: int | None = None  # the position of the last unit that ended its workers
        self._ended: Ended | None = None

    def fill(self) -> None:
        """Have work begin, without waiting."""
        if self._ahead:
            self._submit()

    def _submit(self) -> None:
        if self._submitted is None and self._ended is None:
            since = (int(self._note[0]), str(self._note[1])) if self._note else None
            unit = self._stage.unit
            length = unit if self._position < self._singly_until else self._executor.inputs(self._stage.number)
            stop = self._position + length
            task = SpanTask(self._stage.number, self._position, stop, self._leaf, since)
            moment = perf_counter()
            self._submitted = task, self._executor.submit(task), moment

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The result of the next task."""
        while True:
            result = self._next(wait)
            if not isinstance(result, tuple) or not self._is_to_be_divided(*result):
                return result

    def _is_to_be_divided(self, request: Request, block: Block) -> bool:
        """True if a task ended its worker and is done again, one unit after the other; one unit alone is lost."""
        if not _was_not_done(block):
            return False
        assert isinstance(request.task, SpanTask), "a span of a leaf"
        start, stop = request.task.start, request.task.stop
        if block.parts or stop - start > self._stage.unit:
            self._singly_until = max(self._singly_until, stop)
            return True
        self._position, self._note, self._lost = stop, request.origin.start.notes[0], start
        return False

    def _next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        if self._ended is not None:
            return self._ended
        self.fill() if not wait else self._submit()
        if self._submitted is None or not (wait or self._submitted[1].ready()):
            return None
        (task, handle, submitted), self._submitted = self._submitted, None
        asked = perf_counter()
        block = handle.result()
        block.moments = submitted, asked, perf_counter()
        before = self._note
        if _was_not_done(block):
            if self._lost == task.start - self._stage.unit:
                self._ended = Ended(Failure(_unreachable(self._lost, task.start)))
                return self._ended
            return span_request(task, self._stage, (before,), (before,)), block
        self._position = task.stop
        if block.stand is not None and block.failure is None:
            self._note = (self._position, block.stand.state)
        if block.failure is not None or block.stand is None or block.stand.ended:
            self._ended = Ended(block.failure)
        self.fill()
        return span_request(task, self._stage, (before,), (self._note,)), block


def _was_not_done(block: Block) -> bool:
    """True if a task ended its workers, so that the place of the source after it is not known."""
    return block.stand is None and block.failure is None


def _unreachable(first: int, second: int) -> WorkerCrashedError:
    return WorkerCrashedError(
        f"elements {first} and {second} of a dataset that is run through ended their workers, one after the other. If its own "
        "iterator does that, no element after it can be reached: mend the iterator, or have it pass by what it cannot read."
    )
