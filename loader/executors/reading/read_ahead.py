"""Read records ahead of the work: on threads, or in an event loop if the source is asynchronous.

In: the keys of spans (consecutive positions), in the order in which they will be needed. Out:
pieces of spans for the readers; the records of whole spans for workers.

Readers are threads or coroutines. A span is cut into pieces, and each free reader takes the next
piece of any span. So as many pieces are read at a time as there are readers, however long spans
are. If a source is quick, the worker reads the records itself when it needs them (`read_pace`).

Records are not in a reference cycle: a piece refers to its span, and a span never to its pieces
(`spans`).
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from ...options import ReadOptions
from ...plan.pipeline import Pipeline
from ...work.reader import readers_of
from ...work.tasks import RecordsAhead, SpanTask
from ..pace import keys_ahead, reads_under_way
from ..thread_pool import Pool
from .read_pace import pace_of
from .spans import InPlace, Keys, Piece, ReadCall, Reading, bytes_of_records

if TYPE_CHECKING:
    from ....sources.asynchronous.event_loop import Coroutines

# Chosen: records of 8 MB fill the default bound.
MOST_UNKNOWN = 32
"""Largest number of pieces (records of one read call) under way before the bytes of any record are known."""


class OngoingRead(NamedTuple):
    """A read of records that a thread is making now.

    Attributes:
        began: time of its beginning (`perf_counter` seconds).
        thread: identifier of the thread.
        keys: keys of the records.
    """

    began: float
    thread: int
    keys: Keys


class Reads:
    """Queue of the spans (ranges of consecutive positions) to read, in the order of reading.

    Args:
        readers: largest number of concurrent readers.
        ahead: number of records whose reading may begin although no worker waits for them. A call that
            reads many records may exceed it.
        most_bytes: largest number of bytes of these records. One call may exceed it.
        begin: function of a number, which starts this number of further readers. Each works until
            `take` returns None.
    """

    def __init__(self, readers: int, ahead: int, most_bytes: float, begin: Callable[[int], None]) -> None:
        self._readers = readers
        self._ahead = ahead
        self._most_bytes = most_bytes
        self._begin = begin
        self._lock = threading.Lock()
        self._spans: deque[Reading] = deque()  # with records that nobody has begun to read …
        self._waiting = 0  # … so many
        self._begun_ahead = 0
        self._bytes_ahead = 0.0  # of these
        self._at_work = 0  # readers, …
        self._under_way = 0  # … of which so many read a piece; the others are about to take one
        self._pieces: dict[int, OngoingRead] = {}  # by the thread that reads it
        self.closed = False

    def add(self, reading: Reading) -> Reading:
        with self._lock:
            self._spans.append(reading)
            self._waiting += reading.count
            more = self._readers_wanted()
        self._begin(more)
        return reading

    def ask(self, reading: Reading) -> bool:
        """Move a span (consecutive positions) to the front of the queue, because a worker waits for it.

        Return True if the calling thread now counts as a reader and must call `work_here`.
        """
        with self._lock:
            reading.asked = True
            self._begun_ahead -= reading.begun
            self._bytes_ahead -= reading.nbytes
            waits = reading.begun < reading.count and not self.closed
            if waits and self._spans[0] is not reading:
                self._spans.remove(reading)
                self._spans.appendleft(reading)
            if waits and self._at_work < self._readers and reading.pace.is_called_here:
                self._at_work += 1
                return True
            more = self._readers_wanted()
        self._begin(more)
        return False

    def work_here(self, reading: Reading) -> None:
        """Read in the calling thread, which counts as a reader, until no record of a span is left to begin."""
        reads = True
        try:
            while reading.begun < reading.count:
                if (call := self.take()) is None:
                    reads = False  # as `take` has noted
                    return
                self._make(call, Exception)
        finally:
            if reads:
                self.leave()

    def enter(self) -> bool:
        """Return True if the calling thread may read, because there is room for one more reader.

        The thread counts as a reader until it calls `leave`.
        """
        with self._lock:
            if self._at_work >= self._readers or self.closed:
                return False
            self._at_work += 1
            return True

    def leave(self) -> None:
        """Stop counting the calling thread as a reader. Start other readers if spans wait."""
        with self._lock:
            self._at_work -= 1
            more = self._readers_wanted() if self._spans else 0
        if more:
            self._begin(more)

    def _readers_wanted(self) -> int:
        """Return how many further readers have something to read, and count them as working."""
        if not self._spans or self.closed:
            return 0
        first = self._spans[0]
        if first.pace.is_called_here and not first.asked:
            return 0
        may_begin = self._may_begin(first)
        pieces = -(-min(self._waiting, may_begin) // self._next_piece(first)) if may_begin else 0
        more = max(min(pieces + self._under_way, self._readers) - self._at_work, 0)
        self._at_work += more
        return more

    def _may_begin(self, first: Reading) -> int:
        """Return how many records a reader may begin to read now."""
        room, capacity = self._room(first)
        if first.asked:
            return room + first.count - first.begun
        return room if first.pace.is_worth_a_call(room, capacity) else 0

    def _room(self, first: Reading) -> tuple[int, int]:
        """Return two numbers of records, for reading without a waiting worker: how many may begin now, and the limit.

        The limit is the largest number that may be begun or read ahead at a time.
        """
        room, capacity = max(self._ahead - self._begun_ahead, 0), self._ahead
        each = first.pace.nbytes
        if each is None:
            pieces = max(MOST_UNKNOWN - self._under_way, 0)
            unknown = min(room, pieces * first.pace.piece(first.count, first.count, self._waiting, room))
            return unknown, unknown
        left, each = self._most_bytes - self._bytes_ahead, max(each, 1.0)
        capacity = min(capacity, max(int(self._most_bytes / each), 1))
        return (min(room, max(int(left / each), 1)) if left > 0 else 0), capacity

    def take(self) -> ReadCall | None:
        """Return the next read call for a reader; None if there is nothing to read.

        After None, the reader no longer counts as working.
        """
        with self._lock:
            first = self._spans[0] if self._spans else None
            if self.closed or first is None or not self._may_begin(first):
                self._at_work -= 1
                return None
            self._under_way += 1
            length = self._next_piece(first)
            pieces = [self._begun(first, length)]
            left = length - pieces[0].length
            while self._spans and (span := self._spans[0]).pace is first.pace and 0 < span.count <= 2 * left:
                pieces.append(self._begun(span, span.count))  # whole, where there is room for half of it
                left -= span.count
            return ReadCall(pieces)

    def _begun(self, reading: Reading, most: int) -> Piece:
        """Cut a piece of at most `most` records from the first span of the queue, `reading`, and return it."""
        start = reading.begun
        stop = reading.begun = min(start + most, reading.count)
        if stop == reading.count:
            self._spans.popleft()
        piece = Piece(reading, start, stop, (stop - start) * (reading.pace.nbytes or 0.0))
        self._waiting -= piece.length
        if not reading.asked:
            self._begun_ahead += piece.length
        self._add_bytes(reading, piece.nbytes)
        return piece

    def _add_bytes(self, reading: Reading, nbytes: float) -> None:
        reading.nbytes += nbytes
        if not reading.asked:
            self._bytes_ahead += nbytes

    def _next_piece(self, first: Reading) -> int:
        left, (room, capacity) = first.count - first.begun, self._room(first)
        if first.asked:
            room = min(left + room, max(left, capacity))
        return first.pace.piece(first.count, left, self._waiting, room)

    def done(self, call: ReadCall, records: Sequence[Any] | None, seconds: float, processor: float) -> None:
        """Store the records of a finished call, and record its time.

        Args:
            call: the call.
            records: its records; None if it failed.
            seconds: seconds that it took.
            processor: seconds of these in which the thread used a processor.
        """
        pace, count = call.pace, call.count
        nbytes = 0.0 if records is None else bytes_of_records(records)
        with self._lock:
            self._under_way -= 1
            pace.note(count, seconds, processor)
            if records is not None:
                pace.note_bytes(count, nbytes)
            for piece, some in call.divide(records):
                share = piece.length / count
                self._add_bytes(piece.reading, nbytes * share - piece.nbytes)
                piece.reading.put(piece, some, seconds * share)

    def work(self) -> None:
        """Read pieces in this thread until there are none to read."""
        while (call := self.take()) is not None:
            self._make(call, BaseException)
            del call  # the next `take` may be long in coming

    def _make(self, call: ReadCall, ignored: type[BaseException]) -> None:
        """Make a call in this thread.

        Store its records. Exceptions of the type `ignored` are dropped, because the worker will
        read these records again and get the same exception.
        """
        thread = threading.get_ident()
        began, at_work, records = perf_counter(), thread_time(), None
        self._pieces[thread] = OngoingRead(began, thread, call.keys)
        try:
            with suppress(ignored):
                records = call.read(call.keys)
        finally:
            del self._pieces[thread]
            self.done(call, records, perf_counter() - began, thread_time() - at_work)

    async def work_in_loop(self) -> None:
        """Read pieces in a coroutine until there are none to read."""
        while (call := self.take()) is not None:
            began, records = perf_counter(), None
            with suppress(BaseException):
                records = await call.read(call.keys)
            self.done(call, records, seconds := perf_counter() - began, seconds)
            del call, records
            with self._lock:
                more = self._readers_wanted()  # the first records tell how many have room
            self._begin(more)

    def oldest(self) -> OngoingRead | None:
        return min(list(self._pieces.values()), default=None, key=attrgetter("began"))

    def close(self) -> None:
        """Begin no more pieces, and wake all waiting workers."""
        with self._lock:
            self.closed = True
            for reading in self._spans:
                reading.give_up()
            self._spans.clear()


class ReadAhead:
    """Reads the records of a pipeline ahead, for one worker or executor. It begins when the first span is requested.

    At most `num_threads` reads run at a time, or `prefetch_buffer_size` reads if the source is
    asynchronous. If no worker waits for them, at most `prefetch_buffer_size` records, of at most
    `prefetch_buffer_bytes` bytes, are read in advance.

    A span is a range of consecutive positions.

    Args:
        pipeline: pipeline of the run.
        options: options of reading ahead.
    """

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._in_place = options.in_place
        self._readers = readers_of(pipeline)
        leaves = {number: pipeline.every_leaf[number] for number in self._readers}
        calls = {number: reads_under_way(leaf, options) for number, leaf in leaves.items()}
        facts = {number: leaf.source_facts for number, leaf in leaves.items() if calls[number]}  # of sources read ahead
        self._paces = {number: pace_of(each, calls[number]) for number, each in facts.items()}
        self._by_coroutines = {
            number: each.read_in_loop for number, each in facts.items() if each.read_in_loop is not None
        }
        threads = max((calls[number] for number in facts if number not in self._by_coroutines), default=0)
        coroutines = max((calls[number] for number in self._by_coroutines), default=0)
        self._pool = Pool(threads, "headrace-read")
        ahead = min((keys_ahead(leaves[number], options) for number in facts), default=0)
        most_bytes = sys.maxsize if options.prefetch_buffer_bytes is None else options.prefetch_buffer_bytes
        self._on_threads = Reads(threads, ahead, most_bytes, self._begin_threads)
        self._coroutines: Coroutines | None = None
        self._in_loop = Reads(coroutines, ahead, most_bytes, self._begin_coroutines)

    @property
    def helps(self) -> bool:
        """Return True if any source is read ahead."""
        return bool(self._paces)

    def begin(self, task: Any) -> RecordsAhead | None:
        """Begin to read the records of a task on a span (consecutive positions).

        Return a function that waits for the records and returns them. Return None if the source is not
        read ahead, the task is about rows, or the sampler fails.
        """
        if not isinstance(task, SpanTask) or (pace := self._paces.get(number := task.leaf)) is None:
            return None
        reader = self._readers[number]
        try:
            keys = reader.keys(task)
        except Exception:  # of the sampler: the worker meets it again
            return None
        if number in self._by_coroutines:
            return self._in_loop.add(Reading(self._in_loop, self._by_coroutines[number], keys, pace)).records
        reads, read = self._on_threads, reader.read
        here = pace.in_place(len(keys)) if self._in_place else 0
        if here == len(keys):
            return InPlace(reads, read, keys, pace).records
        rest = reads.add(Reading(reads, read, keys[here:], pace))
        return InPlace(reads, read, keys[:here], pace, rest).records if here else rest.records

    def reads_in_place(self, leaf: int, count: int) -> bool:
        """Return True if the worker itself reads `count` consecutive records, when it needs them.

        `leaf` is the index of their leaf (a source with its sampler).
        """
        if leaf not in self._paces:
            return True
        return self._in_place and leaf not in self._by_coroutines and self._paces[leaf].is_in_place(count)

    def bytes_of(self, task: Any) -> float:
        """Return an estimate of the bytes of a task's records; 0 if they are not read ahead."""
        pace = self._paces.get(task.leaf) if isinstance(task, SpanTask) else None
        return 0.0 if pace is None or pace.nbytes is None else pace.nbytes * (task.stop - task.start)

    def oldest(self) -> OngoingRead | None:
        return self._on_threads.oldest()

    def _begin_threads(self, count: int) -> None:
        for _ in range(count):
            self._pool.submit(self._on_threads.work)

    def _begin_coroutines(self, count: int) -> None:
        if count:
            from ....sources.asynchronous.event_loop import Coroutines  # asyncio takes 50 ms of a worker's start

            self._coroutines = self._coroutines or Coroutines()
            self._coroutines.begin(self._in_loop.work_in_loop, count)

    def close(self) -> None:
        """Stop reading. Waits for current reads on threads, and cancels coroutines."""
        self._on_threads.close()
        self._in_loop.close()
        if self._coroutines is not None:
            self._coroutines.close()
        self._pool.close()
