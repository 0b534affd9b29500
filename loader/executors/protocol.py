"""The interface of executors: they take tasks and return a handle (a result to come) for each.

In: tasks, in the order in which their results will be needed. Out: blocks, i.e. the rows of each
task.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Protocol

from ..timing.observer import Observer
from ..work.tasks import NO_BLOCKS, Block, Blocks, Task


class Handle(Protocol):
    """Interface of the result of one task, which may not have run yet.

    The methods are called on the thread that uses the executor.
    """

    def ready(self) -> bool:
        """Return True if `result` would return at once: it would neither wait nor run the task.

        Called by `stream.ordered` any number of times before `result`, if the caller does not want
        to wait.
        """

    def result(self) -> Block:
        """Return the result (block) of the task: wait until it has arrived, or run the task.

        Called by `stream.ordered` at most once, when all earlier tasks of the stage (operations
        that run in one task) have returned their blocks.
        """


class Executor(Protocol):
    """Interface of objects that run tasks.

    Only one thread at a time calls the methods, and those of the handles (results to come), and
    never during another call. It is the thread that uses the iterator: the user's thread, or that
    of a feeder, which makes batches ahead of the user. The next call may come from another thread.
    """

    elsewhere: ClassVar[bool] = False
    """True if tasks may run in other processes, which belong to the one that made this executor.

    Read by `stream.run_handle` once, in a forked child.
    """

    def inputs(self, stage: int) -> int:
        """Return the number of inputs (positions, or rows of earlier tasks) of a stage's next task.

        They are enough for one or several outputs. A stage is a group of operations that run in one
        task. The elements of the stream do not depend on this number. Called by modules of `stream`
        before they make a task.
        """

    def most_rows(self) -> int:
        """Return the largest number of rows of joined streams to pass on together.

        Called by `stream.join` each time that it collects rows of joined streams, to pass them on
        to a task or to the user. By default, there is no limit.
        """
        return sys.maxsize

    def window(self, stage: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        The result is 1 if nothing is done in advance. A stage is a group of operations that run in
        one task. Called by modules of `stream` when a run begins, and then for each block (the rows
        of one task) that they need.
        """

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Submit a task, and return its handle (a result to come), without waiting.

        Called by `stream.ordered` once for each task, in the order of the elements. An executor may
        divide a task. The task's result is then a block that has smaller tasks in place of rows,
        and each smaller task is submitted in the same way.

        Args:
            task: the task.
            blocks: the results of earlier tasks to whose rows the task refers.
        """

    def drop_tasks(self, observer: Observer) -> bool:
        """Drop all tasks, because the iterator is set to another position.

        Called by `run_handle`. Handles of dropped tasks are not used any more.

        Args:
            observer: gets the statistics of later tasks, if the result is True.

        Returns:
            True if the executor can be used for new tasks. False if it cannot, for example because
            workers would take too long to finish their current tasks. The caller then closes this
            executor and makes a new one.
        """
        return False

    def close(self) -> None:
        """Stop the work, and drop unfinished tasks. No other method is called afterwards.

        `run_handle` calls it when a run ends: at the end of the stream, at an error, when
        `set_state` moves the iterator, or when the iterator is closed. It calls `close` once more
        if the first call was interrupted. An executor that is deleted without `close` leaves
        nothing behind either.
        """


class Tuning:
    """Keeps the search for the best number of workers from one epoch of a loader to the next.

    Only one executor at a time can use the search. An executor that begins while another one uses
    the search begins a new search.
    """

    def __init__(self) -> None:
        self._found: Any = None

    def take(self) -> Any:
        """Return the progress of the search for the best number of workers, and remove it.

        The result is a `SettingSearch`. It is None if no progress was stored yet, or if another
        executor has taken it and has not given it back.
        """
        found, self._found = self._found, None
        return found

    def give_back(self, found: Any) -> None:
        """Store the progress of the search for the best number of workers, for the next epoch.

        Args:
            found: the progress, a `SettingSearch`.
        """
        self._found = found

    def __reduce__(self) -> tuple[type[Tuning], tuple[()]]:
        return type(self), ()


def window_of(workers: int, buffer_size: int, leaves: int) -> int:
    """Return how many tasks of a stage may be submitted before the first one's result is taken.

    A stage is a group of operations that run in one task.

    Args:
        workers: number of workers.
        buffer_size: number of finished tasks that are kept ready for each worker.
        leaves: number of sources. Each source has a stage that reads it, and these stages share the
            tasks equally.
    """
    window = workers * (1 + buffer_size)
    return window if leaves == 1 else max(2, -(-window // leaves))
