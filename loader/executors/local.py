"""The executors inside the user's process: one works in the calling thread, one on worker threads.

In: tasks. Out: blocks (results). Other threads read the records in advance if that is faster.
Worker threads are useful for operations that release the GIL, and for Python without a GIL.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.profiles import profiled
from ..work.sequential import run_throughs_of
from ..work.stopwatch import bytes_of_rows, stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, RecordsAhead, SpanTask, Task
from ..work.units import ColumnUnits, InlineUnits, has_units
from ..work.worker import Worker
from .hang_watch import HangWatch, log_hang
from .pace import Pace, inline_limits_of, limits_of, more_or_fewer, tasks_ahead
from .protocol import Executor, Handle, window_of
from .reading.read_ahead import ReadAhead
from .thread_pool import Call, Pool

# Chosen: with so many batches, the task itself costs little in comparison.
MOST_UNITS = 64
"""Largest number of batches in a task that makes them one by one."""


class InlineExecutor(Executor):
    """Runs each task in the calling thread, when the caller asks for its result.

    Args:
        pipeline: pipeline of the run.
        options: options of the loader. Options about workers have no effect; options about reading,
            statistics, long tasks and random generators are used.
    """

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._pipeline = pipeline
        self._worker = Worker(
            pipeline, stopwatch=stopwatches(0, options.observe), seeds_globals=options.seed_globals
        )
        self._reading = options.reading
        self._ahead = ReadAhead(pipeline, options.reading)
        self._hang_watch = HangWatch(options.hang_seconds, self._ahead, log_hang)
        self._hang_watch.add(self._worker)
        self._reads_ahead = self._ahead.helps
        limits = inline_limits_of(pipeline)
        self._pace = Pace(limits)
        self._grows = [
            limits[stage.number].least < limits[stage.number].task for stage in pipeline.stages
        ]
        # batches of the next task; 0: `_pace` tells how long it is
        self._units = 1 if has_units(pipeline) else 0
        self._windows: dict[tuple[int, int], int] = {}  # by stage and positions of a task

    def inputs(self, stage: int) -> int:
        """Return the number of inputs (positions, or rows of earlier tasks) of a stage's next task.

        A stage is a group of operations that run in one task. A task of a stage that makes batches
        has the inputs of one batch; of several batches if a batch is made in a short time. Tasks of
        a stage that makes single rows grow step by step, up to a limit, as long as a task takes
        less than 30 ms.
        """
        if not self._units:
            return self._pace.inputs(stage)
        unit = self._pipeline.stages[stage].unit
        return unit * self._units if self._ahead.reads_in_place(0, unit) else unit

    def window(self, stage: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        They are the task that runs next, and the tasks whose records are read in advance. A stage
        is a group of operations that run in one task.
        """
        inputs = self.inputs(stage)
        known = self._windows.get((stage, inputs))
        if known is None:
            known = self._windows[stage, inputs] = 1 + tasks_ahead(
                self._pipeline, self._reading, stage, inputs
            )
        return known

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Return the handle (result to come) of a task, which runs when `result` is called.

        If the source is read in advance, the reading of the task's records begins now.

        Args:
            task: the task.
            blocks: the results of earlier tasks to whose rows the task refers.
        """
        if self._units and isinstance(task, SpanTask):
            unit = self._pipeline.stages[task.stage].unit
            if task.stop - task.start > unit:
                return InlineUnits(self, task, unit)
        return InlineHandle(self, task, blocks, self.begin(task))

    def begin(self, task: Task) -> RecordsAhead | None:
        return self._ahead.begin(task) if self._reads_ahead else None

    def reads_in_place(self, task: SpanTask) -> bool:
        return self._ahead.reads_in_place(task.leaf, task.stop - task.start)

    def column_units(self, task: SpanTask) -> ColumnUnits | None:
        found = self._worker.gathering(task)
        return (
            None
            if found is None
            else ColumnUnits(self._worker, found[0], task, found[1], self.note_units)
        )

    def run_unit(self, task: SpanTask, ahead: RecordsAhead | None, made: list[Any]) -> Block | None:
        return self._worker.run_unit(task, ahead, made)

    def note_units(self, units: int, seconds: float) -> None:
        """Choose how many batches the next task makes, so that the task takes about 30 ms.

        Args:
            units: number of batches that were made last.
            seconds: seconds that these batches took together.
        """
        if self._units:
            self._units = more_or_fewer(units, seconds, MOST_UNITS)

    def run(self, task: Task, blocks: Blocks, ahead: RecordsAhead | None) -> Block:
        began = perf_counter()
        if "jax.profiler" in sys.modules:
            with profiled("task"):
                block = self._worker.run(task, blocks, ahead)
        else:
            block = self._worker.run(task, blocks, ahead)
        stage, seconds = task.stage, perf_counter() - began
        if self._units:
            self.note_units(1, seconds)
        elif self._grows[stage] and not self._pace.is_settled(stage, seconds, block.count):
            size = (
                bytes_of_rows(block.elements, self._pipeline.stages[stage].groups)
                if block.count
                else 0
            )
            self._pace.note(task, seconds, block.waited, block.count, size)
        return block

    def close(self) -> None:
        """Stop the reader threads, and threads or processes that a source has started itself."""
        self._hang_watch.close()
        self._ahead.close()
        self._worker.close()


@dataclass(slots=True)
class InlineHandle:
    """Handle (result to come) of a task that runs when the caller asks for the result.

    Attributes:
        executor: executor that runs the task.
        task: the task.
        blocks: blocks (results of earlier tasks) to whose rows the task refers.
        ahead: function that waits for the task's records; None if they are not read in advance.
    """

    executor: InlineExecutor
    task: Task
    blocks: Blocks
    ahead: RecordsAhead | None

    def ready(self) -> bool:
        return False

    def result(self) -> Block:
        return self.executor.run(self.task, self.blocks, self.ahead)


class _OfThread(threading.local):
    """Thread-local variable: the worker of the current thread; None before its first task."""

    worker: Worker | None = None


class ThreadExecutor(Executor):
    """Runs tasks on a pool of threads.

    Each thread has its own `Worker`. All workers share the iterators of sources without random
    access, so that such a source is read only once.

    Args:
        pipeline: pipeline of the run.
        options: options of workers and reading.
        begins_with: number of threads at the beginning; None: the number of workers in the options.
    """

    def __init__(
        self, pipeline: Pipeline, options: ExecutionOptions, begins_with: int | None = None
    ) -> None:
        workers = begins_with or options.workers
        self._window = window_of(workers, options.worker_buffer_size, len(pipeline.leaves))
        self._reading = options.reading
        self._pace = Pace(limits_of(pipeline, several=False))
        self._pipeline = pipeline
        self._observes = options.observe
        self._own = _OfThread()
        self._workers: list[Worker] = []
        self._run_throughs = run_throughs_of(pipeline)
        self._ahead = ReadAhead(pipeline, options.reading)
        self._hang_watch = HangWatch(options.hang_seconds, self._ahead, log_hang)
        self._pool = Pool(workers, "headrace-worker")

    def resize(self, workers: int, buffer: int) -> None:
        self._window = window_of(workers, buffer, len(self._pipeline.leaves))
        self._pool.resize(workers)

    def has_begun(self) -> bool:
        return True

    def is_idle(self) -> bool:
        return self._pool.is_idle()

    def inputs(self, stage: int) -> int:
        """Return the number of inputs (positions, or rows of earlier tasks) of a stage's next task.

        A stage is a group of operations that run in one task. A task of a stage that makes batches
        has the inputs of one batch, or of up to 8 batches if these are slices of columns (arrays
        with all records). Tasks of a stage that makes single rows grow step by step, up to a limit,
        as long as a task takes less than 30 ms.
        """
        return self._pace.inputs(stage)

    def window(self, stage: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        The number keeps all threads busy. It is higher if tasks wait for their records, so that
        more records are read in advance. A stage is a group of operations that run in one task.
        """
        if not self._pace.waits(stage):
            return self._window
        return self._window + tasks_ahead(
            self._pipeline, self._reading, stage, self._pace.inputs(stage)
        )

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Call[Block]:
        """Submit a task to the threads, and return the call that runs the task.

        If the source is read in advance, the reading of the task's records begins now.

        Args:
            task: the task.
            blocks: the results of earlier tasks to whose rows the task refers.
        """
        return self._pool.submit(self._run, task, blocks, self._ahead.begin(task))

    def _run(self, task: Task, blocks: Blocks, ahead: RecordsAhead | None) -> Block:
        began = perf_counter()
        with profiled("task"):
            block = self._own_worker().run(task, blocks, ahead)
        self._pace.note(task, perf_counter() - began, block.waited, block.count)
        try:
            return block
        finally:
            del block  # the traceback of its failure, if it has one, holds this frame

    def _own_worker(self) -> Worker:
        worker = self._own.worker
        if worker is None:
            stopwatch = stopwatches(len(self._workers), self._observes)
            worker = self._own.worker = Worker(
                self._pipeline,
                stopwatch=stopwatch,
                run_throughs=self._run_throughs,
                watches_globals=False,
            )
            self._workers.append(worker)
            self._hang_watch.add(worker)
        return worker

    def close(self) -> None:
        """Stop the threads after their current tasks."""
        self._hang_watch.close()
        self._ahead.close()  # before the pool: threads may wait for records
        self._pool.close()
        for worker in self._workers:
            worker.close()
