"""Statistics of workers: shares of their time, counts, and memory.

In: the times of tasks, as columns of an array. Out: `WorkerStats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WorkerStats:
    """The work of workers, over the last 2,000 tasks that were timed.

    Attributes:
        count: number of workers that did any of these tasks.
        busy: share of the workers' time in which they did tasks.
        starved: share of the workers' time in which they had no task, because your process already
            had as many results in advance as it wanted.
        hand_over: share of the workers' time in which a task was on its way to them.
        started: worker processes started since the loop's start or the last `set_state`.
        ended: worker processes that ended by themselves or were killed since the loop's start or
            the last `set_state`.
        slab_bytes: bytes of memory that workers share with your process now.
        most_slab_bytes: largest value of `slab_bytes` so far.
        memory: the largest memory of any worker, in bytes, up to its last task that was timed. This
            is resident memory, including all memory that the worker shares with other processes.
            Without worker processes, it is the memory of your process. 0 if the system does not
            report it.
    """

    count: int
    busy: float
    starved: float
    hand_over: float
    started: int
    ended: int
    slab_bytes: int
    most_slab_bytes: int
    memory: int = 0


def worker_stats(
    tasks: NDArray[Any], started: int, ended_early: int, slab_bytes: int, most_slab_bytes: int
) -> WorkerStats:
    """Return statistics of the workers that did the given tasks.

    Shares of time refer to the time from the first task of each worker to the worker's last task.

    Args:
        tasks: the tasks, as a structured array with named columns.
        started: number of worker processes that were started.
        ended_early: number of worker processes that ended by themselves or were killed.
        slab_bytes: bytes of memory that workers share with the user's process.
        most_slab_bytes: largest value of `slab_bytes` so far.
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
    memory = int(tasks["memory"].max(initial=0))
    return WorkerStats(
        len(last), *shares, started, ended_early, slab_bytes, most_slab_bytes, memory
    )
