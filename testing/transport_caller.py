"""Call a transport as the executor's loop does, and check every event that it returns.

In: tasks for workers. Out: the blocks (the rows of one task each) of each message. An event that
`loader/executors/transport.py` does not allow raises AssertionError: a second answer, an answer of
a worker that has ended, …
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..loader.executors.transport import (
    AllEnded,
    Answered,
    Ended,
    Event,
    Lost,
    Message,
    Ready,
    Transport,
)
from ..loader.work.tasks import Block, GroupTask, SpanTask

_POLL_SECONDS = 0.05


class TransportCaller:
    """Caller of a transport, which knows what each worker still has to answer.

    Args:
        transport: the transport.
        seconds: time after which a missing event is an error.

    Attributes:
        started: number of workers that were started.
        ready: numbers of the workers that are ready and have not ended.
        ended: numbers of the workers that have ended.
        answers: blocks of each answered message, by its number.
    """

    def __init__(self, transport: Transport, seconds: float) -> None:
        self.transport = transport
        self.started = 0
        self.ready: set[int] = set()
        self.ended: set[int] = set()
        self.answers: dict[int, Sequence[Block]] = {}
        self._seconds = seconds
        self._sent = 0
        self._unanswered: dict[
            int, deque[tuple[int, int]]
        ] = {}  # by worker: number and tasks of each message
        self._was_ready: set[int] = set()

    def start(self, count: int = 1) -> None:
        """Start workers, and wait until each of them is ready."""
        new = range(self.started, self.started + count)
        for worker in new:
            self.start_soon(worker)
        self.wait_for(
            lambda: self.ready >= set(new), f"Ready of workers {new.start} to {new.stop - 1}"
        )

    def start_soon(self, worker: int) -> None:
        """Start a worker, without waiting until it is ready."""
        self.started = worker + 1
        self._unanswered[worker] = deque()
        self.transport.start(worker)

    def send(
        self, worker: int, *tasks: SpanTask | GroupTask, blocks: dict[int, Block] | None = None
    ) -> int:
        """Send a worker a message, and return the number of the message.

        Wait before it until the worker has room for it.

        Args:
            worker: number of the worker.
            *tasks: tasks of the message.
            blocks: blocks to whose rows the tasks refer, by number.
        """
        depth = self.transport.depth
        if depth is not None:
            self.wait_for(
                lambda: len(self._unanswered[worker]) < depth or worker in self.ended,
                "room for a message",
            )
        groups = [task for task in tasks if isinstance(task, GroupTask)]
        message = (
            Message.of(groups, blocks or {}, lambda block: block.rows) if groups else Message(tasks)
        )
        number, self._sent = self._sent, self._sent + 1
        if worker not in self.ended:
            self._unanswered[worker].append((number, len(tasks)))
        self.transport.send(worker, message)
        return number

    def has_answered(self, worker: int) -> bool:
        """Return True if a worker has answered all of its messages, or has ended."""
        return worker in self.ended or not self._unanswered[worker]

    def finish(self) -> None:
        """Wait until every worker has answered all messages, or has ended."""
        self.wait_for(
            lambda: all(map(self.has_answered, self._unanswered)),
            "answers to messages "
            f"{[number for some in self._unanswered.values() for number, _ in some]}",
        )

    def rows(self, number: int) -> list[list[Any]]:
        """Wait for the answer to a message, and return the rows of each of its tasks."""
        self.wait_for(lambda: number in self.answers, f"an answer to message {number}")
        return [self.load(block) for block in self.answers[number]]

    def load(self, block: Block) -> list[Any]:
        """Return the rows of a block (the rows of one task), waiting until they arrive."""
        found: list[Any] | None = None

        def arrived() -> bool:
            nonlocal found
            found = block.rows.load()
            return found is not None

        self.wait_for(arrived, "the rows of an answer")
        assert found is not None
        return list(found)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Poll the transport until a condition holds.

        Raise AssertionError, which names `what`, if it does not in time.
        """
        deadline = time.monotonic() + self._seconds
        while not condition():
            self.poll(_POLL_SECONDS)
            assert time.monotonic() < deadline or condition(), (
                f"{what} did not come within {self._seconds} s"
            )

    def poll(self, seconds: float | None = 0) -> None:
        """Receive and check events."""
        all_ended = False
        for event in self.transport.poll(seconds):
            self._check(event)
            all_ended = all_ended or isinstance(event, AllEnded)
        if all_ended:
            self.transport.restart()

    def _check(self, event: Event) -> None:
        if isinstance(event, Ready):
            self._check_alive(event.worker, event)
            assert event.worker not in self._was_ready, f"worker {event.worker} is ready twice"
            self._was_ready.add(event.worker)
            self.ready.add(event.worker)
        elif isinstance(event, Answered):
            self._check_alive(event.worker, event)
            assert self._unanswered[event.worker], (
                f"worker {event.worker} answers a message twice, or one that it never got"
            )
            number, tasks = self._unanswered[event.worker].popleft()
            assert len(event.blocks) == tasks, (
                f"message {number} has {tasks} tasks, and its answer {len(event.blocks)} blocks"
            )
            self.answers[number] = event.blocks
        elif isinstance(event, Ended):
            self._check_alive(event.worker, event)
            self._end(event.worker)
        elif isinstance(event, Lost):
            for worker in event.workers:
                self._check_alive(worker, event)
                self._end(worker)
        elif isinstance(event, AllEnded):
            for worker in set(range(self.started)) - self.ended:
                self._end(worker)

    def _check_alive(self, worker: int, event: Event) -> None:
        assert 0 <= worker < self.started, (
            f"{type(event).__name__} names worker {worker}, which was never started"
        )
        assert worker not in self.ended, (
            f"{type(event).__name__} of worker {worker} comes after its end"
        )

    def _end(self, worker: int) -> None:
        self.ended.add(worker)
        self.ready.discard(worker)
        self._unanswered[worker].clear()
