"""Records of a task that are read in pieces, by several readers or by the worker that needs them.

In: the keys of the records. Out: the records in the order of the keys, and the ranges of records
that could not be read.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter, thread_time
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...interrupts import raise_if_of_signal_handler
from ...work.stopwatch import bytes_of
from ...work.tasks import ReadRecords, Unread
from .read_pace import ReadPace

# Chosen: a piece often has one record.
SAMPLES = 4
"""Number of records of one read whose bytes are counted. The others are assumed to be similar."""

Keys = NDArray[np.int64]


class OngoingRead(NamedTuple):
    """A read of records that a thread is making now.

    Attributes:
        began: start time (`perf_counter` seconds).
        thread: identifier of the thread.
        keys: keys of the records.
    """

    began: float
    thread: int
    keys: Keys


class ReadQueue(Protocol):
    """Interface of the queue of spans (consecutive positions) whose records are to be read.

    Attributes:
        closed: True once no more records are read.
    """

    closed: bool

    def add(self, reading: Reading) -> Reading:
        """Append `reading` (records of one task) to the queue of records to read, and return it."""

    def ask(self, reading: Reading) -> bool:
        """Move a span (consecutive positions), for which a worker waits, to the front of the queue.

        Return True if the calling thread should read the span itself. The thread then counts as a
        reader, and must call `work_here`.
        """

    def work_here(self, reading: Reading) -> None:
        """Read a span's records in the calling thread, until all are read or being read.

        A span has the consecutive positions of a task.
        """

    def enter(self) -> bool:
        """Return True if the calling thread may read: fewer readers are at work than allowed.

        The thread counts as a reader until it calls `leave`.
        """

    def leave(self) -> None:
        """Stop counting the calling thread as a reader."""


class Reading:
    """The records of a span (the consecutive positions of a task), which arrive piece by piece.

    Args:
        reads: queue of the spans to be read.
        read: function that takes keys and returns records, or an awaitable of them for an
            asynchronous source.
        keys: keys of the records.
        pace: measured speed of the source.
    """

    def __init__(
        self, reads: ReadQueue, read: Callable[[Keys], Any], keys: Keys, pace: ReadPace
    ) -> None:
        self.reads = reads
        self.read = read
        self.keys = keys
        self.pace = pace
        self.count = self.left = len(keys)  # records, and of these not read yet
        self.begun = 0  # records at the front that somebody reads or has read
        self.nbytes = 0.0  # of these; estimated for those that are being read
        self.asked = False  # a worker waits for them
        self.seconds = 0.0  # in which they were being read, of all reads together
        self._pieces: list[tuple[int, int, Sequence[Any]]] = []
        self._unread: list[Unread] = []
        self._arrived = threading.Lock()
        self._arrived.acquire()

    def records(self) -> ReadRecords:
        """Wait for the records of the span (the consecutive positions of a task), and return them.

        The result also has the ranges of records that could not be read. May be called only once.

        Raises:
            RuntimeError: the queue was closed meanwhile, so that no more records are read.
        """
        self.pace.note_asked()
        if self.reads.ask(self):
            self.reads.work_here(self)
        while self.left > 0 and not self.reads.closed:
            self._arrived.acquire()
        if self.reads.closed:
            raise RuntimeError(
                "the iterator was closed while a worker waited for its records. Make a new one, "
                "iter(loader), and restore the state in it."
            )
        self.pace.note_given(self.count)
        pieces, self._pieces = self._pieces, []
        if len(pieces) == 1 and not self._unread:
            return ReadRecords(pieces[0][2], (), self.seconds)
        records: list[Any] = [None] * self.count
        for start, stop, some in pieces:
            records[start:stop] = some
        return ReadRecords(records, sorted(self._unread), self.seconds)

    def put(self, piece: Piece, records: Sequence[Any] | None, seconds: float) -> None:
        """Store the records of a piece (a range of the span's records).

        The caller holds the lock of the queue (`Reads`).

        Args:
            piece: the piece.
            records: the records; None if they could not be read.
            seconds: seconds that reading these records took.
        """
        self.seconds += seconds
        if records is None:
            self._unread.append(Unread(piece.start, piece.stop))
        else:
            self._pieces.append((piece.start, piece.stop, records))
        self.left -= piece.stop - piece.start
        if self.left == 0:
            self._arrived.release()

    def give_up(self) -> None:
        """Wake the worker that waits for the records, because no more records are read.

        The worker then raises RuntimeError.
        """
        if self._arrived.locked():
            self._arrived.release()


class InPlace(NamedTuple):
    """A span (the consecutive positions of a task) whose first records the worker reads itself.

    Threads or coroutines (readers) read the other records of the span in advance. While the worker
    reads, it counts as a reader. If the largest number of readers is busy already, the worker does
    not read, and the readers read the first records, too.

    Attributes:
        reads: queue of the spans to be read.
        read: function that takes keys and returns records.
        keys: keys of the first records.
        pace: measured speed of the source.
        rest: the records after these first records; None if there are none.
    """

    reads: ReadQueue
    read: Callable[[Keys], Any]
    keys: Keys
    pace: ReadPace
    rest: Reading | None = None

    def records(self) -> ReadRecords | None:
        """Return the records of the span: read the first ones in this thread, wait for the others.

        A span has the consecutive positions of a task. Return None if the source raised an
        exception and no record can be returned. The worker then reads the records itself. May be
        called only once.
        """
        if (
            self.rest is None
            and self.pace.step(len(self.keys)) == len(self.keys)
            and self.reads.enter()
        ):
            return self._read_here(self.keys)
        parts = [
            *self._parts(),
            *([] if self.rest is None else [(self.rest.count, self.rest.records())]),
        ]
        return parts[0][1] if len(parts) == 1 else _joined(parts)

    def _parts(self) -> Iterator[tuple[int, ReadRecords | None]]:
        """Read the first records of the span (the consecutive positions of a task) in steps.

        For each step, yield the number of its records, and the records (None if they could not be
        read). If a step has waited for a disk or network, the readers (threads or coroutines) read
        the remaining records.
        """
        step = self.pace.step(len(self.keys))
        for start in range(0, len(self.keys), step):
            if start and not self.pace.is_quick:
                left = self.keys[start:]
                yield len(left), self._read_by_readers(left)
                return
            keys = self.keys[start : start + step]
            yield (
                len(keys),
                self._read_here(keys) if self.reads.enter() else self._read_by_readers(keys),
            )

    def _read_by_readers(self, keys: Keys) -> ReadRecords:
        return self.reads.add(Reading(self.reads, self.read, keys, self.pace)).records()

    def _read_here(self, keys: Keys) -> ReadRecords | None:
        """Read records in the calling thread, which counts as a reader.

        Return None if the source raises an exception. The processor time is measured only if it may
        change on which thread the next records are read, because measuring it takes longer than
        reading a record in memory.
        """
        looks = not self.pace.is_surely_quick
        at_work, began = thread_time() if looks else 0.0, perf_counter()
        try:
            records = self.read(keys)
        except Exception as error:
            raise_if_of_signal_handler(error)
            return None  # the worker meets it again
        finally:
            self.reads.leave()
        took = perf_counter() - began
        self.pace.note_in_place(len(keys), took, thread_time() - at_work if looks else None)
        return ReadRecords(records, (), took)


def _joined(parts: Sequence[tuple[int, ReadRecords | None]]) -> ReadRecords:
    """Join the results of consecutive reads into one result.

    Args:
        parts: for each read, the number of its records, and its result. The result is None if the
            read returned no record.
    """
    records, unread, seconds, start = list[Any](), list[Unread](), 0.0, 0
    for count, read in parts:
        if read is None:
            read = ReadRecords([None] * count, [Unread(0, count)])
        unread += [Unread(start + some.start, start + some.stop) for some in read.unread]
        records.extend(read.records)  # `+=` would add an array's numbers
        seconds, start = seconds + read.seconds, start + count
    return ReadRecords(records, unread, seconds)


class Piece(NamedTuple):
    """Range `[start, stop)` of the records of a span (the consecutive positions of a task).

    One call of the source reads the piece, alone or together with pieces of other spans.

    Attributes:
        reading: the span.
        start: first record, counted from the beginning of the span.
        stop: end of the records, exclusive.
        nbytes: estimated bytes of the records.
    """

    reading: Reading
    start: int
    stop: int
    nbytes: float

    @property
    def length(self) -> int:
        return self.stop - self.start

    @property
    def keys(self) -> Keys:
        return self.reading.keys[self.start : self.stop]


class ReadCall:
    """One call that reads from a source, for pieces (ranges of records) of one or several spans.

    A span has the consecutive positions of one task.

    Args:
        pieces: the pieces. All are of the same source: they have the same function `read` and the
            same `ReadPace` (mean time and size of the source's records).
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.read = pieces[0].reading.read
        self.pace = pieces[0].reading.pace
        self.count = sum(piece.length for piece in pieces)
        self.keys = (
            pieces[0].keys if len(pieces) == 1 else np.concatenate([piece.keys for piece in pieces])
        )

    def divide(self, records: Sequence[Any] | None) -> Iterator[tuple[Piece, Sequence[Any] | None]]:
        """Divide the records that the call returned among its pieces (ranges of records of a task).

        Args:
            records: the records of all pieces, one piece after another; None if the call failed.

        Yields:
            Each piece with its records; with None if the call failed.
        """
        start = 0
        for piece in self._pieces:
            whole = records is None or piece.length == self.count
            yield (
                piece,
                records if whole or records is None else records[start : start + piece.length],
            )
            start += piece.length


def bytes_of_records(records: Sequence[Any]) -> float:
    """Return an estimate of the bytes of all records together, from at most four of them.

    >>> bytes_of_records([np.zeros(1000, np.uint8)] * 8)
    8896.0
    """
    some = records[:: -(-len(records) // SAMPLES) or 1]
    return (
        sum(max(bytes_of(record), sys.getsizeof(record)) for record in some)
        / max(len(some), 1)
        * len(records)
    )
