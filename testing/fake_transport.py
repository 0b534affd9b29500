"""A transport without processes, threads or time.

A seed decides when messages arrive, and which workers die.

In: messages of tasks. Out: events, in an order that depends only on the seed and the calls. Tasks
are run by `loader.work` in this process, at the step at which the simulated worker gets to them.

The transport checks that its caller keeps the protocol: a call that `loader/executors/transport.py`
forbids raises `TransportMisuseError`. A caller who waits for a result that cannot come gets
`StuckError`, where real workers would leave it waiting.
"""

from __future__ import annotations

import pickle
import random
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
    Room,
    Transport,
    named_blocks,
)
from ..loader.options import INSIDE_A_TASK
from ..loader.plan.pipeline import Pipeline
from ..loader.work.row_origins import RowOrigins
from ..loader.work.tasks import Block, Failure
from ..loader.work.worker import Worker
from .faults import NO_FAULTS, FakeWorkerDeath, Faults, StuckError, TransportMisuseError

BY_A_TASK = "by a task"


class FakeRows:
    """Rows of a block (the rows of one task), as a pickle.

    Attributes:
        data: the pickle of the list of rows.
        lost: True if the rows are lost with their worker.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lost = False

    def load(self) -> list[Any] | None:
        return None if self.lost else pickle.loads(self.data)

    def columns(self) -> None:
        """Return None, because the rows are a list."""


class _FakeWorker:
    """A simulated worker: messages to run, and events that its caller has not received yet."""

    def __init__(self) -> None:
        self.ready = False
        self.hangs = False
        self.inbox: deque[Message] = deque()
        self.outbox: deque[Event] = deque()
        self.unanswered = 0  # messages, including those whose answers were not received
        self.work: Worker | None = None


class FakeTransport(Transport):
    """A transport whose workers are simulated in this process.

    The same seed and the same calls give the same events.

    Args:
        pipeline: pipeline that the workers run.
        chance: random generator that decides everything that happens.
        worker_count: number of workers at the beginning.
        faults: probabilities of faults.
        depth: messages that a worker may have at a time; see `Transport`.
        may_lose_rows: True if rows can be lost; see `Transport`.
        timeout: timeout of the run. None: workers never stop.
        note: function that is called with a text for each event.
        most_steps: number of steps after which the run counts as endless.

    Raises:
        TransportMisuseError: if the caller breaks the protocol of transports.
        StuckError: if the caller waits for a result that cannot come, or the run has too many
            steps.

    >>> import random
    >>> import headrace
    >>> from headrace.loader.executors.transport import Message
    >>> from headrace.loader.work.tasks import SpanTask
    >>> pipeline = iter(headrace.load(range(8), batch_size=2)).pipeline
    >>> transport = FakeTransport(pipeline, random.Random(0), worker_count=1)
    >>> transport.start(0)
    >>> transport.send(0, Message([SpanTask(0, 0, 2)]))
    >>> transport.poll(None)
    [Ready(worker=0)]
    """

    def __init__(
        self,
        pipeline: Pipeline,
        chance: random.Random,
        worker_count: int = 2,
        faults: Faults = NO_FAULTS,
        depth: int | None = None,
        may_lose_rows: bool = False,
        timeout: float | None = None,
        note: Callable[[str], None] = lambda text: None,
        most_steps: int = 20_000,
    ) -> None:
        self.worker_count, self.depth, self.may_lose_rows = worker_count, depth, may_lose_rows
        self.now = 0.0
        self._pipeline, self._chance, self._faults, self._timeout = (
            pipeline,
            chance,
            faults,
            timeout,
        )
        self._note, self._steps_left = note, most_steps
        self._workers: dict[int, _FakeWorker] = {}
        self._gone: dict[
            int, deque[Event]
        ] = {}  # of workers that ended: events that were not received yet
        self._started = -1
        self._killed: set[int] = set()
        self._rows: list[tuple[int, FakeRows]] = []  # with the number of the worker that made them
        self._events: list[Event] = []  # that come from no single worker
        self._is_down = self._closed = False
        self.fault_count = 0  # faults so far

    def clock(self) -> float:
        """Return the simulated time in seconds. It passes while the caller waits."""
        return self.now

    # Methods of the protocol

    def start(self, worker: int) -> None:
        self._begin_call(f"start {worker}")
        _require(worker > self._started, f"worker {worker} was started before")
        self._started = worker
        self._workers[worker] = _FakeWorker()

    def send(self, worker: int, message: Message) -> None:
        self._begin_call(f"send {worker} {_text(message)}")
        _require(worker <= self._started, f"worker {worker} was never started")
        _require(
            not any(named.rows.lost for named in message.named),
            "the message refers to rows that are lost",
        )
        if (remote := self._workers.get(worker)) is not None:
            remote.unanswered += 1
            _require(
                self.depth is None or (remote.ready and remote.unanswered <= self.depth),
                f"worker {worker} has more messages than its depth",
            )
            remote.inbox.append(message)

    def poll(self, seconds: float | None) -> Sequence[Event]:
        self._begin_call("" if seconds == 0 else "wait")
        _require(not self._is_down, "restart must come first")
        self._count_step()
        if seconds == 0:
            for _ in range(self._chance.randint(0, 2)):
                self._step()
            return self._taken()
        until = None if seconds is None else self.now + seconds
        while not (events := self._taken()):
            if not self._can_step():
                if until in (None, float("inf")):
                    raise StuckError(
                        "the executor waits for ever: it waits for a task that it has given to no "
                        "worker"
                    )
                self.now = until
                return []
            self._step()
            if until is not None and self.now > until:
                return self._taken()
        return events

    def kill(self, worker: int) -> None:
        self._begin_call(f"kill {worker}")
        _require(worker not in self._killed, f"worker {worker} is killed twice")
        self._killed.add(worker)
        if (remote := self._workers.get(worker)) is not None:
            was_idle = not (remote.inbox or remote.outbox)
            self._end(worker, "by signal 9")
            if was_idle and self._chance.random() < 0.5:
                del self._gone[worker]

    def restart(self) -> None:
        self._note("restart")
        _require(self._is_down, "restart was called without AllEnded")
        self._is_down = False
        self._workers.clear()
        self._gone.clear()

    def close(self) -> None:
        self._note("close")
        self._closed = True
        self._workers.clear()

    # Events

    def _begin_call(self, text: str) -> None:
        if text:
            self._note(text)
        _require(not self._closed, "the transport is closed")
        if self._happens(self._faults.interrupt):
            self._note("Ctrl-C")
            raise KeyboardInterrupt

    def _happens(self, probability: float) -> bool:
        """Return True, with this probability, if another fault is allowed; and count it."""
        if self.fault_count >= self._faults.most or self._chance.random() >= probability:
            return False
        self.fault_count += 1
        return True

    def _taken(self) -> list[Event]:
        """Return the events that are received now: the oldest of some workers, in random order."""
        events, self._events = self._events, []
        outboxes = [
            one
            for one in [*self._gone.values(), *(each.outbox for each in self._workers.values())]
            if one
        ]
        for outbox in (
            self._chance.sample(outboxes, self._chance.randint(0, len(outboxes)))
            if not events
            else ()
        ):
            for _ in range(self._chance.randint(1, len(outbox))):
                events.append(outbox.popleft())
        self._gone = {number: outbox for number, outbox in self._gone.items() if outbox}
        for event in events:
            self._note(f"received {_text(event)}")
            if isinstance(event, Answered) and event.worker in self._workers:
                self._workers[event.worker].unanswered -= 1
        if events:
            self._is_down = any(isinstance(event, AllEnded) for event in events)
        return events

    def _can_step(self) -> bool:
        workers = self._workers.values()
        return bool(self._gone or self._events) or any(
            each.outbox or (not each.hangs and (each.inbox or not each.ready)) for each in workers
        )

    def _count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise StuckError("the run does not end")

    def _step(self) -> None:
        """Let one event happen, at a random worker."""
        self._count_step()
        self.now += self._chance.random() * 0.01
        numbers, faults = list(self._workers), self._faults
        if not numbers:
            return
        worker = self._chance.choice(numbers)
        remote = self._workers[worker]
        if self._happens(faults.die):
            self._end(worker, "by a fault")
        elif self._happens(faults.all_end):
            self._end_all()
        elif self._happens(faults.lose):
            self._lose(
                self._chance.sample(numbers, self._chance.randint(1, min(2, len(numbers)))),
                "a machine was lost",
            )
        elif faults.resize and self._chance.random() < faults.resize:
            self._events.append(Room(self._chance.randint(1, 4)))
        elif (
            self._timeout is not None
            and remote.ready
            and not remote.hangs
            and self._happens(faults.hang)
        ):
            self._note(f"{worker} stops")
            remote.hangs = True
        elif remote.hangs:
            remote.hangs = self._chance.random() >= faults.come_back
        elif not remote.ready:
            remote.ready = True
            remote.outbox.append(Ready(worker))
        elif remote.inbox:
            self._work(worker, remote)

    def _work(self, worker: int, remote: _FakeWorker) -> None:
        message = remote.inbox.popleft()
        if any(named.rows.lost for named in message.named):
            self._lose([worker], "rows were lost", is_news=False)
            return
        self._note(f"{worker} runs {_text(message)}")
        remote.work = remote.work or Worker(self._pipeline, watches_globals=False)
        blocks = named_blocks(message.named, FakeRows.load)
        inside = INSIDE_A_TASK.set(True)
        try:
            blocks_sent = [
                self._sent(worker, remote.work.run(task, blocks)) for task in message.tasks
            ]
        except FakeWorkerDeath:
            self._end(worker, BY_A_TASK)
        else:
            remote.outbox.append(Answered(worker, blocks_sent))
        finally:
            INSIDE_A_TASK.reset(inside)

    def _sent(self, worker: int, block: Block) -> Block:
        """Return a block (the rows of one task) as it arrives from another process."""
        try:
            data = pickle.dumps(block.elements)
        except Exception as error:
            block = Block.of([], None if block.tags is None else RowOrigins(), Failure(error))
            data = pickle.dumps([])
        rows = FakeRows(data)
        if self.may_lose_rows:
            self._rows.append((worker, rows))
        sent = Block(*(*pickle.loads(pickle.dumps(block.header)), rows))
        sent.seconds, sent.waited, sent.nbytes = self._chance.random() * 0.01, 0.0, len(data)
        return sent

    def _end(self, worker: int, how: str) -> None:
        """End a worker. Some of its last answers are lost with it.

        No answer is lost if a task ended the worker and there is no `depth`, because worker
        processes lose none then.
        """
        remote = self._workers.pop(worker)
        safe = self.depth is None and how == BY_A_TASK
        kept = [
            remote.outbox.popleft()
            for _ in range(
                self._chance.randint(len(remote.outbox) if safe else 0, len(remote.outbox))
            )
        ]
        self._note(f"{worker} ends {how}, and {len(remote.outbox)} answers are lost")
        self._gone[worker] = deque([*kept, Ended(worker, how)])

    def _end_all(self) -> None:
        self._note("all end")
        for worker in list(self._workers):
            self._end(worker, "")
        kept = [
            event
            for outbox in self._gone.values()
            for event in outbox
            if not isinstance(event, Ended)
        ]
        self._gone.clear()
        self._events += [*kept, AllEnded("was terminated by a fault")]

    def _lose(self, workers: list[int], how: str, is_news: bool = True) -> None:
        self._note(f"{workers} are lost")
        for worker in workers:
            self._end(worker, "")
        kept = [
            event
            for worker in workers
            for event in self._gone.pop(worker)
            if not isinstance(event, Ended)
        ]
        self._events += [*kept, Lost(workers, how, is_news)]
        for maker, rows in self._rows:
            rows.lost = rows.lost or maker in workers


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise TransportMisuseError(text)


def _text(what: Message | Event) -> str:
    if isinstance(what, Message):
        return " ".join(
            f"{task.stage}:{'rows' if task.blocks else task.span[0]}" for task in what.tasks
        )
    if isinstance(what, Answered):
        return f"answer of {what.worker}"
    return str(what)
