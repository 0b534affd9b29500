"""Sums over the tasks of a stage (operations that run in one task).

In: the times of tasks, as columns of an array. Out: sums, and statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .snapshot import OperationStats, StageNames, StageStats
from .times import OperationTimes, SlowestCall

Rows: TypeAlias = NDArray[Any]
"""Structured array with one row for each task, and named columns."""


@dataclass(slots=True)
class StageSums:
    """Sums over all tasks of a stage (operations that run together in one task).

    Only some tasks are timed. The times of a timed task are also used for the untimed tasks between
    the previous timed task and this task.

    Attributes:
        batches: True if each row is made of several inputs (the last row perhaps of fewer).
        tasks: number of tasks.
        inputs: number of positions or rows that the tasks got.
        rows: number of rows that the tasks made.
        timed_inputs: number of inputs of the timed tasks.
        timed_rows: number of rows of the timed tasks.
        stood_for: number of inputs of all tasks for which times are used: the timed tasks, and the
            untimed tasks before each of them, which are assumed to have the same number of inputs.
        timed_nbytes: bytes of the rows of the timed tasks.
        timed_read_bytes: bytes of the records that the timed tasks read.
        busy: seconds of workers in tasks.
        reading: part of `busy` in which records were read, or workers waited for records.
        packing: part of `busy` in which rows were prepared for sending.
        under_way: seconds of all reads of records together.
        queued: seconds from the submission of tasks to their beginning.
        waited: seconds in which the user's process waited for blocks (the rows of one task each).
        ahead: seconds in which blocks were ready and not yet requested.
        looked_inputs: number of inputs of the tasks whose operations were timed one by one.
        looked: seconds of the operations in these tasks.
        looked_cpu: part of `looked` in which the thread was at work, not waiting.
        operations: part of `looked` spent in each operation; the last item is the time between
            operations.
        slowest: slowest call of each operation, by the operation's index in the stage. In each
            timed task, only the slowest call of all operations is noted.
    """

    batches: bool = False
    tasks: int = 0
    inputs: int = 0
    rows: int = 0
    timed_inputs: int = 0
    timed_rows: int = 0
    stood_for: int = 0
    timed_nbytes: int = 0
    timed_read_bytes: int = 0
    busy: float = 0.0
    reading: float = 0.0
    packing: float = 0.0
    under_way: float = 0.0
    queued: float = 0.0
    waited: float = 0.0
    ahead: float = 0.0
    looked_inputs: int = 0
    looked: float = 0.0
    looked_cpu: float = 0.0
    operations: list[float] = field(default_factory=list)
    slowest: dict[int, SlowestCall] = field(default_factory=dict)

    def count(self, inputs: int, rows: int) -> None:
        """Count a task of the stage that got `inputs` positions or rows, and made `rows` rows."""
        self.tasks += 1
        self.inputs += inputs
        self.rows += rows

    def add(self, tasks: Rows) -> None:
        self.timed_inputs += int(tasks["inputs"].sum())
        self.stood_for += int(tasks["inputs"] @ tasks["tasks"])
        self.timed_rows += int(tasks["rows"].sum())
        self.timed_nbytes += int(tasks["nbytes"].sum())
        self.timed_read_bytes += int(tasks["read_bytes"].sum())
        self.busy += _seconds(tasks, tasks["ended"] - tasks["began"])
        self.reading += _seconds(tasks, tasks["reading"])
        self.packing += _seconds(tasks, tasks["packing"])
        self.under_way += _seconds(tasks, tasks["under_way"])
        self.waited += _seconds(tasks, tasks["taken"] - tasks["asked"])
        self.queued += _seconds(tasks, tasks["began"] - tasks["submitted"])
        self.ahead += _seconds(tasks, tasks["asked"] - tasks["ended"])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows of all tasks, estimated from the timed tasks.

        If the rows are batches, the estimate is the mean bytes for an input, times the number of
        inputs. Otherwise it is the mean bytes of a row, times the number of rows.
        """
        of_all, timed = (
            (self.inputs, self.timed_inputs) if self.batches else (self.rows, self.timed_rows)
        )
        return round(self.timed_nbytes * of_all / timed) if timed else 0

    @property
    def read_bytes(self) -> int:
        """Bytes of the records that all tasks of the stage read, estimated from the timed tasks."""
        return (
            round(self.timed_read_bytes * self.inputs / self.timed_inputs)
            if self.timed_inputs
            else 0
        )

    def add_look(self, look: OperationTimes, tasks: int) -> None:
        """Add the measured times of the operations in one task to the sums of the stage.

        Args:
            look: times of the operations in this task.
            tasks: number of tasks for which these times are used: this task, and the untimed tasks
                immediately before it.
        """
        self.busy -= look.extra * tasks
        self.looked_inputs += look.inputs
        self.looked += look.seconds
        self.looked_cpu += look.cpu_seconds
        before = self.operations or [0.0] * len(look.operations)
        self.operations = [one + other for one, other in zip(before, look.operations)]
        if (worst := look.slowest) is not None:
            known = self.slowest.get(worst.operation)
            if known is None or known.seconds < worst.seconds:
                self.slowest[worst.operation] = worst

    def stats(self, number: int, names: StageNames, elapsed: float) -> StageStats:
        """Return the statistics of the stage (operations that run in one task).

        Args:
            number: index of the stage.
            names: names of the stage's operations, and facts about the stage.
            elapsed: seconds of the loop so far.
        """
        # nothing stands for the last tasks yet
        whole = self.inputs / self.stood_for if self.stood_for else 1.0
        busy, reading, packing = whole * self.busy, whole * self.reading, whole * self.packing
        work = busy - reading - packing
        scale = work / self.looked if self.looked > 0 else 0.0
        operations = tuple(
            self._operation(place, names, scale) for place in range(len(names.operations))
        )
        return StageStats(
            number=number,
            tasks=self.tasks,
            inputs=self.inputs,
            rows=self.rows,
            nbytes=self.nbytes,
            reads=names.reads,
            ends=names.ends,
            busy=busy,
            reading=reading,
            packing=packing,
            under_way=whole * self.under_way,
            between=max(0.0, work - sum(operation.seconds for operation in operations)),
            cpu_share=min(1.0, self.looked_cpu / self.looked) if self.looked > 0 else 1.0,
            waited=whole * self.waited,
            queued=whole * self.queued / self.tasks,
            ahead=whole * self.ahead / elapsed if elapsed > 0 else 0.0,
            operations=operations,
        )

    def _operation(self, place: int, names: StageNames, scale: float) -> OperationStats:
        seconds = self.operations[place] * scale if self.operations else 0.0
        per_input = seconds / self.inputs if self.inputs else 0.0
        worst = self.slowest.get(place)
        slowest = (worst.seconds, worst.tag) if worst else (0.0, -1)
        name = names.operations[place]
        return OperationStats(
            names.first + place, name, seconds, per_input, self.looked_inputs, *slowest
        )


def _seconds(tasks: Rows, each: NDArray[np.float64]) -> float:
    """Return the sum of seconds over all tasks, timed and untimed.

    For an untimed task, the seconds of the next timed task are used.

    Args:
        tasks: the timed tasks. The field `tasks` of a timed task is the number of tasks for which
            its times are used: the task itself, and the untimed tasks before it.
        each: the seconds of each timed task. Negative values count as 0.
    """
    return float(np.maximum(each, 0.0) @ tasks["tasks"])
