"""The executor with worker threads, for operations that release the GIL and for Python without one.

In: tasks. Out: blocks. Each thread has a `Worker` of its own. Records are read ahead on other threads, where that helps.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ..options import ReadOptions
from ..plan.pipeline import Pipeline
from ..work.tasks import NO_BLOCKS, Block, Blocks, Task
from ..work.worker import Worker
from .protocol import window_of
from .read_ahead import ReadAhead, Reading
from .thread_pool import Call, Pool


class ThreadExecutor:
    """Runs tasks on `worker_count` threads."""

    elsewhere = False

    def __init__(self, pipeline: Pipeline, worker_count: int, buffer_size: int, read_options: ReadOptions) -> None:
        self._window = window_of(worker_count, buffer_size, len(pipeline.leaves))
        self._pipeline = pipeline
        self._own = threading.local()
        self._ahead = ReadAhead(pipeline, read_options)
        self._pool = Pool(worker_count, "millrace-worker")

    def window(self, stage: int) -> int:
        """As the protocol says: the same for all."""
        return self._window

    def units(self, stage: int) -> int:
        """As the protocol says: to ask for a task costs nothing."""
        return 1

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> ThreadHandle:
        """Take a task; begin to read its records if that helps."""
        return ThreadHandle(self._pool.submit(self._run, task, blocks, self._ahead.begin(task)))

    def _run(self, task: Task, blocks: Blocks, reading: Reading) -> Block:
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = Worker(self._pipeline)
        return worker.run(task, blocks, reading.records())

    def close(self) -> None:
        """Stop the threads, once they have finished the tasks they are at."""
        self._pool.close()
        self._ahead.close()


@dataclass(slots=True)
class ThreadHandle:
    """A task that some thread has."""

    call: Call[Block]

    def ready(self) -> bool:
        """Whether the task is done."""
        return self.call.done

    def result(self) -> Block:
        """The block; waits for it."""
        return self.call.result()
