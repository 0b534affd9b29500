"""How many reads are under way, how many could be, and what more of them would do. Pure.

In: what was measured. Out: numbers of reads, and seconds of a step.

A source that waits gives a step's records in the time that their reads take, divided by how many are under way. Each place
that works reads ahead for itself: a worker process, or the user's process. Reads that take far longer among others than alone
wait for one another, and more of them at a time gain nothing.
"""

from __future__ import annotations

import math

from ..measured import Measured

MOST_THREADS, MOST_COROUTINES = 256, 4096
"""Reads under way in a place that are proposed, at most. Chosen: more threads take more time than they save."""

AT_ONCE = 4
"""Times as many reads as now are proposed at most, where the user's step is not known."""

ROOM = 1.1
"""Times as many as the average needs: reads differ."""

SLOWED = 2.0
"""A read that takes so many times as long among others as alone waits for them."""

LAGS = 0.2
"""Share of their time: places that wait for longer have as many reads under way as they get."""

MOST_LAG = 2.0
"""At most so many times fewer reads are under way than may be, as far as is believed."""


def possible(measured: Measured, workers: int | None = None, reads: int | None = None) -> int:
    """How many reads may be under way at a time, in all places; with other numbers of workers, or of reads in each."""
    each = measured.source.reads if reads is None else reads
    return max(each, 1) * places(measured, measured.workers if workers is None else workers)


def places(measured: Measured, workers: int) -> int:
    """Who reads ahead: each process, or actor, for itself."""
    return 1 if measured.worker_kind == "thread" else max(workers, 1)


def under_way(measured: Measured) -> float:
    """How many reads were under way, on average."""
    return measured.read_seconds / measured.elapsed if measured.elapsed else 0.0


def reading_seconds(measured: Measured, workers: int, reads: int | None = None) -> float:
    """Seconds of a step in which its records can be read; 0 where nobody reads ahead: then it is work as other work."""
    if not measured.reads_ahead and not reads:
        return 0.0
    seconds = measured.read_seconds * lag(measured) / possible(measured, workers, reads)
    if is_limited(measured) and places(measured, workers) <= measured.places:
        seconds = max(seconds, measured.read_seconds / max(under_way(measured), 1e-9))
    return seconds


def waits_for_reads(measured: Measured) -> bool:
    """Whether places that work wait for records that are read ahead."""
    return measured.reads_ahead and measured.seconds_of("reading") > LAGS * max(measured.workers, 1) * measured.elapsed


def lag(measured: Measured) -> float:
    """How many times fewer reads were under way than might have been, while places waited for them."""
    if not waits_for_reads(measured):
        return 1.0
    return min(max(possible(measured) / max(under_way(measured), 1e-9), 1.0), MOST_LAG)


def slowed(measured: Measured) -> float:
    """How many times as long a read takes among others as alone; 1 where that is not known."""
    alone = measured.source.random
    if not (measured.source.singly and alone and measured.records and measured.reads_ahead):
        return 1.0
    return measured.read_seconds / measured.records / alone


def is_limited(measured: Measured) -> bool:
    """Whether reads wait for one another, and not for the processors or the interpreter."""
    at_work = measured.reading_processor / measured.places
    return slowed(measured) > SLOWED and at_work < measured.elapsed / 2 and under_way(measured) > SLOWED


def served(measured: Measured) -> float:
    """How many reads at a time a source serves that has a limit."""
    return max(under_way(measured) / slowed(measured), 1.0)


def most_reads(measured: Measured) -> int:
    """That are proposed for a place."""
    return MOST_COROUTINES if measured.source.in_event_loop else MOST_THREADS


def enough_reads(measured: Measured, goal: float) -> int:
    """How many in each place read the records of a step in `goal` seconds; as many as are proposed, at most."""
    needed = measured.read_seconds * lag(measured) / measured.places / max(goal, 1e-9)
    now = max(measured.source.reads, 1)
    most = most_reads(measured) if measured.step_known else min(most_reads(measured), AT_ONCE * now)
    return min(_rounded(needed * ROOM), max(most, now))


def _rounded(count: float) -> int:
    """Up to a multiple of 4: 37.2 reads are 40."""
    return max(4 * math.ceil(count / 4 - 1e-9), 4)
