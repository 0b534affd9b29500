"""The executor without workers: a task is run when its result is asked for, on the consumer's own thread.

In: tasks. Out: blocks. Only reading runs ahead, on threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.profiles import profiled
from ..work.stopwatch import bytes_of_rows, stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, RecordsAhead, Task
from ..work.worker import Worker
from .pace import Pace, inline_limits_of, tasks_ahead
from .protocol import Executor
from .reads import ReadAhead


class InlineExecutor(Executor):
    """Runs tasks on demand; reads the records of the next spans meanwhile."""

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._pipeline = pipeline
        self._worker = Worker(pipeline, stopwatch=stopwatches(0, options.observe), seeds_globals=options.seed_globals)
        self._reading = options.reading
        self._ahead = ReadAhead(pipeline, options.reading)
        self._reads_ahead = self._ahead.helps
        limits = inline_limits_of(pipeline)
        self._pace = Pace(limits)
        self._grows = [limits[stage.number].least < limits[stage.number].task for stage in pipeline.stages]

    def inputs(self, stage: int) -> int:
        """A batch; of what makes none, as many as take some time."""
        return self._pace.inputs(stage)

    def window(self, stage: int) -> int:
        """As many tasks as are read ahead, and the one that is asked for."""
        return 1 + tasks_ahead(self._pipeline, self._reading, stage, self._pace.inputs(stage))

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> InlineHandle:
        """Take a task; begin to read its records if that helps."""
        return InlineHandle(self._run, task, blocks, self._ahead.begin(task) if self._reads_ahead else None)

    def _run(self, task: Task, blocks: Blocks, ahead: RecordsAhead | None) -> Block:
        began = perf_counter()
        if "jax.profiler" in sys.modules:
            with profiled("task"):
                block = self._worker.run(task, blocks, ahead)
        else:
            block = self._worker.run(task, blocks, ahead)
        stage, seconds = task.stage, perf_counter() - began
        if self._grows[stage] and not self._pace.is_settled(stage, seconds, block.count):
            size = bytes_of_rows(block.elements, self._pipeline.stages[stage].groups) if block.count else 0
            self._pace.note(task, seconds, block.waited, block.count, size)
        return block

    def close(self) -> None:
        """Stop the reading threads, and what sources have others do."""
        self._ahead.close()
        self._worker.close()


@dataclass(slots=True)
class InlineHandle:
    """A task that runs when its result is asked for."""

    run: Callable[[Task, Blocks, RecordsAhead | None], Block]
    task: Task
    blocks: Blocks
    ahead: RecordsAhead | None

    def ready(self) -> bool:
        """Never: the result takes work."""
        return False

    def result(self) -> Block:
        """Run the task."""
        return self.run(self.task, self.blocks, self.ahead)
