"""Decide, from measured reads, on which thread a source's records are read, and how many per call.

In: time, processor time and bytes of reads. Out: whether the thread that needs records reads them
itself; how many records to read in one call (a piece).

Reading in advance on another thread is faster if reads wait for a disk or network, or if they
compute for long without the GIL. It is slower if reads are very quick, because handing the records
over to the other thread takes time, and because two threads take turns on one GIL. No property of
the source says which of these is the case, so it is measured. Only reads in the thread that needs
the records show whether a source waits. On other threads, waiting for the GIL looks the same.
"""

from __future__ import annotations

from time import perf_counter

from ....sources.facts import SourceFacts

# Chosen: a hundred times as long as handing records over to another thread.
PIECE_SECONDS = 1e-3
"""Seconds that a reader should take for a piece, if records are read one by one.

A piece is the records that it reads in one go.
"""

# Chosen: far more than a call costs, far less than a step.
JOINED_SECONDS = 10e-3
"""Largest expected duration of a call that reads records for several tasks, in seconds."""

# Handing records over takes as long. Measured with records in memory.
QUICK_CALL_SECONDS = 50e-6
"""If a call takes fewer processor seconds than this, reading on another thread does not pay."""

# Measured with `mnist`.
QUICK_RECORD_SECONDS = 2e-6
"""Processor seconds of a record below which reading on another thread does not pay.

This holds whatever a call takes.
"""

# Chosen: more than the errors of the two clocks.
WAITING_SECONDS, WAITING_SHARE = 5e-6, 0.25
"""A read waits if time minus processor time exceeds these seconds per record, and this share."""

# Measured with ArrayRecord.
USED_SHARE = 1 / 2
"""Reading on other threads pays if using records takes at least this share of the reading time."""

# Another program may cause a single short wait.
LONG_WAIT_SECONDS = 1e-3
"""After one wait of this number of seconds per record, threads read ahead.

A shorter wait has to occur twice.
"""

# Chosen.
TRIAL_SHARE = 0.01
"""Share of time, while threads read a source, for trial reads in the worker's own thread."""

# After this number of slow records, threads read the others.
CAREFUL_STEP = 16
"""Number of records that the worker's thread reads at a time, once quick reads have waited."""

# The first read opens files, so its time should soon lose its weight.
NEWEST = 1 / 4
"""Weight of the newest measurement in the moving means."""


