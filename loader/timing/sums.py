"""Sums over the tasks of a stage (operations that run in one task), and the work of workers.

In: the times of tasks, as columns of an array. Out: sums, and statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .snapshot import OperationStats, StageNames, StageStats, WorkerStats
from .times import OperationTimes, SlowestCall

Rows: TypeAlias = NDArray[Any]
"""Structured array with one row for each task, and named columns."""


@dataclass(slots=True)
class StageSums:
    """Sums over all tasks of a stage. Tasks that were not timed are represented by timed ones.

    Values are seconds, unless their comment says otherwise.

    A stage is a group of operations that run together in one task.
    """

    batches: bool = False  # the rows are made of several inputs, the last one maybe of fewer
    tasks: int = 0  # number
    inputs: int = 0  # number of positions or rows
    rows: int = 0  # number
    timed_inputs: int = 0  # number, of the tasks that were timed
    timed_rows: int = 0  # likewise
    stood_for: int = 0  # number, of those and of the tasks that they stand for, as if these were of the same length
    timed_nbytes: int = 0  # of the rows of these
    timed_read_bytes: int = 0  # of the records that they read
    busy: float = 0.0  # of workers
    reading: float = 0.0  # of these
    packing: float = 0.0  # of these
    under_way: float = 0.0  # in which records were being read, of all reads together
    queued: float = 0.0  # from the submission of a task to its begin
    waited: float = 0.0  # in which the user's process waited for a block
    ahead: float = 0.0  # in which a block was ready and not yet asked for
    looked_inputs: int = 0  # number, of those whose operations were timed one by one
    looked: float = 0.0  # for these
    looked_cpu: float = 0.0  # of these, at work
    operations: list[float] = field(default_factory=list)  # of these, in each operation; last: between them
    slowest: dict[int, SlowestCall] = field(default_factory=dict)  # call of an operation, by its place in the stage

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
        """Bytes of the rows of all tasks, estimated from the timed tasks: per input for batches, otherwise per row."""
        of_all, timed = (self.inputs, self.timed_inputs) if self.batches else (self.rows, self.timed_rows)
        return round(self.timed_nbytes * of_all / timed) if timed else 0

    @property
    def read_bytes(self) -> int:
        """Bytes of the records of all tasks, estimated from the timed tasks."""
        return round(self.timed_read_bytes * self.inputs / self.timed_inputs) if self.timed_inputs else 0

    def add_look(self, look: OperationTimes, tasks: int) -> None:
        """Add a task whose operations were timed one by one. It represents `tasks` tasks."""
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
        """Return the statistics of the stage, after `elapsed` seconds of the loop.

        A stage is a group of operations that run together in one task.
        """
        whole = self.inputs / self.stood_for if self.stood_for else 1.0  # nothing stands for the last tasks yet
        busy, reading, packing = whole * self.busy, whole * self.reading, whole * self.packing
        work = busy - reading - packing
        scale = work / self.looked if self.looked > 0 else 0.0
        operations = tuple(self._operation(place, names, scale) for place in range(len(names.operations)))
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
        return OperationStats(names.first + place, name, seconds, per_input, self.looked_inputs, *slowest)


def _seconds(tasks: Rows, each: NDArray[np.float64]) -> float:
    """Return the sum of seconds over all tasks that the timed ones represent. Negative values count as 0."""
    return float(np.maximum(each, 0.0) @ tasks["tasks"])


def worker_stats(tasks: Rows, *counts: int) -> WorkerStats:
    """Return the work of workers from the first of some tasks to the last.

    `counts` are the remaining fields of `WorkerStats`: `started`, `ended`, `slab_bytes`,
    `most_slab_bytes`.
    """
    last: dict[int, float] = {}
    busy = starved = hand_over = 0.0
    names = ["worker", "submitted", "began", "ended", "tasks"]
    for worker, submitted, began, ended, count in np.sort(tasks[names], order="began").tolist():
        free = last.get(worker, began)
        if count > 1:  # it did others meanwhile
            began = free
        busy += max(0.0, ended - max(began, free))
        starved += max(0.0, min(submitted, began) - free)
        hand_over += max(0.0, began - max(free, submitted))
        last[worker] = max(free, ended)
    whole = busy + starved + hand_over or 1.0
    shares = busy / whole, starved / whole, hand_over / whole
    return WorkerStats(len(last), *shares, *counts)
