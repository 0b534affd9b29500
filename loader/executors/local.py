"""The executors in the user's process: in the thread that asks, and on worker threads.

In: tasks. Out: blocks. Records are read ahead on other threads, where that helps. Threads are for operations that release the
GIL and for Python without one.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from time import perf_counter

from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.profiles import profiled
from ..work.sequential import run_throughs_of
from ..work.stopwatch import bytes_of_rows, stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, RecordsAhead, Task
from ..work.worker import Worker
from .hang_watch import HangWatch, log_hang
from .pace import Pace, inline_limits_of, limits_of, tasks_ahead
from .protocol import Executor, window_of
from .reading.read_ahead import ReadAhead
from .thread_pool import Call, Pool


class InlineExecutor(Executor):
    """Runs tasks on the consumer's own thread, each when its result is asked for."""

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions) -> None:
        self._pipeline = pipeline
        self._worker = Worker(pipeline, stopwatch=stopwatches(0, options.observe), seeds_globals=options.seed_globals)
        self._reading = options.reading
        self._ahead = ReadAhead(pipeline, options.reading)
        self._hang_watch = HangWatch(options.hang_seconds, self._ahead, log_hang)
        self._hang_watch.add(self._worker)
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
        return InlineHandle(self, task, blocks, self._ahead.begin(task) if self._reads_ahead else None)

    def run(self, task: Task, blocks: Blocks, ahead: RecordsAhead | None) -> Block:
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
        self._hang_watch.close()
        self._ahead.close()
        self._worker.close()


@dataclass(slots=True)
class InlineHandle:
    """A task that runs when its result is asked for."""

    executor: InlineExecutor
    task: Task
    blocks: Blocks
    ahead: RecordsAhead | None

    def ready(self) -> bool:
        return False

    def result(self) -> Block:
        return self.executor.run(self.task, self.blocks, self.ahead)


class ThreadExecutor(Executor):
    """Runs tasks on the threads of a pool, whose calls are the handles.

    Each thread has a `Worker` of its own. Sources that can only be run through are run through once, by whichever thread.
    """

    def __init__(self, pipeline: Pipeline, options: ExecutionOptions, begins_with: int | None = None) -> None:
        workers = begins_with or options.workers
        self._window = window_of(workers, options.worker_buffer_size, len(pipeline.leaves))
        self._reading = options.reading
        self._pace = Pace(limits_of(pipeline, several=False))
        self._pipeline = pipeline
        self._observes = options.observe
        self._own = threading.local()
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
        """A batch; of what makes none, as many as take some time."""
        return self._pace.inputs(stage)

    def window(self, stage: int) -> int:
        """As many tasks as keep the threads busy; where these wait for records, those that are to be read ahead, too."""
        if not self._pace.waits(stage):
            return self._window
        return self._window + tasks_ahead(self._pipeline, self._reading, stage, self._pace.inputs(stage))

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Call[Block]:
        """Take a task; begin to read its records if that helps."""
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
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            stopwatch = stopwatches(len(self._workers), self._observes)
            worker = self._own.worker = Worker(
                self._pipeline, stopwatch=stopwatch, run_throughs=self._run_throughs, watches_globals=False
            )
            self._workers.append(worker)
            self._hang_watch.add(worker)
        return worker

    def close(self) -> None:
        """Stop the threads, once they have finished the tasks they are at."""
        self._hang_watch.close()
        self._ahead.close()  # before the pool: threads may wait for records
        self._pool.close()
        for worker in self._workers:
            worker.close()