class ReadPace:
    """Mean time, processor time and bytes of one record of a source, measured from its reads.

    Threads may share it; at worst a measurement is lost.

    Args:
        calls: for a source that reads many keys in one call: the number of concurrent calls that
            are useful. The records that wait to be read are divided equally among these calls; with
            1, a call reads a whole span (the consecutive positions of a task). None if the source
            reads records one by one.
        joins: True if a call may read records of several spans.

    Attributes:
        joins: True if a call may read records of several spans.
        is_quick: True if reads in the thread that needs the records do not wait. A single short
            wait does not change it.
        nbytes: mean bytes of a record; None before the first is measured.
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
        self._used: float | None = (
            None  # seconds between two spans, of a record, in which no span was waited for
        )
        self._given: tuple[float, int] | None = None  # when records were given, and how many
        self.nbytes: float | None = None

    def in_place(self, count: int) -> int:
        """Return how many of the next `count` records the thread that needs them should read.

        The result is `count` if the source is quick (its reads do not wait), otherwise 0. Once in a
        while, it is a few records of a slow source: if reading them does not wait, the source
        counts as quick.
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
        """Return True if the thread that needs the next `count` records should read all of them."""
        return self.is_quick and self._seconds is not None and self._is_cheap(count)

    def step(self, count: int) -> int:
        """Return how many of `count` records to read before checking again if the source is quick.

        Called by a thread that needs the records and reads them itself. A source is quick if its
        reads do not wait.
        """
        return min(CAREFUL_STEP, count) if self._changes and self._calls is None else count

    def _is_cheap(self, count: int) -> bool:
        if self.joins:  # several spans in one call take less
            return self._calls != 1 and self._processor * count < QUICK_CALL_SECONDS
        each = 1 if self._calls is None else count
        return self._processor < QUICK_RECORD_SECONDS or self._processor * each < QUICK_CALL_SECONDS

    @property
    def is_surely_quick(self) -> bool:
        """True if the source is quick (reads do not wait) and the last read did not wait.

        The caller then does not measure the processor time of the next read.
        """
        return self.is_quick and not self._waited

    def note_in_place(self, count: int, seconds: float, processor: float | None) -> None:
        """Record the time of a read of `count` records in the thread that needed them.

        Args:
            count: number of records.
            seconds: seconds of the read.
            processor: processor seconds of the read. None if they were not measured: the mean of
                earlier reads is used instead, so that a read that suddenly takes long counts as a
                wait. The caller then measures the next read, to find out whether reads really wait,
                or compute for longer.
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
        """Record the seconds and processor seconds of a read of `count` records."""
        each, at_work = seconds / count, processor / count
        if self._seconds is None:
            self._seconds, self._processor = each, at_work
        else:
            self._seconds += (each - self._seconds) * NEWEST
            self._processor += (at_work - self._processor) * NEWEST

    @property
    def is_called_here(self) -> bool:
        """True if the thread that needs records should make the read call itself.

        This is so if two conditions hold. First, several concurrent calls are not faster than one.
        Second, the records of a call are used up very soon. To read the next ones meanwhile, on
        another thread, would then save less time than it takes to hand them over.
        """
        if not self.joins or self._calls != 1:
            return False
        return (
            self._used is None or self._seconds is None or self._used < USED_SHARE * self._seconds
        )

    def note_asked(self) -> None:
        """Record that a worker asks for more records, because it has used the last ones."""
        if self._given is not None:
            used = (perf_counter() - self._given[0]) / self._given[1]
            self._used = used if self._used is None else self._used + (used - self._used) * NEWEST

    def note_given(self, count: int) -> None:
        """Record that `count` records were handed to the worker that needed them."""
        self._given = perf_counter(), count

    def note_bytes(self, count: int, nbytes: float) -> None:
        """Record that `count` records have `nbytes` bytes together, for the mean size."""
        each = nbytes / count
        self.nbytes = each if self.nbytes is None else self.nbytes + (each - self.nbytes) * NEWEST

    def piece(self, count: int, left: int, waiting: int, room: int) -> int:
        """Return the length of the next piece, which is the number of records to read in one go.

        * If records are read one by one, reading a piece takes about 1 ms; the first piece has one
          record.
        * If many keys are read in one call, a piece is a share of the span (the consecutive
          positions of a task), or more if other spans also wait to be read.
        * If a call may read several spans, the piece may continue in the next span, as far as
          `room` allows and the call takes at most 10 ms.

        Args:
            count: number of records of the span in which the piece begins.
            left: number of records of this span whose reading has not begun.
            waiting: number of records of all spans whose reading has not begun.
            room: number of records that may be read in advance now. The piece may have more records
                only if it is a share of one span.
        """
        if self._calls is None:
            quick = (
                1
                if self._seconds is None
                else max(min(int(PIECE_SECONDS / max(self._seconds, 1e-7)), room), 1)
            )
            return min(quick, left)
        share = (
            count if self._calls == 1 and not self.joins else -(-max(count, waiting) // self._calls)
        )
        within = min(share, left)
        if not self.joins or self._seconds is None:
            return within
        return max(within, min(share, room, int(JOINED_SECONDS / max(self._seconds, 1e-7))))

    def is_worth_a_call(self, room: int, capacity: int) -> bool:
        """Return True if a call should begin although no worker waits for its records.

        There must be room for at least one record. A call that may read several spans (the
        consecutive positions of tasks) should also read many records: if the calls share `capacity`
        equally, `room` must be at least half of the share of one call.

        Args:
            room: number of records whose reading may begin now.
            capacity: the largest value of `room`.
        """
        return room > 0 and (not self.joins or 2 * room * (self._calls or 1) >= capacity)


def pace_of(facts: SourceFacts, calls: int) -> ReadPace:
    """Return a `ReadPace` (measured speed of reads) for a source that is read in advance.

    Args:
        facts: facts about the source. They say whether it reads records one by one.
        calls: largest number of calls that read from the source at a time.
    """
    if facts.reads_singly:
        return ReadPace(None)
    return ReadPace(1) if facts.reads_ahead is True else ReadPace(calls, joins=True)
