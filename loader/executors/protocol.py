"""The protocol of executors: one takes tasks and gives a handle for each.

In: tasks, in the order in which their results will be wanted. Out: blocks.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Protocol

from ..timing.observer import Observer
from ..work.tasks import NO_BLOCKS, Block, Blocks, Task


class Handle(Protocol):
    """The result of one task, now or later. Called by the thread that calls the executor."""

    def ready(self) -> bool:
        """True if `result` would return without waiting or working.

        Called by `stream.ordered`, any number of times before `result`, when somebody asks who does not want to wait.
        """

    def result(self) -> Block:
        """The block; waits or works for it.

        Called by `stream.ordered`, at most once: when all earlier tasks of the stage have given their blocks.
        """


class Executor(Protocol):
    """Runs tasks.

    All methods, and those of its handles, are called by one thread at a time, never while another call is at work: that of
    whoever uses the iterator, the user or a feeder. It need not be the same thread each time.
    """

    elsewhere: ClassVar[bool] = False
    """Whether tasks run in other processes, which are those of the process that made this.

    Asked by `stream.run_handle` in a forked child, once.
    """

    def inputs(self, stage: int) -> int:
        """Positions or rows that the next task of a stage should have: whole units. The stream does not depend on it.

        Called by `stream.ordered` and `regroup`, once for each task, before it is submitted.
        """

    def most_rows(self) -> int:
        """Rows that should be put together at most, where any number is right.

        Called by `stream.join`, once for each time that they are. Here: any number.
        """
        return sys.maxsize

    def window(self, stage: int) -> int:
        """Number of tasks of a stage that it is worth having submitted at a time. 1: nothing runs ahead.

        Called by `stream.ordered`, once when a run begins and then once for each block that it is asked for.
        """

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Take a task, and the blocks whose rows it names; does not wait.

        Called by `stream.ordered`, once for each task, in the order of the stage's elements; and once for each part of a
        task whose block says that it was divided.
        """

    def drop_tasks(self, observer: Observer) -> bool:
        """Drop all tasks, for those of another place, counted by that observer. False: `close` follows, as it is quicker.

        Called by `run_handle`, when the iterator goes elsewhere in its pipeline. No handle is asked any more.
        """
        return False

    def close(self) -> None:
        """Stop; drop what is not finished. Nothing else is called after it.

        Called by `run_handle` when a run ends: at the end of the stream, at an error, when the iterator goes elsewhere or
        is closed; again if that was interrupted. An executor that is dropped without it leaves nothing either.
        """


class Tuning:
    """Findings of one loader's executors, with `worker_count="auto"`. One of them has it at a time; others begin anew."""

    def __init__(self) -> None:
        self._found: Any = None

    def take(self) -> Any:
        """The findings; None: there are none, or another executor has them."""
        found, self._found = self._found, None
        return found

    def give_back(self, found: Any) -> None:
        """For the next epoch."""
        self._found = found

    def __reduce__(self) -> tuple[type[Tuning], tuple[()]]:
        return type(self), ()


def window_of(workers: int, buffer_size: int, leaves: int) -> int:
    """Tasks of a stage to have submitted at a time, where those of several leaves keep the same workers busy."""
    window = workers * (1 + buffer_size)
    return window if leaves == 1 else max(2, -(-window // leaves))
