"""Reads records ahead of the work: on threads, or in an event loop where the source is asynchronous.

In: spans that will be worked on soon. Out: their records, when they are. `reads` decides what is read next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...sources.protocol import is_in_event_loop, reads_singly
from ..options import ReadOptions
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..work.reader import readers_of
from ..work.tasks import ReadRecords, SpanTask
from .pace import reads_under_way
from .reads import EqualShares, PieceSize, QuickReading, Reading, Reads
from .thread_pool import Pool

if TYPE_CHECKING:
    from ...sources.asynchronous.event_loop import Coroutines


class AheadOfWork(Protocol):
    """The records of a task, which are being read, or not."""

    def records(self) -> ReadRecords | None:
        """Those of a span; waits for them. None: the worker is to read them. Called once, by the worker's thread."""


class NotAhead:
    """A task whose records nobody reads ahead."""

    def records(self) -> ReadRecords | None:
        """None: the worker reads them itself."""
        return None


NOT_AHEAD: AheadOfWork = NotAhead()


class ReadAhead:
    """What reads the records of a pipeline ahead, in one place that works. Starts with the first span.

    At most `num_threads` reads are under way at a time, of asynchronous sources `prefetch_buffer_size`; and so many records
    are read that no worker waits for.
    """

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._pipeline = pipeline
        self._readers = readers_of(pipeline)
        self._records = options.prefetch_buffer_size
        self._calls = {number: reads_under_way(pipeline.every_leaf[number], options) for number in self._readers}
        self._sizes = {
            number: _piece_size(pipeline.every_leaf[number], self._calls[number]) for number in self._readers
        }
        threads, coroutines = self._most_calls(False), self._most_calls(True)
        self._pool = Pool(threads, "headrace-read")
        self._on_threads = Reads(threads, self._records, self._begin_threads)
        self._coroutines: Coroutines | None = None
        self._in_loop = Reads(coroutines, self._records, self._begin_coroutines)

    def _source(self, number: int) -> Any:
        return self._pipeline.every_leaf[number].source

    def _most_calls(self, in_loop: bool) -> int:
        """How many reads are under way at most, of sources that are read by coroutines, or of the others."""
        calls = [calls for number, calls in self._calls.items() if is_in_event_loop(self._source(number)) == in_loop]
        return max(calls, default=0)

    @property
    def helps(self) -> bool:
        """Whether anything is read ahead."""
        return any(self._calls.values())

    def begin(self, task: Any) -> AheadOfWork:
        """Begin to read the records of a span; other tasks need none."""
        if not isinstance(task, SpanTask):
            return NOT_AHEAD
        number = task.leaf
        if not self._calls.get(number):
            return NOT_AHEAD
        reader, size = self._readers[number], self._sizes[number]
        try:
            keys = reader.keys(task)
        except Exception:  # of the sampler: the worker meets it again
            return NOT_AHEAD
        source = self._source(number)
        if is_in_event_loop(source):
            return self._in_loop.add(Reading(self._in_loop, source.read_in_loop, keys, size))
        reading = Reading(self._on_threads, reader.read, keys, size)
        return QuickReading(reading) if size.is_quick(len(keys)) else self._on_threads.add(reading)

    def _begin_threads(self, count: int) -> None:
        for _ in range(count):
            self._pool.submit(self._on_threads.work)

    def _begin_coroutines(self, count: int) -> None:
        if count:
            from ...sources.asynchronous.event_loop import Coroutines  # asyncio takes 50 ms of a worker's start

            self._coroutines = self._coroutines or Coroutines()
            self._coroutines.begin(self._in_loop.work_in_loop, count)

    def close(self) -> None:
        """Stop reading, once what threads are reading is there; coroutines are cancelled."""
        self._on_threads.close()
        self._in_loop.close()
        if self._coroutines is not None:
            self._coroutines.close()
        self._pool.close()


def _piece_size(leaf: Leaf, calls: int) -> PieceSize:
    """As sources say: see `reads_ahead` and `reads_singly` in `sources.protocol`."""
    source = leaf.source
    if reads_singly(source):
        return PieceSize()
    says = getattr(source, "reads_ahead", True)
    return EqualShares(1 if says is True else calls)
