"""Reads records ahead of the work, on threads, where the source spends its time outside Python.

In: spans that will be worked on soon. Out: their records, when they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .options import ReadOptions
from .pipeline import Pipeline
from .plan import Span
from .reader import Reader

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class Reading:
    """Records that are being read, or not."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[Sequence[Any]] | None) -> None:
        self._future = future

    def records(self) -> Sequence[Any] | None:
        """The records; None leaves the reading, and its failures, to the worker."""
        if self._future is None:
            return None
        try:
            return self._future.result()
        except Exception:
            return None


NOT_AHEAD = Reading(None)


class ReadAhead:
    """The reading threads of a pipeline, as many as are of use; they start with the first span.

    Attributes:
        spans: how many spans it is worth having begun at a time; 0 when nothing is read ahead.
    """

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._reader = Reader(pipeline)
        useful = getattr(pipeline.source, "reads_ahead", True)
        threads = options.num_threads if useful is True else min(options.num_threads, int(useful))
        self.spans = -(-options.prefetch_buffer_size // pipeline.span) if threads > 0 else 0
        self._thread_count = min(threads, self.spans)
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, task: Any) -> Reading:
        """Begin to read the records of a span; other tasks need none."""
        if self.spans == 0 or not isinstance(task, Span):
            return NOT_AHEAD
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # here, so that workers that need none start faster

            self._threads = ThreadPoolExecutor(self._thread_count, thread_name_prefix="millrace-read")
        return Reading(self._threads.submit(self._reader.records, task))

    def close(self) -> None:
        """Stop the threads, once they have read what they are at."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
