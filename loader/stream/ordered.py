"""Puts results back into order, and keeps the executor busy with what comes next.

In: tasks, pulled one by one. Out: (task, block) in the order of the tasks, whatever order they were finished in.

Everything that flows here is pulled: `next(wait)` gives an item, `Ended`, or None when `wait` is False and an item would
take waiting or working. So a stage can fill its executor from the stage before without ever being held up by it.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ..executors import Executor, Handle
from ..work.tasks import Block, Task
from .pull import Ended, Pull


class Stage(Protocol):
    """What has tasks run and gives their blocks in order."""

    def fill(self) -> None:
        """Have work begin, without waiting."""

    def next(self, wait: bool) -> tuple[Task, Block] | Ended | None:
        """The next task and its block."""


def stage(tasks: Pull[Task], executor: Executor, segment: int) -> Stage:
    """The stage for an executor: one that works only when asked needs no queue."""
    return Direct(tasks, executor) if executor.window(segment) == 1 else Ordered(tasks, executor, segment)


class Direct:
    """A stage that has each task run when its block is asked for."""

    def __init__(self, tasks: Pull[Task], executor: Executor) -> None:
        self._tasks = tasks
        self._submit = executor.submit
        self._ended: Ended | None = None

    def fill(self) -> None:
        """Nothing runs ahead."""

    def next(self, wait: bool) -> tuple[Task, Block] | Ended | None:
        """The next task and its block."""
        if self._ended is not None or not wait:
            return self._ended
        task = self._tasks.next(True)
        if isinstance(task, Ended) or task is None:
            return task
        block = self._submit(task).result()
        if block.failure is not None:
            self._ended = Ended(block.failure)
        return task, block


class Ordered:
    """A stage that has tasks run. At most `executor.window(segment)` of them are submitted at a time."""

    def __init__(self, tasks: Pull[Task], executor: Executor, segment: int) -> None:
        self._tasks = tasks
        self._segment = segment
        self._executor = executor
        self._submitted: deque[tuple[Task, Handle]] = deque()
        self._ended: Ended | None = None

    def fill(self, wait: bool = False) -> None:
        """Submit tasks while there are any and the window has room; with `wait`, at least one."""
        room = self._executor.window(self._segment) - len(self._submitted)
        while room > 0 and self._ended is None:
            task = self._tasks.next(wait and not self._submitted)
            if task is None:
                return
            if isinstance(task, Ended):
                self._ended = task
                return
            self._submitted.append((task, self._executor.submit(task)))
            room -= 1

    def next(self, wait: bool) -> tuple[Task, Block] | Ended | None:
        """The result of the oldest task."""
        self.fill(wait)
        while self._submitted:
            task, handle = self._submitted[0]
            if not (wait or handle.ready()):
                return None
            self._submitted.popleft()
            block = handle.result()
            if block.parts:
                parts = [(part, self._executor.submit(part)) for part in block.parts]
                self._submitted.extendleft(reversed(parts))
                continue
            if block.failure is not None:
                self._submitted.clear()
                self._ended = Ended(block.failure)
            return task, block
        return self._ended
