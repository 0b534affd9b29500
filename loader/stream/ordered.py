"""Submit tasks before their results are needed, and return the results in order.

In: requests (each a task, and facts about its rows), taken one by one; or a source without random
access. Out: pairs (request, block) in the order of the requests, even if tasks finish in another
order. A block has the rows that one task returned.
"""

from __future__ import annotations

import sys
from collections import deque
from time import perf_counter
from typing import TypeAlias

from ...errors import WorkerCrashedError
from ..executors.protocol import Executor, Handle
from ..plan.cursor import Cursor, JoinState
from ..plan.stages import Stage
from ..work.tasks import Block, Failure, SpanTask
from .rows import Pull, Request, StreamEnd, span_request

Results: TypeAlias = Pull[tuple[Request, Block]]
"""Supply of blocks (rows of one task each) that tasks return, each with its request, in order."""


class Ordered:
    """Supply of the results of tasks in the order of their requests: pairs (request, block).

    A block has the rows that one task returned. At any moment, at most `executor.window(stage)`
    tasks are submitted and not yet returned, or one task if `ahead` is False. There may be more if
    a task was divided into parts.

    Args:
        requests: supply of the requests.
        executor: runs the tasks.
        stage: index of the stage (operations that run in one task).
        ahead: True: tasks are submitted before their blocks are needed. False: a task is submitted
            when its block is needed.
    """

    def __init__(
        self, requests: Pull[Request], executor: Executor, stage: int, ahead: bool
    ) -> None:
        self._requests = requests
        self._stage = stage
        self._executor = executor
        self._ahead = ahead
        self._submitted: deque[tuple[Request, Handle, float]] = deque()  # and when
        self._ended: StreamEnd | None = None

    def fill(self) -> None:
        if self._ahead:
            self._fill(False)

    def _fill(self, wait: bool) -> None:
        """Submit requests until no more tasks may be submitted, or no request is left.

        Args:
            wait: True: if no task is submitted, wait for a request.
        """
        room = (self._executor.window(self._stage) if self._ahead else 1) - len(self._submitted)
        while room > 0 and self._ended is None:
            request = self._requests.next(wait and not self._submitted)
            if request is None:
                return
            if isinstance(request, StreamEnd):
                self._ended = request
                return
            self._submitted.append(self._given(request))
            room -= 1

    def next(self, wait: bool) -> tuple[Request, Block] | StreamEnd | None:
        if wait or self._ahead:
            self._fill(wait)
        while self._submitted:
            request, handle, since = self._submitted[0]
            if not (wait or handle.ready()):
                return None
            self._submitted.popleft()
            asked = perf_counter()
            block = handle.result()
            block.moments = since, asked, perf_counter()
            if block.parts:
                self._submitted.extendleft(
                    reversed([self._given(part) for part in request.divided(block.parts)])
                )
                continue
            if block.failure is not None:
                self._submitted.clear()
                self._ended = StreamEnd(block.failure)
            return request, block
        return self._ended

    def _given(self, request: Request) -> tuple[Request, Handle, float]:
        since = perf_counter()
        return request, self._executor.submit(request.task, request.blocks), since


class InOrder:
    """Supply of the results of tasks that read a source without random access, in order.

    A result is a pair (request, block). A block has the rows that one task returned. Each task
    begins where the previous task ended.

    Args:
        stage: stage (group of operations that run in one task) that reads the source.
        start: cursor (place in the stream) to start from.
        executor: runs the tasks.
        planned: True: each task reads the inputs of one output. False: a task reads as much as the
            executor decides, from the times of earlier tasks.
    """

    def __init__(self, stage: Stage, start: Cursor, executor: Executor, planned: bool) -> None:
        assert stage.leaf is not None, "a stage on a source"
        self._stage = stage
        self._leaf = stage.leaf
        self._executor = executor
        self._position = start.positions[0]
        self._note: JoinState = start.notes[0]
        self._submitted: tuple[SpanTask, Handle, float] | None = None  # and when
        # positions before it are tried one unit after the other
        self._singly_until = sys.maxsize if planned else 0
        self._lost: int | None = None  # the position of the last unit that ended its workers
        self._ended: StreamEnd | None = None

    def fill(self) -> None:
        if self._executor.window(self._stage.number) > 1:
            self._submit()

    def _submit(self) -> None:
        if self._submitted is not None or self._ended is not None:
            return
        since = (int(self._note[0]), str(self._note[1])) if self._note[1] else None
        alone = self._position < self._singly_until
        length = self._stage.unit if alone else self._executor.inputs(self._stage.number)
        task = SpanTask(
            self._stage.number, self._position, self._position + length, self._leaf, since
        )
        moment = perf_counter()
        self._submitted = task, self._executor.submit(task), moment

    def next(self, wait: bool) -> tuple[Request, Block] | StreamEnd | None:
        while self._ended is None:
            self._submit() if wait else self.fill()
            if self._submitted is None or not (wait or self._submitted[1].ready()):
                return None
            (task, handle, submitted), self._submitted = self._submitted, None
            asked, before = perf_counter(), self._note
            block = handle.result()
            block.moments = submitted, asked, perf_counter()
            if block.stand is not None or block.failure is not None:
                self._note_end(task, block)
            elif self._lost == task.start - self._stage.unit:
                self._ended = StreamEnd(Failure(_unreachable(self._lost, task.start)))
                break
            elif block.parts or task.stop - task.start > self._stage.unit:
                self._singly_until = max(self._singly_until, task.stop)
                continue  # it ended its worker, and is done again, one unit after the other
            else:  # one unit alone: the place of the source after it is not known
                self._position, self._lost = task.stop, task.start
            return span_request(task, self._stage, (before,), (self._note,)), block
        return self._ended

    def _note_end(self, task: SpanTask, block: Block) -> None:
        """Store the position and state of the source after a task, and submit the next task.

        The block of the task contains the source's state. No task is submitted if the source has
        ended, or if tasks are submitted only when their results are needed.
        """
        self._position = task.stop
        if block.stand is not None and block.failure is None:
            self._note = (self._position, block.stand.state)
        if block.failure is not None or block.stand is None or block.stand.ended:
            self._ended = StreamEnd(block.failure)
        self.fill()


def _unreachable(first: int, second: int) -> WorkerCrashedError:
    return WorkerCrashedError(
        f"the workers that read elements {first} and {second} of a dataset without random access "
        "ended, one after the other. If the iterator of the dataset ends the process, later "
        "elements cannot be read. Correct the iterator, or let it skip elements that it cannot "
        "read."
    )
