"""Reads records ahead of the work: on threads, or in an event loop where the source is asynchronous.

In: the keys of spans, in the order in which they will be worked on. Out: pieces of these for readers; whole spans for workers.

Readers are threads or coroutines. A span is cut into pieces, and each reader takes the next piece of any span: so as many
records are read at a time as there are readers, however long spans are.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sources.protocol import is_in_event_loop, reads_singly
from ..options import ReadOptions
from ..plan.pipeline import Pipeline
from ..work.reader import readers_of
from ..work.tasks import ReadRecords, RecordsAhead, SpanTask, Unread
from .pace import keys_ahead, reads_under_way
from .thread_pool import Pool

if TYPE_CHECKING:
    from ...sources.asynchronous.event_loop import Coroutines

PIECE_SECONDS = 1e-3
"""What a piece of records that are read one by one should take. Chosen: a hundred times what it takes to hand one over."""

QUICK_SECONDS = 50e-6
"""What a span takes that is not worth another thread: to hand it over takes as long. Measured with records in memory."""

Keys = NDArray[np.int64]


class PieceSize:
    """Number of records that one call of a source should read. Threads may share one: at worst a note is lost.

    Args:
        calls: at a time, of a source that answers many keys in one: a span is shared equally. 1: each span in one call.
            None: records are read one by one.
    """

    def __init__(self, calls: int | None) -> None:
        self._calls = calls
        self._seconds: float | None = None  # for a record

    def is_quick(self, count: int) -> bool:
        """True if this number of records is read in less time than another thread takes to hand them over."""
        return self._seconds is not None and self._seconds * count < QUICK_SECONDS

    def note(self, count: int, seconds: float) -> None:
        """A call has read `count` records in this time. Later calls count more: the first one opens files."""
        each = seconds / count
        self._seconds = each if self._seconds is None else self._seconds + (each - self._seconds) / 4

    def next(self, count: int, waiting: int, room: int) -> int:
        """The length of the next piece of a span of `count` records, while `waiting` records of all spans wait.

        One by one as many as take `PIECE_SECONDS`, one at first, but no more than there is `room` for. Else a share of the
        span; more while other spans keep the calls busy. The last one may be larger than the room.
        """
        if self._calls is not None:
            return count if self._calls == 1 else -(-max(count, waiting) // self._calls)
        return 1 if self._seconds is None else max(min(int(PIECE_SECONDS / max(self._seconds, 1e-7)), room), 1)


class Reading:
    """The records of a span, which come in piece by piece. `read` takes keys and gives their records, or awaits them."""

    def __init__(self, reads: Reads, read: Callable[[Keys], Any], keys: Keys, size: PieceSize) -> None:
        self.reads = reads
        self.read = read
        self.keys = keys
        self.size = size
        self.count = self.left = len(keys)  # records, and of these not read yet
        self.begun = 0  # records at the front that somebody reads or has read
        self.asked = False  # a worker waits for them
        self.seconds = 0.0  # in which they were being read, of all reads together
        self._pieces: list[tuple[Piece, Sequence[Any]]] = []
        self._unread: list[Piece] = []
        self._arrived = threading.Lock()
        self._arrived.acquire()

    def records(self) -> ReadRecords:
        """The records, as far as they can be read; waits for them. Called once.

        Raises:
            RuntimeError: nobody reads them any more.
        """
        self.reads.ask(self)
        while self.left > 0 and not self.reads.closed:
            self._arrived.acquire()
        if self.reads.closed:
            raise RuntimeError("reading ahead was closed while a worker waited for its records.")
        if len(self._pieces) == 1 and not self._unread:
            return ReadRecords(self._pieces[0][1], (), self.seconds)
        records: list[Any] = [None] * self.count
        for piece, some in self._pieces:
            records[piece.start : piece.stop] = some
        unread = sorted(Unread(piece.start, piece.stop) for piece in self._unread)
        return ReadRecords(records, unread, self.seconds)

    def records_if_quick(self) -> ReadRecords | None:
        """The records of a source that is quick: they are read now, unless it has become slow."""
        if not self.size.is_quick(self.count):
            return self.reads.add(self).records()
        began = perf_counter()
        try:
            records = self.read(self.keys)
        except Exception:  # the worker meets it again
            return None
        self.size.note(self.count, took := perf_counter() - began)
        return ReadRecords(records, (), took)

    def put(self, piece: Piece, records: Sequence[Any] | None, seconds: float) -> None:
        """Take in what came of a piece; None: it could not be read. Called under the lock of `Reads`."""
        self.seconds += seconds
        if records is None:
            self._unread.append(piece)
        else:
            self._pieces.append((piece, records))
        self.left -= piece.stop - piece.start
        if self.left == 0:
            self._arrived.release()

    def give_up(self) -> None:
        """Have nobody wait any more."""
        if self._arrived.locked():
            self._arrived.release()


class Piece(NamedTuple):
    """Records `[start, stop)` of a span, which one call reads."""

    reading: Reading
    start: int
    stop: int

    @property
    def keys(self) -> Keys:
        return self.reading.keys[self.start : self.stop]


class Reads:
    """The spans that are to be read, the first one first.

    Args:
        readers: how many there may be at a time.
        ahead: how many records may be begun that no worker waits for. Where one call reads many, it may go past that.
        begin: has so many more readers work, each until `take` gives it nothing.
    """

    def __init__(self, readers: int, ahead: int, begin: Callable[[int], None]) -> None:
        self._readers = readers
        self._ahead = ahead
        self._begin = begin
        self._lock = threading.Lock()
        self._spans: deque[Reading] = deque()  # with records that nobody has begun to read …
        self._waiting = 0  # … so many
        self._begun_ahead = 0
        self._at_work = 0  # readers, …
        self._under_way = 0  # … of which so many read a piece; the others are about to take one
        self.closed = False

    def add(self, reading: Reading) -> Reading:
        """Have a span read, after all others."""
        with self._lock:
            self._spans.append(reading)
            self._waiting += reading.count
            more = self._readers_wanted()
        self._begin(more)
        return reading

    def ask(self, reading: Reading) -> None:
        """A worker waits for a span: it comes first."""
        with self._lock:
            reading.asked = True
            self._begun_ahead -= reading.begun
            if reading.begun < reading.count and not self.closed and self._spans[0] is not reading:
                self._spans.remove(reading)
                self._spans.appendleft(reading)
            more = self._readers_wanted()
        self._begin(more)

    def _readers_wanted(self) -> int:
        """Number of further readers that have something to read."""
        if not self._spans or self.closed:
            return 0
        first = self._spans[0]
        may_begin = self._ahead - self._begun_ahead + (first.count - first.begun if first.asked else 0)
        pieces = -(-min(self._waiting, may_begin) // self._next_piece(first))
        more = max(min(pieces + self._under_way, self._readers) - self._at_work, 0)
        self._at_work += more
        return more

    def take(self) -> Piece | None:
        """The next piece for a reader; None: there is nothing to do for it, it is at work no more."""
        with self._lock:
            first = self._spans[0] if self._spans else None
            if self.closed or first is None or (self._begun_ahead >= self._ahead and not first.asked):
                self._at_work -= 1
                return None
            start = first.begun
            stop = first.begun = min(start + self._next_piece(first), first.count)
            if stop == first.count:
                self._spans.popleft()
            self._waiting -= stop - start
            if not first.asked:
                self._begun_ahead += stop - start
            self._under_way += 1
            return Piece(first, start, stop)

    def _next_piece(self, first: Reading) -> int:
        room = first.count if first.asked else self._ahead - self._begun_ahead
        return first.size.next(first.count, self._waiting, room)

    def done(self, piece: Piece, records: Sequence[Any] | None, seconds: float) -> None:
        """A reader has read a piece; None: it could not."""
        with self._lock:
            self._under_way -= 1
            piece.reading.size.note(piece.stop - piece.start, seconds)
            piece.reading.put(piece, records, seconds)

    def work(self) -> None:
        while (piece := self.take()) is not None:
            began, records = perf_counter(), None
            with suppress(BaseException):  # the worker meets it again, and tells the user
                records = piece.reading.read(piece.keys)
            self.done(piece, records, perf_counter() - began)

    async def work_in_loop(self) -> None:
        while (piece := self.take()) is not None:
            began, records = perf_counter(), None
            with suppress(BaseException):
                records = await piece.reading.read(piece.keys)
            self.done(piece, records, perf_counter() - began)

    def close(self) -> None:
        """Have no more pieces begun, and nobody wait."""
        with self._lock:
            self.closed = True
            for reading in self._spans:
                reading.give_up()
            self._spans.clear()


class ReadAhead:
    """Reads the records of a pipeline ahead, in one place that works. Starts with the first span.

    At most `num_threads` reads are under way at a time, of asynchronous sources `prefetch_buffer_size`; and so many records
    are read that no worker waits for.
    """

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._readers = readers_of(pipeline)
        leaves = {number: pipeline.every_leaf[number] for number in self._readers}
        calls = {number: reads_under_way(leaf, options) for number, leaf in leaves.items()}
        self._sources = {number: leaf.source for number, leaf in leaves.items() if calls[number]}  # that are read ahead
        self._sizes = {number: _piece_size(source, calls[number]) for number, source in self._sources.items()}
        in_loop = {number for number, source in self._sources.items() if is_in_event_loop(source)}
        threads = max((calls[number] for number in self._sources if number not in in_loop), default=0)
        coroutines = max((calls[number] for number in in_loop), default=0)
        self._pool = Pool(threads, "headrace-read")
        ahead = min((keys_ahead(leaves[number], options) for number in self._sources), default=0)
        self._on_threads = Reads(threads, ahead, self._begin_threads)
        self._coroutines: Coroutines | None = None
        self._in_loop = Reads(coroutines, ahead, self._begin_coroutines)

    @property
    def helps(self) -> bool:
        return bool(self._sources)

    def begin(self, task: Any) -> RecordsAhead | None:
        """Begin to read the records of a span; None: nobody reads any ahead."""
        if not isinstance(task, SpanTask) or (source := self._sources.get(number := task.leaf)) is None:
            return None
        reader, size = self._readers[number], self._sizes[number]
        try:
            keys = reader.keys(task)
        except Exception:  # of the sampler: the worker meets it again
            return None
        if is_in_event_loop(source):
            return self._in_loop.add(Reading(self._in_loop, source.read_in_loop, keys, size)).records
        reading = Reading(self._on_threads, reader.read, keys, size)
        return reading.records_if_quick if size.is_quick(len(keys)) else self._on_threads.add(reading).records

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


def _piece_size(source: Any, calls: int) -> PieceSize:
    """As sources say: see `reads_ahead` and `reads_singly` in `sources.protocol`."""
    if reads_singly(source):
        return PieceSize(None)
    return PieceSize(1 if getattr(source, "reads_ahead", True) is True else calls)
