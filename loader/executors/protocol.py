"""What an executor is: it takes tasks and gives a handle for each.

In: tasks, in the order in which their results will be wanted. Out: blocks.
"""

from __future__ import annotations

from typing import Protocol

from ..work.tasks import NO_BLOCKS, Block, Blocks, Task


class Handle(Protocol):
    """The result of one task, now or later."""

    def ready(self) -> bool:
        """Whether `result` would return without waiting or working."""

    def result(self) -> Block:
        """The block. Called once."""


class Executor(Protocol):
    """Runs tasks. All methods, and those of its handles, are called by one thread at a time."""

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run in other processes, which are those of the process that made this."""

    @property
    def units(self) -> int:
        """How many of the plan's spans the next task should be made of. The stream does not depend on it."""

    def window(self, stage: int) -> int:
        """Number of tasks of a stage that it is worth having submitted at a time."""

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Take a task, and the blocks whose rows it names; does not wait."""

    def close(self) -> None:
        """Stop; drop what is not finished. May be called twice."""
