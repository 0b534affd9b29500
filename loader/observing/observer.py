"""Adds up, in the user's process, what workers noted of their tasks, what became of them, and who waited for whom.

In: blocks as they are taken, and what happens to workers. Out: sums, and the last tasks one by one. Nothing is done with a note
until there are many or somebody asks: a task costs one `append`.
"""

from __future__ import annotations

import threading
from collections import deque
from time import perf_counter
from typing import Any

from .sums import StageSums
from .times import TaskEvent, TaskTimes, WorkerEvent

KEPT = 2000
"""Tasks that are kept one by one. Chosen: some seconds of many small ones, in less than a megabyte."""

KEPT_EVENTS = 200
"""Starts and ends of workers that are kept. Chosen."""


class Observer:
    """That of one iterator, from its start or a state on. Notes are made by the iterator's thread; any may ask."""

    def __init__(self) -> None:
        self._tasks: deque[TaskEvent] = deque(maxlen=KEPT)
        self._workers: deque[WorkerEvent] = deque(maxlen=KEPT_EVENTS)
        self.started = self.ended = 0
        self.slab_bytes = self.most_slab_bytes = 0
        self._stages: dict[int, StageSums] = {}
        self._noted: list[tuple[int, Any, TaskTimes, tuple[float, float, float]]] = []
        self._adding = threading.RLock()  # one that a signal's handler may take again

    def note(self, number: int, task: Any, block: Any) -> None:
        """The rows of a task were taken: block `number`."""
        if block.times is not None:
            self._noted.append((number, task, block.times, block.moments))
            if len(self._noted) >= KEPT:
                self._add_up()

    def worker_started(self, worker: int) -> None:
        """A worker is being made."""
        self.started += 1
        self._workers.append(WorkerEvent(perf_counter(), worker, "started"))

    def worker_ended(self, worker: int, how: str) -> None:
        """A worker is gone, though nobody had told it to end."""
        self.ended += 1
        self._workers.append(WorkerEvent(perf_counter(), worker, how))

    def slabs(self, change: int) -> None:
        """So many bytes more, or fewer, are shared with workers."""
        self.slab_bytes += change
        self.most_slab_bytes = max(self.most_slab_bytes, self.slab_bytes)

    def stages(self) -> dict[int, StageSums]:
        """What was added up, by the number of the stage."""
        self._add_up()
        return dict(self._stages)

    def last_tasks(self) -> tuple[TaskEvent, ...]:
        """The last tasks whose blocks were taken, in that order."""
        with self._adding:
            self._add_up()
            return tuple(self._tasks)

    def last_of_workers(self) -> tuple[WorkerEvent, ...]:
        """What happened to workers last."""
        return tuple(self._workers)

    def _add_up(self) -> None:
        with self._adding:
            count = len(self._noted)  # more may be added meanwhile
            noted = self._noted[:count]
            del self._noted[:count]
            for _, task, times, moments in noted:
                sums = self._stages.get(task.stage) or self._stages.setdefault(task.stage, StageSums())
                sums.add(times, *moments)
            self._tasks.extend(_event(*one) for one in noted[-KEPT:])


def _event(number: int, task: Any, times: TaskTimes, moments: tuple[float, float, float]) -> TaskEvent:
    if hasattr(task, "rows"):
        made_of = tuple(dict.fromkeys(rows.block for rows in task.rows))
        return TaskEvent(number, task.stage, 0, times.inputs, made_of, *moments, times)
    return TaskEvent(number, task.stage, task.start, task.stop, (), *moments, times)
