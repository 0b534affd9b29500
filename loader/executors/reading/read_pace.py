"""Decides where the records of a source are read, and how many at once, after what reads of it took.

In: time, processor time and bytes of reads. Out: whether to read in the thread that needs the records; the length of a piece.

A thread that reads ahead helps in two cases: reads that wait (for a disk, a network), and reads that compute for long
without the GIL. It hurts where records cost next to nothing: handing them over, and two threads in turn on one GIL, take
longer than the reads. No property of the source tells these cases apart, so they are measured. Only a read in the thread
that needs the records tells whether a source waits: on other threads, waiting for the GIL looks the same.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from ....sources.protocol import reads_singly

PIECE_SECONDS = 1e-3
"""Time that a piece of records should take where they are read one by one. Chosen: a hundred times a hand-over."""

JOINED_SECONDS = 10e-3
"""Time that a call may take which reads records of several spans. Chosen: far more than a call costs, far less than a step."""

QUICK_CALL_SECONDS = 50e-6
"""Processor time of a call below which another thread does not pay: a hand-over takes as long. Measured in memory."""

QUICK_RECORD_SECONDS = 2e-6
"""Processor time of a record below which the same holds, however many records a call reads. Measured with `mnist`."""

WAITING_SECONDS, WAITING_SHARE = 5e-6, 0.25
"""A source waits if a record takes longer than its processor time by both of these. Chosen: above the noise of two clocks."""

USED_SHARE = 1 / 2
"""Least use of records, as a share of the time of their read, that makes reading ahead pay. Measured with ArrayRecord."""

LONG_WAIT_SECONDS = 1e-3
"""A record that waited this long calls threads at once; a shorter wait has to come twice, as another program may cause one."""

TRIAL_SHARE = 0.01
"""Share of the time that trials in place may take, while a source is read on threads. Chosen."""

CAREFUL_STEP = 16
"""Records to read in place at a time once a source has changed from quick to slow: after so many slow ones threads go on."""

NEWEST = 1 / 4
"""Weight of the newest measurement in the means. The first read opens files, and should be forgotten soon."""


class ReadPace:
    """Means of the time, the processor time and the bytes of a record. Threads may share one: at worst a note is lost.

    Args:
        calls: of a source that reads many keys in a call, the number of calls that help at a time: a span is divided equally
            among them. 1: each span in one call. None: the source reads its records one by one.
        joins: a call may read records of several spans.

    Attributes:
        joins: the argument.
        is_quick: the last reads in the thread that needed the records did not wait.
        nbytes: of a record; None: no record was looked at yet.
    """

    def __init__(self, calls: int | None, joins: bool = False) -> None:
        self._calls = calls
        self.joins = joins
        self._seconds: float | None = None  # of a record
        self._processor = 0.0  # seconds of these in which the reading thread was at work
        self.is_quick = False  # by the last reads in place
        self._changes = False  # it was quick once, and then waited
        self._waited = False  # the last read in place waited
        self._last_trial = 0.0
        self._used: float | None = None  # seconds between two spans, of a record, in which no span was waited for
        self._given: tuple[float, int] | None = None  # when records were given, and how many
        self.nbytes: float | None = None

    def in_place(self, count: int) -> int:
        """Number of the next `count` records that the thread that needs them should read itself; 0 for none.

        All of them; or, for a trial, a piece.
        """
        if self.is_in_place(count):
            return count
        if self._seconds is None or not self._is_cheap(count):
            return 0
        now, piece = perf_counter(), min(self.piece(count, count, count, count), count)
        if (now - self._last_trial) * TRIAL_SHARE < self._seconds * piece:
            return 0
        self._last_trial = now
        return piece

    def is_in_place(self, count: int) -> bool:
        """True if the thread that needs the next `count` records should read all of them itself."""
        return self.is_quick and self._seconds is not None and self._is_cheap(count)

    def step(self, count: int) -> int:
        """Number of `count` records to read in place before the next look at the clock."""
        return min(CAREFUL_STEP, count) if self._changes and self._calls is None else count

    def _is_cheap(self, count: int) -> bool:
        if self.joins:  # several spans in one call take less
            return self._calls != 1 and self._processor * count < QUICK_CALL_SECONDS
        each = 1 if self._calls is None else count
        return self._processor < QUICK_RECORD_SECONDS or self._processor * each < QUICK_CALL_SECONDS

    @property
    def is_surely_quick(self) -> bool:
        """True if the next read in place needs no look at the processor time: the last two reads did not wait."""
        return self.is_quick and not self._waited

    def note_in_place(self, count: int, seconds: float, processor: float | None) -> None:
        """Note what a read of `count` records took in the thread that needed them.

        Without a look at its processor time (None) the records are taken to need as much of it as those before. So a read
        that suddenly takes long counts as a wait; if it computed, the next one, which is looked at, says so.
        """
        if processor is None:
            processor = min(self._processor * count, seconds)
        each = seconds / count
        wait = each - processor / count
        waits = wait > max(WAITING_SECONDS, WAITING_SHARE * each)
        if not self.is_quick:  # what other threads took has the waiting for the GIL in it
            self._seconds = None
        was_quick = self.is_quick
        self.is_quick = not waits or (was_quick and not self._waited and wait < LONG_WAIT_SECONDS)
        self._waited = waits
        if was_quick and not self.is_quick:
            self._changes, self._last_trial = True, perf_counter()
        self.note(count, seconds, processor)

    def note(self, count: int, seconds: float, processor: float) -> None:
        """Note what a read of `count` records took."""
        each, at_work = seconds / count, processor / count
        if self._seconds is None:
            self._seconds, self._processor = each, at_work
        else:
            self._seconds += (each - self._seconds) * NEWEST
            self._processor += (at_work - self._processor) * NEWEST

    @property
    def is_called_here(self) -> bool:
        """True if the thread that needs records should make the call itself.

        It does so if only one call at a time helps, and the records' use takes short: a hand-over would take longer.
        """
        if not self.joins or self._calls != 1:
            return False
        return self._used is None or self._seconds is None or self._used < USED_SHARE * self._seconds

    def note_asked(self) -> None:
        """A span is needed: since the one before it was given, its records were used."""
        if self._given is not None:
            used = (perf_counter() - self._given[0]) / self._given[1]
            self._used = used if self._used is None else self._used + (used - self._used) * NEWEST

    def note_given(self, count: int) -> None:
        """A span of `count` records was given to the thread that needed it."""
        self._given = perf_counter(), count

    def note_bytes(self, count: int, nbytes: float) -> None:
        """Note how many bytes `count` records have."""
        each = nbytes / count
        self.nbytes = each if self.nbytes is None else self.nbytes + (each - self.nbytes) * NEWEST

    def piece(self, count: int, left: int, waiting: int, room: int) -> int:
        """Length of the next piece, which begins in a span of `count` records, of which `left` are not begun.

        `waiting` records of all spans wait. One by one, a piece has as many records as take `PIECE_SECONDS`, one at first, but
        no more than there is `room` for. Else it is a share of the span, or more while other spans keep the calls busy; this
        may be more than the room. Where spans are joined, it goes past the end of the span as far as there is room, if it
        takes no longer than `JOINED_SECONDS`.
        """
        if self._calls is None:
            quick = 1 if self._seconds is None else max(min(int(PIECE_SECONDS / max(self._seconds, 1e-7)), room), 1)
            return min(quick, left)
        share = count if self._calls == 1 and not self.joins else -(-max(count, waiting) // self._calls)
        within = min(share, left)
        if not self.joins or self._seconds is None:
            return within
        return max(within, min(share, room, int(JOINED_SECONDS / max(self._seconds, 1e-7))))

    def is_worth_a_call(self, room: int, capacity: int) -> bool:
        """True if a call should begin for which nobody waits: there is room for `room` records of `capacity` altogether.

        Where spans are joined a call waits for room for half of its share, so that calls do not become short.
        """
        return room > 0 and (not self.joins or 2 * room * (self._calls or 1) >= capacity)


def pace_of(source: Any, calls: int) -> ReadPace:
    """A pace for a source, as its `reads_ahead` and `reads_singly` say (`sources.protocol`), with at most so many calls."""
    if reads_singly(source):
        return ReadPace(None)
    return ReadPace(1) if getattr(source, "reads_ahead", True) is True else ReadPace(calls, joins=True)
