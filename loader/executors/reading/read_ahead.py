"""Read records before they are needed: on threads, or in an event loop for asynchronous sources.

In: the keys of spans (the consecutive positions of a task), in the order in which they will be
needed. Out: pieces of spans for the readers (threads or coroutines); the records of whole spans for
workers. A span is cut into pieces, and each free reader takes the next piece of any span.
`ReadPace` decides how long a piece is: from one record to several spans, depending on the source.
If reads of a source do not wait, the worker reads the records itself when it needs them.

A piece refers to its span, but a span never to its pieces (`spans`). So records are in no reference
cycle, and are freed at once.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from time import perf_counter, thread_time
from typing import Any

from ...interrupts import raise_if_of_signal_handler
from ...options import ReadOptions
from ...plan.pipeline import Pipeline
from ...work.reader import readers_of
from ...work.tasks import RecordsAhead, SpanTask
from ..pace import keys_ahead, reads_under_way
from ..thread_pool import CoroutinePool, Pool
from .read_pace import pace_of
from .spans import InPlace, OngoingRead, Piece, ReadCall, Reading, bytes_of_records

# Chosen: records of 8 MB fill the default bound.
MOST_UNKNOWN = 32
"""Largest number of pieces read at a time before the size of a record is known.

A piece is the records of one read call.
"""


class Reads:
    """Queue of the spans (consecutive positions) whose records are to be read, in order of reading.

    Args:
        readers: largest number of concurrent readers.
        ahead: largest number of records that may be read although no worker waits for them yet. A
            call that reads many records may exceed it.
        most_bytes: largest number of bytes of these records together. One call may exceed it.
        begin: function that starts further readers. It takes this queue and the number of readers
            to start. Each reader works until `take` returns None.
    """

    def __init__(
        self, readers: int, ahead: int, most_bytes: float, begin: Callable[[Reads, int], None]
    ) -> None:
        self._readers = readers
        self._ahead = ahead
        self._most_bytes = most_bytes
        self._begin = begin
        self._lock = threading.Lock()
        self._spans: deque[Reading] = deque()  # with records whose reading has not begun …
        self._waiting = 0  # … and the number of these records
        self._begun_ahead = 0  # number of records begun although no worker waits for them
        self._bytes_ahead = 0.0  # bytes of these
        self._at_work = 0  # number of readers …
        self._under_way = 0  # … and of those that read a piece; the others are about to take one
        self._pieces: dict[int, OngoingRead] = {}  # by the thread that reads it
        self.closed = False

    def add(self, reading: Reading) -> Reading:
        with self._lock:
            self._spans.append(reading)
            self._waiting += reading.count
            more = self._readers_wanted()
        self._begin(self, more)
        return reading

    def ask(self, reading: Reading) -> bool:
        """Move a span (consecutive positions), for which a worker waits, to the front of the queue.

        Return True if the calling thread should read it, as one of the readers, by calling
        `work_here`.
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
        self._begin(self, more)
        return False

    def work_here(self, reading: Reading) -> None:
        """Read a span's records in the calling thread, until all are read or being read.

        A span has the consecutive positions of a task. The calling thread counts as a reader.
        """
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
        """Return True if the calling thread may read: fewer readers are at work than allowed.

        The thread counts as a reader until it calls `leave`.
        """
        with self._lock:
            if self._at_work >= self._readers or self.closed:
                return False
            self._at_work += 1
            return True

    def leave(self) -> None:
        """Stop counting the calling thread as a reader; start other readers if records wait."""
        with self._lock:
            self._at_work -= 1
            more = self._readers_wanted()
        if more:
            self._begin(self, more)

    def _readers_wanted(self) -> int:
        """Return how many more readers are useful now, and count them as working."""
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
        room, capacity = self._room(first)
        if first.asked:
            return room + first.count - first.begun
        return room if first.pace.is_worth_a_call(room, capacity) else 0

    def _room(self, first: Reading) -> tuple[int, int]:
        room, capacity = max(self._ahead - self._begun_ahead, 0), self._ahead
        each = first.pace.nbytes
        if each is None:
            pieces = max(MOST_UNKNOWN - self._under_way, 0)
            unknown = min(
                room, pieces * first.pace.piece(first.count, first.count, self._waiting, room)
            )
            return unknown, unknown
        left, each = self._most_bytes - self._bytes_ahead, max(each, 1.0)
        capacity = min(capacity, max(int(self._most_bytes / each), 1))
        return (min(room, max(int(left / each), 1)) if left > 0 else 0), capacity

    def take(self) -> ReadCall | None:
        """Return the next call of the source that a reader (thread or coroutine) should make.

        Return None if the reader must end. This call does not wait.
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
            while (
                self._spans
                and (span := self._spans[0]).pace is first.pace
                and span.count <= 2 * left
            ):
                # whole, where there is room for half of it
                pieces.append(self._begun(span, span.count))
                left -= span.count
            return ReadCall(pieces)

    def _begun(self, reading: Reading, most: int) -> Piece:
        """Cut a piece of at most `most` records from `reading`, which is the queue's first span."""
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

    def done(
        self, call: ReadCall, records: Sequence[Any] | None, seconds: float, processor: float
    ) -> None:
        """Store the records of a finished read call, and record the time that it took.

        Args:
            call: the call.
            records: its records; None if it failed.
            seconds: seconds that it took.
            processor: how many of these seconds the thread used a processor.
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
        """Read pieces (ranges of records) in this thread until nothing more is to be read."""
        while (call := self.take()) is not None:
            self._make(call, BaseException)
            del call  # the next `take` may be long in coming

    def _make(self, call: ReadCall, ignored: type[BaseException]) -> None:
        """Make a read call in this thread, and store its records.

        Exceptions of the type `ignored` are dropped: the worker will then read these records itself
        and get the same exception.
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
        """Read pieces (ranges of records) in a coroutine until nothing more is to be read."""
        while (call := self.take()) is not None:
            began, records = perf_counter(), None
            with suppress(BaseException):
                records = await call.read(call.keys)
            self.done(call, records, seconds := perf_counter() - began, seconds)
            del call, records
            with self._lock:
                more = self._readers_wanted()  # the first records tell how many have room
            self._begin(self, more)

    def oldest(self) -> OngoingRead | None:
        return min(list(self._pieces.values()), default=None, key=attrgetter("began"))

    def close(self) -> None:
        """Begin no more reads, and wake the workers that wait for records that will not be read."""
        with self._lock:
            self.closed = True
            for reading in self._spans:
                reading.give_up()
            self._spans.clear()


