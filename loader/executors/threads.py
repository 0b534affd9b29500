"""The executor with worker threads, for operations that release the GIL and for Python without one.

In: tasks. Out: blocks. Each thread has a `Worker` of its own; sources that can only be run through
are run through once, by whichever thread. Records are read ahead on other threads, where that helps.
"""

from __future__ import annotations

import threading
from time import perf_counter

from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.profiles import profiled
from ..work.sequential import run_throughs_of
from ..work.stopwatch import stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, RecordsAhead, Task
from ..work.worker import Worker
from .pace import Pace, limits_of, tasks_ahead
from .protocol import Executor, window_of
from .reads import ReadAhead
from .thread_pool import Call, Pool


class ThreadExecutor(Executor):
    """Runs tasks on the threads of a pool, whose calls are the handles."""

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
        self._pool = Pool(workers, "headrace-worker")

    def resize(self, workers: int, buffer: int) -> None:
        """Have so many threads, at least 1, and so many batches ahead for each."""
        self._window = window_of(workers, buffer, len(self._pipeline.leaves))
        self._pool.resize(workers)

    def has_begun(self) -> bool:
        """Threads are there when they are needed."""
        return True

    def is_idle(self) -> bool:
        """True if every task that it was given is at work, or done."""
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
        return block

    def _own_worker(self) -> Worker:
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            stopwatch = stopwatches(len(self._workers), self._observes)
            worker = self._own.worker = Worker(
                self._pipeline, stopwatch=stopwatch, run_throughs=self._run_throughs, watches_globals=False
            )
            self._workers.append(worker)
        return worker

    def close(self) -> None:
        """Stop the threads, once they have finished the tasks they are at."""
        self._ahead.close()  # first: threads may wait for records
        self._pool.close()
        for worker in self._workers:
            worker.close()
