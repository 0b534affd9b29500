"""Reads records ahead of the work, on threads, where the source spends its time outside Python.

In: spans that will be worked on soon. Out: their records, when they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..options import ReadOptions
from ..plan.pipeline import Pipeline
from ..work.reader import readers_of
from ..work.tasks import SpanTask
from .thread_pool import Call, Pool


@dataclass(frozen=True, slots=True)
class Reading:
    """Records that are being read, or not."""

    call: Call[Sequence[Any]] | None

    def records(self) -> Sequence[Any] | None:
        """The records; None leaves the reading, and its failures, to the worker."""
        if self.call is None:
            return None
        try:
            return self.call.result()
        except Exception:
            return None


NOT_AHEAD = Reading(None)


class ReadAhead:
    """The reading threads of a pipeline, as many as are of use; they start with the first span."""

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._pipeline = pipeline
        self._readers = readers_of(pipeline)
        threads = max(_useful(leaf.source, options.num_threads) for leaf in pipeline.leaves)
        # How many spans it is worth having begun at a time; 0 when nothing is read ahead.
        self.spans = -(-options.prefetch_buffer_size // sum(pipeline.spans)) if threads > 0 else 0
        self._thread_count = min(threads, self.spans)
        self._pool: Pool | None = None

    def begin(self, task: Any) -> Reading:
        """Begin to read the records of a span; other tasks need none."""
        if self.spans == 0 or not isinstance(task, SpanTask):
            return NOT_AHEAD
        reader = self._readers.get(self._pipeline.read_by(task.stage, task.former))
        if reader is None:
            return NOT_AHEAD
        if self._pool is None:
            self._pool = Pool(self._thread_count, "millrace-read")
        return Reading(self._pool.submit(reader.records, task))

    def close(self) -> None:
        """Stop the threads, once they have read what they are at."""
        if self._pool is not None:
            self._pool.close()


def _useful(source: Any, threads: int) -> int:
    """How many threads help to read a source."""
    useful = getattr(source, "reads_ahead", True)
    return threads if useful is True else min(threads, int(useful))
