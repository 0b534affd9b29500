"""The executor without workers: a task is run when its result is asked for, on the consumer's own thread.

In: tasks. Out: blocks. Only reading runs ahead, on threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..observing.profiles import profiled
from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..work.stopwatch import stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, Task
from ..work.worker import Worker
from .protocol import Executor
from .read_ahead import ReadAhead, Reading


class InlineExecutor(Executor):
    """Runs tasks on demand; reads the records of the next spans meanwhile."""

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._worker = Worker(pipeline, stopwatch=stopwatches(0, options.observe))
        self._ahead = ReadAhead(pipeline, options.reading)

    def window(self, stage: int) -> int:
        """As many spans as are read ahead, and the one that is asked for."""
        return 1 + self._ahead.spans

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> InlineHandle:
        """Take a task; begin to read its records if that helps."""
        return InlineHandle(self._worker, task, blocks, self._ahead.begin(task))

    def close(self) -> None:
        """Stop the reading threads, and what sources have others do."""
        self._ahead.close()
        self._worker.close()


@dataclass(slots=True)
class InlineHandle:
    """A task that runs when its result is asked for."""

    worker: Worker
    task: Task
    blocks: Blocks
    reading: Reading

    def ready(self) -> bool:
        """Never: the result takes work."""
        return False

    def result(self) -> Block:
        """Run the task."""
        with profiled("task"):
            return self.worker.run(self.task, self.blocks, self.reading.records)
