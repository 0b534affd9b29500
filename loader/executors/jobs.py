"""Jobs: pieces of work that a pool gives to workers; and tasks as jobs, with their results.

In: tasks. Out: handles (results to come), which are jobs of the pool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ...errors import WorkerCrashedError
from ..work.tasks import Block, Blocks, Task
from .transport import StoredRows

MAX_TRIES = 3
"""Number of tries after which a job, or the start of workers, is given up."""

_RESTORE = (
    "Start Ray with a larger --object-store-memory, or use fewer workers, "
    "and restore the last checkpoint"
)


@dataclass(slots=True, eq=False)
class Job:
    """A piece of work for a worker.

    Attributes:
        number: number of the job. If jobs are assigned a second time, it is in the order of their
            numbers.
        divisible: True if the job can be divided into smaller jobs that run alone.
        cost: expected seconds.
        series: number of a series, in which each job continues where the one before ended; None: no
            series.
        alone: True if the job is the only one in its message. If its worker ends, this job is the
            cause.
        tries: number of workers that ended while doing it.
        dropped: True if its result is not needed any more.
    """

    number: int
    divisible: bool
    cost: float
    series: int | None = None
    alone: bool = field(default=True, init=False)
    tries: int = field(default=0, init=False)
    dropped: bool = field(default=False, init=False)


J = TypeVar("J", bound=Job)


@dataclass(slots=True, eq=False)
class PoolWorker(Generic[J]):
    """What the pool knows about one worker.

    Attributes:
        number: number of the worker.
        jobs: its jobs, in the order in which it does them.
        load: expected seconds of these jobs.
        messages: number of messages in which these jobs were sent.
        ready: True if the worker has started up.
        began: time at which the first job began.
        late: the job that exceeded its timeout, for which the worker is being killed; else None.
    """

    number: int
    jobs: deque[J] = field(default_factory=deque)
    load: float = 0.0
    messages: int = 0
    ready: bool = False
    began: float = 0.0
    late: J | None = None

    def has_room(self, job: Job, depth: int) -> bool:
        """Return True if the worker may get a job: it has fewer than `depth` messages of jobs.

        A job during which a worker ended needs a worker without other jobs.
        """
        is_tried = job.tries > 0 or (bool(self.jobs) and self.jobs[0].tries > 0)
        return self.ready and self.messages < (1 if is_tried else depth)


class RunsHandles(Protocol):
    """Interface of the executor that runs the tasks of handles."""

    def handle_events(self, wait: bool) -> None:
        """Handle all events so far. With `wait`, first wait for an event."""

    def block_given_up(self, handle: PooledHandle) -> Block:
        """Return the result of a task that was given up."""
        ...

    def make_again(self, rows: RowsWithTask) -> None:
        """Run the task of lost rows a second time, unless that run has already begun."""


@dataclass(slots=True, eq=False, kw_only=True)
class PooledHandle(Job):
    """A task that a worker runs, and its result (`block`), once it has arrived."""

    executor: RunsHandles
    task: Task
    # with the rows to which the task refers; kept as long as the task may be run again
    blocks: Blocks
    block: Block | None = None  # the result, once it has arrived
    gave_up: str = ""  # why the task was given up; "" if it was not
    # its inputs, each run alone to find the one that ends workers
    suspects: Sequence[PooledHandle] = ()

    def ready(self) -> bool:
        """Return True if the result has arrived, after handling all messages of the workers."""
        if not self._has_come():
            self.executor.handle_events(wait=False)
        return self._has_come()

    def result(self) -> Block:
        while not self._has_come():
            self.executor.handle_events(wait=True)
        block, self.block = self.block, None
        assert block is not None, "it has come"
        return block

    def _has_come(self) -> bool:
        """Return True if the task's result is there.

        For a given-up task, it is the result of its first input that ends workers.
        """
        if self.block is None and self.suspects:
            self.block = next((one.block for one in self.suspects if one.gave_up), None)
            if self.block is None and all(one.block is not None for one in self.suspects):
                self.block = self.executor.block_given_up(self)  # none did
        return self.block is not None


@dataclass(slots=True, eq=False)
class RowsWithTask:
    """Rows that may be lost with a machine, and the handle of the task that can make them again."""

    handle: PooledHandle
    rows: StoredRows
    again: PooledHandle | None = None  # the task, while it is run again

    def are_lost(self) -> bool:
        """Return True if the rows are lost.

        If the task was run a second time, its new rows replace the old ones first.

        Raises the error of the second run if it failed, or WorkerCrashedError if it made no rows.
        """
        if self.again is not None and (block := self.again.block) is not None:
            self.again = None
            if not isinstance(block.rows, RowsWithTask):
                reason = None if block.failure is None else block.failure.error
                raise reason or WorkerCrashedError(
                    f"Ray lost rows, which could not be made again. {_RESTORE}."
                )
            self.rows = block.rows.rows
        return self.rows.lost

    def load(self) -> list[Any]:
        losses = 0
        while True:
            while self.are_lost():
                self.handle.executor.make_again(self)
                self.handle.executor.handle_events(wait=True)
            if (elements := self.rows.load()) is not None:
                return elements
            losses += self.rows.lost
            if losses >= MAX_TRIES:
                raise WorkerCrashedError(
                    f"Ray lost the rows of a task {MAX_TRIES} times. {_RESTORE}."
                )
            self.handle.executor.handle_events(wait=False)
