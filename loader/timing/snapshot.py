"""Counts and times of a loop up to one moment, as plain data.

Statistics, logs, metrics, the progress line, reports, and the diagnosis of what limits the loop are
made from these counts and times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import sub
from typing import NamedTuple

from ...common.fields import field_values


@dataclass(frozen=True)
class OperationStats:
    """Times of an operation, which is timed only in some of the tasks.

    A stage is a group of operations that run in one task.

    Attributes:
        number: index of the operation in the pipeline.
        name: description of the operation.
        seconds: seconds of all workers in all tasks, estimated from the tasks in which the
            operation was timed.
        per_input: seconds for each position or row that entered the operation's stage.
        timed: number of positions or rows of the stage for which the operation was timed. If it is
            0, the seconds are 0.
        slowest: seconds of the operation's slowest timed call. In each timed task, only the slowest
            call of all operations is noted; 0 if no noted call was of this operation. Always 0 for
            the first operation that takes several elements, such as `Batch`, and for all operations
            after it.
        slowest_tag: number that names the record of the slowest call, see `Pipeline.place_of`; -1
            if there is no such call, or if the record is unknown.
    """

    number: int
    name: str
    seconds: float
    per_input: float
    timed: int
    slowest: float = 0.0
    slowest_tag: int = -1


@dataclass(frozen=True)
class StageStats:
    """The tasks of a stage (operations that run in one task) whose results your process received.

    Seconds are summed over all workers, unless noted.

    Attributes:
        number: index of the stage.
        tasks: number of tasks.
        inputs: number of positions, or rows of earlier stages, in these tasks.
        rows: number of rows that the tasks made.
        nbytes: bytes of these rows. If rows are not batches, all rows of a task are assumed to be
            as large as the first.
        reads: True if the inputs are positions, whose records the stage reads.
        ends: True if the rows are elements of the stream, or if the pipeline ends with a join of
            streams.
        busy: seconds of all tasks.
        reading: part of `busy` in which records were read, or workers waited for records. It
            includes making batches straight from columns.
        packing: part of `busy` in which rows were prepared for sending to your process.
        under_way: seconds of all reads together. Divided by the elapsed time, it is the mean number
            of concurrent reads.
        between: part of `busy` that headrace itself spent between operations.
        cpu_share: part of the operations' time in which workers were not waiting for a disk, a lock
            or a sleep. 1.0 if no operation was timed.
        waited: seconds in which your process waited for results.
        queued: mean seconds that a task waited for a worker.
        ahead: mean number of tasks that were finished before their results were requested.
        operations: times of each operation, in order.
    """

    number: int
    tasks: int
    inputs: int
    rows: int
    nbytes: int
    reads: bool
    ends: bool
    busy: float
    reading: float
    packing: float
    between: float
    cpu_share: float
    waited: float
    queued: float
    ahead: float
    operations: tuple[OperationStats, ...]
    under_way: float = 0.0


class StepTimes(NamedTuple):
    """Seconds for which the user waited for a batch of a device feeder, divided by causes.

    The causes add up to `waited`. Work that was done while the user did not wait does not count.

    Attributes:
        waited: seconds in `next`.
        reading: seconds in which the iterator that the feeder reads was making the batch.
        transforming: seconds in which `transform` ran.
        agreeing: seconds in which the hosts agreed on the step, and so waited for the slowest host.
        transfer: seconds in which the batch was transferred to the devices.
        hand_over: remaining seconds: queues, and the waking up of threads.
    """

    waited: float
    reading: float
    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


PARTS_OF_A_WAIT = ("waited", "reading", "transforming", "agreeing", "transfer", "hand_over")
"""The names of the fields of `StepTimes`."""


@dataclass(frozen=True)
class Snapshot:
    """Counts and times of a loop since its start or the last `set_state`.

    It is the result of `snapshot()` of an iterator or a feeder. `snapshot()` costs less than
    `stats()`, whose result also has the times of single tasks. Records, bytes and stages
    (operations that run in one task) are counted for tasks whose results your process has received.
    Some elements of these tasks may not have been delivered to you yet.

    Attributes:
        steps: number of elements that you received.
        elapsed: seconds in which you received them, including your own work.
        waited: the part of `elapsed` that you spent in `next`, in seconds. Without workers, `next`
            runs the operations in your thread.
        worker_count: current number of workers of the loader.
        skipped: number of records or batches that were skipped because they failed.
        stages: times of each stage's tasks; empty with `ExecutionOptions(observe=False)`.
        records: number of positions whose records were read.
        nbytes: bytes of the records that were read, including those that operations dropped. It is
            an estimate if records have different sizes.
        shared_bytes: bytes of memory that workers share with your process now.
        feeding: the parts of `waited` by cause, for a device feeder; otherwise None.
    """

    steps: int
    elapsed: float
    waited: float
    worker_count: int = 0
    skipped: int = 0
    stages: tuple[StageStats, ...] = ()
    records: int = 0
    nbytes: int = 0
    shared_bytes: int = 0
    feeding: StepTimes | None = None

    def since(self, before: Snapshot) -> Snapshot:
        """Return the counts and times since an earlier snapshot.

        If `set_state` was called in between, which resets all counts, return this snapshot itself.
        Values that are neither counts nor times of the loop are those of this snapshot:
        `worker_count`, `shared_bytes`, each stage's `cpu_share`, the slowest call of each
        operation, and fields that only the result of `stats()` has.

        Args:
            before: the earlier snapshot.
        """
        now, then = field_values(self), field_values(before)
        added = {name: now[name] - then[name] for name in _COUNTED}
        if any(added[name] < 0 for name in _COUNTED[:-1]):
            return self
        known = {stage.number: stage for stage in before.stages}
        stages = (
            _stage_since(stage, known.get(stage.number), self, before) for stage in self.stages
        )
        feeding = self.feeding
        if feeding is not None and before.feeding is not None:
            feeding = StepTimes(*map(sub, feeding, before.feeding))
        return replace(self, **added, stages=tuple(stages), feeding=feeding)


# the last one is estimated, and may shrink
_COUNTED = ("steps", "elapsed", "waited", "records", "skipped", "nbytes")

_STAGE_COUNTED = (
    *("tasks", "inputs", "rows", "nbytes"),
    # estimated: they may shrink a little
    *("busy", "reading", "packing", "between", "waited", "under_way"),
)


def _stage_since(
    stage: StageStats, before: StageStats | None, now: Snapshot, then: Snapshot
) -> StageStats:
    """Return the statistics of a stage (operations that run in one task) between two snapshots.

    Args:
        stage: the stage in the later snapshot.
        before: the stage in the earlier snapshot; None if the stage had no task then.
        now: the later snapshot.
        then: the earlier snapshot.
    """
    values = field_values(stage)
    if before is None:
        added = {name: values[name] for name in _STAGE_COUNTED}
        queued, ahead = stage.queued * stage.tasks, stage.ahead * now.elapsed
        operations = stage.operations
    else:
        former = field_values(before)
        added = {name: max(values[name] - former[name], 0) for name in _STAGE_COUNTED}
        queued = stage.queued * stage.tasks - before.queued * before.tasks
        ahead = stage.ahead * now.elapsed - before.ahead * then.elapsed
        operations = tuple(
            _operation_since(one, other, added["inputs"])
            for one, other in zip(stage.operations, before.operations)
        )
    elapsed = now.elapsed - then.elapsed
    return replace(
        stage,
        **added,
        queued=max(queued / added["tasks"], 0.0) if added["tasks"] else 0.0,
        ahead=max(ahead / elapsed, 0.0) if elapsed > 0 else 0.0,
        operations=operations,
    )


def _operation_since(
    operation: OperationStats, before: OperationStats, inputs: int
) -> OperationStats:
    """Return the times of an operation between two snapshots.

    Args:
        operation: the operation's times in the later snapshot.
        before: the operation's times in the earlier snapshot.
        inputs: number of positions or rows that entered the operation's stage (operations that run
            in one task) between the snapshots.
    """
    seconds = max(operation.seconds - before.seconds, 0.0)
    per_input = seconds / inputs if inputs else 0.0
    return replace(
        operation, seconds=seconds, per_input=per_input, timed=operation.timed - before.timed
    )


class StageNames(NamedTuple):
    """Names and facts about a stage (operations that run in one task).

    Attributes:
        first: index in the pipeline of the stage's first operation.
        operations: names of the stage's operations.
        reads: True if the stage's inputs are positions, whose records the stage reads.
        ends: True if the stage's rows are elements of the stream, or if the pipeline ends with a
            join of streams.
    """

    first: int
    operations: tuple[str, ...]
    reads: bool
    ends: bool
