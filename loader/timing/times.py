"""Times of a task as a worker measures them: plain numbers, which are sent with the task's block.

Times are seconds of `time.perf_counter`, which all processes of a machine share on Linux.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Moments: TypeAlias = tuple[float, float, float]
"""Times at which a task was submitted, its block was asked for, and the block was received.

In seconds of `time.perf_counter` in the user's process.

A block has the rows that one task returned.
"""


class SlowestCall(NamedTuple):
    """The longest call of an operation for one element."""

    seconds: float
    operation: int  # its place in the stage
    tag: int  # what names the record, as of `Pipeline.place_of`; -1: it has no name


class OperationTimes(NamedTuple):
    """Times of each operation in one task. Measured for some tasks only, because measuring takes time itself."""

    inputs: int  # of the task that were pushed through the operations meanwhile
    seconds: float  # that this took, without `extra`
    cpu_seconds: float  # of these that the thread was at work, not waiting
    extra: float  # seconds that the timing itself took, about
    operations: tuple[float, ...]  # of these, spent in each operation of the stage; and last between them
    slowest: SlowestCall | None  # of the operations before the first that takes several elements


class TaskTimes(NamedTuple):
    """When a worker did a task, and counts of the task."""

    worker: int
    began: float
    ended: float
    reading: float  # seconds of these in which records were read or waited for
    packing: float  # seconds of these in which rows were made ready for another process
    inputs: int  # positions or rows
    rows: int  # that came out
    nbytes: int  # of these rows; where no batches are made, as many for each as the first one has
    under_way: float = 0.0  # seconds in which its records were being read, of all reads together
    tasks: int = 1  # for which it stands: itself, and those before it that the worker did not time
    look: OperationTimes | None = None
    read_bytes: int = 0  # of the records that were read, estimated from some of them

    def moved(self, seconds: float) -> TaskTimes:
        """Return the times by the clock of another machine, which is ahead by `seconds`."""
        return self._replace(began=self.began + seconds, ended=self.ended + seconds)


class TaskEvent(NamedTuple):
    """A task that was done, and whose block (the rows of one task) was received.

    Attributes:
        block: number of its block, among the blocks of the iterator.
        stage: number of its stage.
        start: first position of the task. For a task on rows, 0.
        stop: end of its positions, exclusive. For a task on rows, the number of rows.
        made_of: for a task on rows, the numbers of the blocks that the rows are from.
        submitted: time at which it was submitted to the workers.
        asked: time at which its rows were asked for.
        taken: time at which the rows were received.
        times: times that the worker measured.
    """

    block: int
    stage: int
    start: int
    stop: int
    made_of: tuple[int, ...]
    submitted: float
    asked: float
    taken: float
    times: TaskTimes

    def asked_later(self, seconds: float) -> TaskEvent:
        return self._replace(asked=self.asked + seconds)


class WorkerEvent(NamedTuple):
    """An event in the life of a worker."""

    at: float
    worker: int
    what: str  # "started", or how it ended
