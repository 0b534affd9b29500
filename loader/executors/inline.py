"""The executor without workers: a task is run when its result is asked for, on the consumer's own thread.

In: tasks. Out: blocks. Only reading runs ahead, on threads, where the source spends its time outside Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..options import ReadOptions
from ..pipeline import Pipeline
from ..plan import Span
from ..tasks import Block, Task
from ..work import Reader, Worker


class InlineExecutor:
    """Runs tasks on demand; reads the records of the next spans meanwhile."""

    def __init__(self, pipeline: Pipeline, read_options: ReadOptions) -> None:
        self._worker = Worker(pipeline)
        self._reader = Reader(pipeline)
        self._threads: ThreadPoolExecutor | None = None
        self.window = 1
        threads = _useful_threads(pipeline, read_options)
        if threads > 0:
            self.window = 1 + -(-read_options.prefetch_buffer_size // pipeline.span)
            self._threads = ThreadPoolExecutor(min(threads, self.window), thread_name_prefix="millrace-read")

    def submit(self, task: Task) -> InlineHandle:
        """Take a task; begin to read its records if there are threads for that."""
        if self._threads is None or not isinstance(task, Span):
            return InlineHandle(self._worker, task, None)
        return InlineHandle(self._worker, task, self._threads.submit(self._reader.records, task))

    def close(self) -> None:
        """Stop the reading threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class InlineHandle:
    """A task that runs when its result is asked for."""

    worker: Worker
    task: Task
    reading: Future[Sequence[Any]] | None

    def ready(self) -> bool:
        """Never: the result takes work."""
        return False

    def result(self) -> Block:
        """Run the task."""
        return self.worker.run(self.task, self._records())

    def _records(self) -> Sequence[Any] | None:
        """What was read ahead. None leaves the reading, and its failures, to the worker."""
        if self.reading is None:
            return None
        try:
            return self.reading.result()
        except Exception:
            return None


def _useful_threads(pipeline: Pipeline, read_options: ReadOptions) -> int:
    """Threads that it is worth reading on: a source may say that none, or only so many, are of use."""
    useful = getattr(pipeline.source, "reads_ahead", True)
    return read_options.num_threads if useful is True else min(read_options.num_threads, int(useful))
