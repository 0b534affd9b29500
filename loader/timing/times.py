"""Times of a task as a worker measures them: plain numbers, sent together with the task's rows.

Times are seconds of `time.perf_counter`, which all processes of a machine share on Linux.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Moments: TypeAlias = tuple[float, float, float]
"""Times at which a task was submitted, its result was asked for, and the result was received.

In seconds of `time.perf_counter` in the user's process.
"""


class SlowestCall(NamedTuple):
    """The longest call of any operation for one element, in one task.

    Attributes:
        seconds: seconds of the call.
        operation: index of the operation in its stage (operations that run in one task).
        tag: number that names the record, see `Pipeline.place_of`; -1 if it is unknown.
    """

    seconds: float
    operation: int
    tag: int


class OperationTimes(NamedTuple):
    """Times of each operation in one task.

    They are measured only in some tasks, because measuring takes time, too.

    Attributes:
        inputs: number of inputs that the operations processed in this time.
        seconds: seconds that all operations took, without `extra`.
        cpu_seconds: part of `seconds` in which the thread was at work, not waiting.
        extra: seconds that the timing itself took, approximately.
        operations: part of `seconds` spent in each operation of the stage; the last item is the
            time between operations.
        slowest: the slowest call of an operation that takes one element at a time. Only operations
            before the first one that takes several elements, such as `Batch`, count. None if there
            is no such call.
    """

    inputs: int
    seconds: float
    cpu_seconds: float
    extra: float
    operations: tuple[float, ...]
    slowest: SlowestCall | None


class TaskTimes(NamedTuple):
    """Times of a task in a worker, and counts of the task.

    Attributes:
        worker: number of the worker.
        began: time at which the task began.
        ended: time at which the task ended.
        reading: seconds in which records were read, or the worker waited for records.
        packing: seconds in which rows were prepared for sending to another process.
        inputs: number of positions or rows that the task got.
        rows: number of rows that the task made.
        nbytes: bytes of these rows. If rows are not batches, all are assumed to be as large as the
            first.
        under_way: seconds of all reads of the task's records together.
        tasks: number of tasks for which these times are used: this task, and the untimed tasks
            before it.
        look: times of the operations; None if they were not timed one by one.
        read_bytes: bytes of the records that were read, estimated from some of them.
        memory: largest memory of the worker's process so far, in bytes.
    """

    worker: int
    began: float
    ended: float
    reading: float
    packing: float
    inputs: int
    rows: int
    nbytes: int
    under_way: float = 0.0
    tasks: int = 1
    look: OperationTimes | None = None
    read_bytes: int = 0
    memory: int = 0

    def moved(self, seconds: float) -> TaskTimes:
        """Convert the times to another clock, which is ahead by `seconds`.

        This converts, for example, times of a worker's machine to times of this machine.
        """
        return self._replace(began=self.began + seconds, ended=self.ended + seconds)


class TaskEvent(NamedTuple):
    """A task that was done and timed, and whose result was received.

    Attributes:
        block: number of the task's block (its result), among the blocks of the iterator.
        stage: index of the task's stage (operations that run in one task).
        start: first position of the task. 0 if its inputs are rows of earlier tasks.
        stop: end of the task's positions, exclusive. If its inputs are rows, the number of these
            rows.
        made_of: if the task's inputs are rows, the numbers of the blocks that contain these rows.
        submitted: time at which the task was submitted to the workers.
        asked: time at which the task's result was requested.
        taken: time at which the task's result was received.
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
    """An event in the life of a worker: its start or its end.

    Attributes:
        at: time of the event, in seconds of `time.perf_counter` in the user's process.
        worker: number of the worker.
        what: "started", or a text that says how the worker ended.
    """

    at: float
    worker: int
    what: str
