"""A transport without processes, threads or time: a seed decides when each message comes, which workers die, and who waits.

In: messages of tasks. Out: events, in an order that no machine would give twice, and the same one for the same seed. Tasks are
done by `loader.work`, in this process, when the fake's worker gets to them.

It holds its caller to the protocol: a call that `transport` does not allow raises `TransportMisuseError`. A run that has
nothing left to wait for raises `StuckError`, where processes would hang.
"""

from __future__ import annotations

import pickle
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.loader.executors.transport import (
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
from headrace.loader.options import INSIDE_A_TASK
from headrace.loader.plan.pipeline import Pipeline
from headrace.loader.work.tasks import Block, Failure, RowOrigins
from headrace.loader.work.worker import Worker

BY_A_TASK = "by a task"


class StuckError(AssertionError):
    """Somebody waits for what will never come."""


class TransportMisuseError(AssertionError):
    """A method was called when the protocol does not allow it."""


class FakeWorkerDeath(BaseException):
    """Raised by an operation, it ends the fake's worker, as a bug in compiled code ends a process."""


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong, as probabilities for each step of the fake.

    Attributes:
        die: a worker ends, and what it had said may be lost with it.
        hang: a worker stops. Only with a timeout: nobody looks after it otherwise.
        come_back: one that hangs goes on.
        all_end: what makes the workers ends.
        lose: workers end with their machine, and the rows that they had; with `may_lose_rows`.
        resize: the room for workers changes; with a `depth`.
        interrupt: Ctrl-C, before any event.
        most: of ends, hangs and interrupts together; with two, no task is given up.
    """

    die: float = 0.0
    hang: float = 0.0
    come_back: float = 0.3
    all_end: float = 0.0
    lose: float = 0.0
    resize: float = 0.0
    interrupt: float = 0.0
    most: int = 2


class FakeRows:
    """Rows of a block, which may be lost."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lost = False

    def load(self) -> list[Any] | None:
        return None if self.lost else pickle.loads(self.data)

    def columns(self) -> None:
        """None: they are a list."""


class _FakeWorker:
    """A worker: what it was sent, and what it said that was not heard yet."""

    def __init__(self) -> None:
        self.ready = False
        self.hangs = False
        self.inbox: deque[Message] = deque()
        self.said: deque[Event] = deque()
        self.unanswered = 0  # messages, also those whose answers were not heard
        self.work: Worker | None = None


class FakeTransport(Transport):
    """Workers that a seed drives.

    Args:
        pipeline: what they do.
        chance: decides all that happens.
        worker_count: workers to begin with.
        faults: what goes wrong, and how often.
        depth: as of `Transport`.
        may_lose_rows: as of `Transport`.
        timeout: that of the run; None: workers never hang.
        note: is called with each thing that happens, in words.
        most_steps: a run of more is taken for one that never ends.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        chance: random.Random,
        worker_count: int = 2,
        faults: Faults = Faults(),
        depth: int | None = None,
        may_lose_rows: bool = False,
        timeout: float | None = None,
        note: Callable[[str], None] = lambda text: None,
        most_steps: int = 20_000,
    ) -> None:
        self.worker_count, self.depth, self.may_lose_rows = worker_count, depth, may_lose_rows
        self.now = 0.0
        self._pipeline, self._chance, self._faults, self._timeout = pipeline, chance, faults, timeout
        self._note, self._steps_left = note, most_steps
        self._workers: dict[int, _FakeWorker] = {}
        self._gone: dict[int, deque[Event]] = {}  # last words of workers that ended, which were not heard yet
        self._started = -1
        self._killed: set[int] = set()
        self._rows: list[tuple[int, FakeRows]] = []  # with the worker that made them
        self._events: list[Event] = []  # of the fake itself
        self._is_down = self._closed = False
        self.faults = 0  # that there were

    def clock(self) -> float:
        """Seconds; they pass while somebody waits."""
        return self.now

    # The protocol

    def start(self, worker: int) -> None:
        self._begin_call(f"start {worker}")
        _hold(worker > self._started, f"worker {worker} was started before")
        self._started = worker
        self._workers[worker] = _FakeWorker()

    def send(self, worker: int, message: Message) -> None:
        self._begin_call(f"send {worker} {_told(message)}")
        _hold(worker <= self._started, f"worker {worker} was never started")
        _hold(not any(named.rows.lost for named in message.named), "rows that are lost were named")
        if (remote := self._workers.get(worker)) is not None:
            remote.unanswered += 1
            _hold(
                self.depth is None or (remote.ready and remote.unanswered <= self.depth),
                f"worker {worker} has more messages than its depth",
            )
            remote.inbox.append(message)

    def poll(self, seconds: float | None) -> Sequence[Event]:
        self._begin_call("" if seconds == 0 else "wait")
        _hold(not self._is_down, "restart was to come first")
        self._count_step()
        if seconds == 0:
            for _ in range(self._chance.randint(0, 2)):
                self._step()
            return self._taken()
        until = None if seconds is None else self.now + seconds
        while not (heard := self._taken()):
            if not self._can_step():
                if until in (None, float("inf")):
                    raise StuckError("a task is waited for that nobody does")
                self.now = until
                return []
            self._step()
            if until is not None and self.now > until:
                return self._taken()
        return heard

    def kill(self, worker: int) -> None:
        self._begin_call(f"kill {worker}")
        _hold(worker not in self._killed, f"worker {worker} is killed twice")
        self._killed.add(worker)
        if (remote := self._workers.get(worker)) is not None:
            was_idle = not (remote.inbox or remote.said)
            self._end(worker, "by signal 9")
            if was_idle and self._chance.random() < 0.5:
                del self._gone[worker]

    def restart(self) -> None:
        self._note("restart")
        _hold(self._is_down, "nothing is to be made anew")
        self._is_down = False
        self._workers.clear()
        self._gone.clear()

    def close(self) -> None:
        self._note("close")
        self._closed = True
        self._workers.clear()

    # What happens

    def _begin_call(self, text: str) -> None:
        if text:
            self._note(text)
        _hold(not self._closed, "it was closed")
        if self._happens(self._faults.interrupt):
            self._note("Ctrl-C")
            raise KeyboardInterrupt

    def _happens(self, probability: float) -> bool:
        """A fault happens, if there were not enough."""
        if self.faults >= self._faults.most or self._chance.random() >= probability:
            return False
        self.faults += 1
        return True

    def _taken(self) -> list[Event]:
        """What is heard now: of each worker its oldest words, of several in any order."""
        events, self._events = self._events, []
        speakers = [said for said in [*self._gone.values(), *(w.said for w in self._workers.values())] if said]
        for said in self._chance.sample(speakers, self._chance.randint(0, len(speakers))) if not events else ():
            for _ in range(self._chance.randint(1, len(said))):
                events.append(said.popleft())
        self._gone = {number: said for number, said in self._gone.items() if said}
        for event in events:
            self._note(f"heard {_told(event)}")
            if isinstance(event, Answered) and event.worker in self._workers:
                self._workers[event.worker].unanswered -= 1
        if events:
            self._is_down = any(isinstance(event, AllEnded) for event in events)
        return events

    def _can_step(self) -> bool:
        workers = self._workers.values()
        return bool(self._gone or self._events) or any(
            each.said or (not each.hangs and (each.inbox or not each.ready)) for each in workers
        )

    def _count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise StuckError("the run does not end")

    def _step(self) -> None:
        """One thing happens, somewhere."""
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
                self._chance.sample(numbers, self._chance.randint(1, min(2, len(numbers)))), "a machine was lost"
            )
        elif faults.resize and self._chance.random() < faults.resize:
            self._events.append(Room(self._chance.randint(1, 4)))
        elif self._timeout is not None and remote.ready and not remote.hangs and self._happens(faults.hang):
            self._note(f"{worker} hangs")
            remote.hangs = True
        elif remote.hangs:
            remote.hangs = self._chance.random() >= faults.come_back
        elif not remote.ready:
            remote.ready = True
            remote.said.append(Ready(worker))
        elif remote.inbox:
            self._work(worker, remote)

    def _work(self, worker: int, remote: _FakeWorker) -> None:
        message = remote.inbox.popleft()
        if any(named.rows.lost for named in message.named):
            self._lose([worker], "rows were lost", is_news=False)
            return
        self._note(f"{worker} does {_told(message)}")
        remote.work = remote.work or Worker(self._pipeline, watches_globals=False)
        blocks = named_blocks(message.named, FakeRows.load)
        inside = INSIDE_A_TASK.set(True)
        try:
            done = [self._done(worker, remote.work.run(task, blocks)) for task in message.tasks]
        except FakeWorkerDeath:
            self._end(worker, BY_A_TASK)
        else:
            remote.said.append(Answered(worker, done))
        finally:
            INSIDE_A_TASK.reset(inside)

    def _done(self, worker: int, block: Block) -> Block:
        """A block as it comes out of another process."""
        try:
            data = pickle.dumps(block.elements)
        except Exception as error:
            block = Block.of([], None if block.tags is None else RowOrigins(), Failure(error))
            data = pickle.dumps([])
        rows = FakeRows(data)
        if self.may_lose_rows:
            self._rows.append((worker, rows))
        done = Block(*(*pickle.loads(pickle.dumps(block.header)), rows))
        done.seconds, done.waited, done.nbytes = self._chance.random() * 0.01, 0.0, len(data)
        return done

    def _end(self, worker: int, how: str) -> None:
        """A worker ends: what it said last may be lost with it.

        A task that ends each of its workers takes no answers along where there is no `depth`: those of processes are not lost.
        """
        remote = self._workers.pop(worker)
        safe = self.depth is None and how == BY_A_TASK
        kept = [
            remote.said.popleft()
            for _ in range(self._chance.randint(len(remote.said) if safe else 0, len(remote.said)))
        ]
        self._note(f"{worker} ends {how}, {len(remote.said)} answers lost")
        self._gone[worker] = deque([*kept, Ended(worker, how)])

    def _end_all(self) -> None:
        self._note("all end")
        for worker in list(self._workers):
            self._end(worker, "")
        kept = [event for said in self._gone.values() for event in said if not isinstance(event, Ended)]
        self._gone.clear()
        self._events += [*kept, AllEnded("was terminated by a fault")]

    def _lose(self, workers: list[int], how: str, is_news: bool = True) -> None:
        self._note(f"{workers} are lost")
        for worker in workers:
            self._end(worker, "")
        kept = [event for worker in workers for event in self._gone.pop(worker) if not isinstance(event, Ended)]
        self._events += [*kept, Lost(workers, how, is_news)]
        for maker, rows in self._rows:
            rows.lost = rows.lost or maker in workers


def _hold(holds: bool, text: str) -> None:
    if not holds:
        raise TransportMisuseError(text)


def _told(what: Any) -> str:
    if isinstance(what, Message):
        return " ".join(f"{task.stage}:{getattr(task, 'start', 'rows')}" for task in what.tasks)
    if isinstance(what, Answered):
        return f"answer of {what.worker}"
    return str(what)
