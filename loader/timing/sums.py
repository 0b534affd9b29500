"""The sums over the tasks of a stage, and what the workers did between them.

In: the times of tasks. Out: sums; and seconds in which workers had work, waited for the user, or for messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .ledger import Rows
from .times import Look, Slowest


@dataclass(slots=True)
class StageSums:
    """Over all tasks of a stage, those too that were not timed: others stand for them. Seconds, unless it is said."""

    batches: bool = False  # the rows are made of several inputs, the last one maybe of fewer
    tasks: int = 0  # number
    inputs: int = 0  # number of positions or rows
    rows: int = 0  # number
    timed_inputs: int = 0  # number, of the tasks that were timed
    timed_rows: int = 0  # likewise
    stood_for: int = 0  # number, of those and of the tasks that they stand for, as if these were of the same length
    timed_nbytes: int = 0  # of the rows of these
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
    slowest: dict[int, Slowest] = field(default_factory=dict)  # call of an operation, by its place in the stage

    def add(self, tasks: Rows) -> None:
        """Add tasks that were timed."""
        self.timed_inputs += int(tasks["inputs"].sum())
        self.stood_for += int(tasks["inputs"] @ tasks["tasks"])
        self.timed_rows += int(tasks["rows"].sum())
        self.timed_nbytes += int(tasks["nbytes"].sum())
        self.busy += _seconds(tasks, tasks["ended"] - tasks["began"])
        self.reading += _seconds(tasks, tasks["reading"])
        self.packing += _seconds(tasks, tasks["packing"])
        self.under_way += _seconds(tasks, tasks["under_way"])
        self.waited += _seconds(tasks, tasks["taken"] - tasks["asked"])
        self.queued += _seconds(tasks, tasks["began"] - tasks["submitted"])
        self.ahead += _seconds(tasks, tasks["asked"] - tasks["ended"])

    @property
    def nbytes(self) -> int:
        """Of the rows of all tasks: as many for each input of a batch, or else for each row, as those that were timed have."""
        of_all, timed = (self.inputs, self.timed_inputs) if self.batches else (self.rows, self.timed_rows)
        return round(self.timed_nbytes * of_all / timed) if timed else 0

    def add_look(self, look: Look, tasks: int) -> None:
        """Add what was found in a task that was timed operation by operation, and stands for so many."""
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


def _seconds(tasks: Rows, each: NDArray[np.float64]) -> float:
    """The sum over all tasks for which these stand, of seconds that are not below 0."""
    return float(np.maximum(each, 0.0) @ tasks["tasks"])


class Between(NamedTuple):
    """What workers did, in seconds of all of them together.

    Attributes:
        workers: how many did any task.
        busy: they did tasks.
        starved: they had none: the user's process had all that it wanted ahead, or could not ask for more.
        hand_over: they had one, which was on its way to them.
    """

    workers: int
    busy: float
    starved: float
    hand_over: float


def between(tasks: Rows) -> Between:
    """What workers did from the first of some tasks to the last."""
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
    return Between(len(last), busy, starved, hand_over)