class ReadAhead:
    """Reads records of a pipeline before they are needed, for one worker or executor.

    Nothing is read before the first call of `begin`. At most `num_threads` reads run at a time, or
    `prefetch_buffer_size` reads if the source is asynchronous. At most `prefetch_buffer_size`
    records, of at most `prefetch_buffer_bytes` bytes, are read for which no worker waits yet.

    Args:
        pipeline: pipeline of the run.
        options: options for reading.
    """

    def __init__(self, pipeline: Pipeline, options: ReadOptions) -> None:
        self._in_place = options.in_place
        self._readers = readers_of(pipeline)
        leaves = {number: pipeline.every_leaf[number] for number in self._readers}
        calls = {number: reads_under_way(leaf, options) for number, leaf in leaves.items()}
        # of sources read ahead
        facts = {number: leaf.source_facts for number, leaf in leaves.items() if calls[number]}
        self._paces = {number: pace_of(each, calls[number]) for number, each in facts.items()}
        self._by_coroutines = {
            number: each.read_in_loop
            for number, each in facts.items()
            if each.read_in_loop is not None
        }
        threads = max(
            (calls[number] for number in facts if number not in self._by_coroutines), default=0
        )
        coroutines = max((calls[number] for number in self._by_coroutines), default=0)
        self._pool = Pool(threads, "headrace-read")
        ahead = min((keys_ahead(leaves[number], options) for number in facts), default=0)
        most_bytes = (
            sys.maxsize if options.prefetch_buffer_bytes is None else options.prefetch_buffer_bytes
        )
        self._coroutines = CoroutinePool()
        # The queues must not refer to this object: in a reference cycle, sources would stay open
        # after a run.
        self._on_threads = Reads(threads, ahead, most_bytes, partial(_begin_threads, self._pool))
        self._in_loop = Reads(
            coroutines, ahead, most_bytes, partial(_begin_coroutines, self._coroutines)
        )

    @property
    def helps(self) -> bool:
        """True if records of at least one source are read in advance."""
        return bool(self._paces)

    def begin(self, task: Any) -> RecordsAhead | None:
        """Begin to read the records of a task.

        Returns:
            A function that waits for the records and returns them. None if the source is not read
            in advance, if the task gets rows of earlier tasks instead of records, or if the sampler
            fails.
        """
        if not isinstance(task, SpanTask) or (pace := self._paces.get(number := task.leaf)) is None:
            return None
        reader = self._readers[number]
        try:
            keys = reader.keys(task)
        except Exception as error:  # of the sampler: the worker meets it again
            raise_if_of_signal_handler(error)
            return None
        if number in self._by_coroutines:
            return self._in_loop.add(
                Reading(self._in_loop, self._by_coroutines[number], keys, pace)
            ).records
        reads, read = self._on_threads, reader.read
        here = pace.in_place(len(keys)) if self._in_place else 0
        if here == len(keys):
            return InPlace(reads, read, keys, pace).records
        rest = reads.add(Reading(reads, read, keys[here:], pace))
        return InPlace(reads, read, keys[:here], pace, rest).records if here else rest.records

    def reads_in_place(self, leaf: int, count: int) -> bool:
        """Return True if a worker should read `count` consecutive records of a source itself.

        Args:
            leaf: index of the source.
            count: number of records.
        """
        if leaf not in self._paces:
            return True
        return (
            self._in_place
            and leaf not in self._by_coroutines
            and self._paces[leaf].is_in_place(count)
        )

    def bytes_of(self, task: Any) -> float:
        """Return an estimate of the bytes of a task's records together; 0 if unknown."""
        pace = self._paces.get(task.leaf) if isinstance(task, SpanTask) else None
        return (
            0.0 if pace is None or pace.nbytes is None else pace.nbytes * (task.stop - task.start)
        )

    def oldest(self) -> OngoingRead | None:
        return self._on_threads.oldest()

    def close(self) -> None:
        """Stop reading in advance. Waits for current reads on threads, and cancels coroutines."""
        self._on_threads.close()
        self._in_loop.close()
        self._coroutines.close()
        self._pool.close()


def _begin_threads(pool: Pool, reads: Reads, count: int) -> None:
    for _ in range(count):
        pool.submit(reads.work)


def _begin_coroutines(pool: CoroutinePool, reads: Reads, count: int) -> None:
    pool.begin(reads.work_in_loop, count)
