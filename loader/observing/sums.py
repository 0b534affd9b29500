"""The sums over the tasks of a stage, and what the workers did between them.

In: the times of tasks. Out: sums; and seconds in which workers had work, waited for the user, or for messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .times import Look, Slowest, TaskTimes


@dataclass(slots=True)
class StageSums:
    """Over all tasks of a stage. Seconds, unless it is said."""

    tasks: int = 0  # number
    inputs: int = 0  # number of positions or rows
    rows: int = 0  # number
    nbytes: int = 0  # of the rows
    busy: float = 0.0  # of workers
    reading: float = 0.0  # of these
    packing: float = 0.0  # of these
    queued: float = 0.0  # from the submission of a task to its begin
    waited: float = 0.0  # in which the user's process waited for a block
    ahead: float = 0.0  # in which a block was ready and not yet asked for
    looked_inputs: int = 0  # number, of those whose operations were timed one by one
    looked: float = 0.0  # for these
    looked_cpu: float = 0.0  # of these, at work
    operations: list[float] = field(default_factory=list)  # of these, in each operation; last: between them
    slowest: dict[int, Slowest] = field(default_factory=dict)  # call of an operation, by its place in the stage

    def add(self, times: TaskTimes, submitted: float, asked: float, taken: float) -> None:
        """Add a task, which was submitted, asked for and taken at some times."""
        _, began, ended, reading, packing, inputs, rows, nbytes, look = times
        self.tasks += 1
        self.inputs += inputs
        self.rows += rows
        self.nbytes += nbytes
        self.busy += ended - began
        self.reading += reading
        self.packing += packing
        self.waited += taken - asked
        if began > submitted:
            self.queued += began - submitted
        if asked > ended:
            self.ahead += asked - ended
        if look is not None:
            self._add_look(look)

    def _add_look(self, look: Look) -> None:
        self.looked_inputs += look.inputs
        self.looked += look.seconds
        self.looked_cpu += look.cpu_seconds
        before = self.operations or [0.0] * len(look.operations)
        self.operations = [one + other for one, other in zip(before, look.operations)]
        if (worst := look.slowest) is not None:
            known = self.slowest.get(worst.operation)
            if known is None or known.seconds < worst.seconds:
                self.slowest[worst.operation] = worst


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


def between(tasks: Iterable[tuple[float, TaskTimes]]) -> Between:
    """What workers did from the first of some tasks to the last; each comes with the time of its submission.

    >>> def task(submitted, began, ended):
    ...     return submitted, TaskTimes(0, began, ended, 0.0, 0.0, 1, 1, 8)
    >>> between([task(0.0, 1.0, 2.0), task(4.0, 4.5, 6.0)])
    Between(workers=1, busy=2.5, starved=2.0, hand_over=0.5)
    """
    last: dict[int, float] = {}
    busy = starved = hand_over = 0.0
    for submitted, times in sorted(tasks, key=lambda task: task[1].began):
        free = last.get(times.worker, times.began)
        busy += times.ended - max(times.began, free)
        starved += max(0.0, min(submitted, times.began) - free)
        hand_over += max(0.0, times.began - max(free, submitted))
        last[times.worker] = max(free, times.ended)
    return Between(len(last), busy, starved, hand_over)
