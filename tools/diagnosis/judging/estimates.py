"""Estimates of the seconds of a step, from measured parts of the work."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

from ..measured import Measured, PartKind

# From the workload `mnist`.
HAND_OVER = 1e-4
"""Seconds that the user's thread takes to get a batch from a worker, if this was not measured."""


CLOSE = 1.03  # a step that takes this many times as long as without waiting counts as good enough


# share of the time of all cores that counts as full. Chosen: other programs and the system need the
# rest
FULL = 0.8


MOST_WORKERS = 512


# Chosen: more threads cost more time than they save.
MOST_THREADS, MOST_COROUTINES = 256, 4096
"""Largest numbers of concurrent reads that are proposed: on threads, and as coroutines."""


AT_ONCE = (
    4  # if the user's step is unknown, at most this many times as many reads as now are proposed
)


ROOM = 1.1  # this many times as many reads are proposed as the average needs, because reads differ


SLOWED = 2.0  # a read that takes this many times as long beside others as alone waits for them


LAGS = (
    0.2  # if workers wait for reads for more than this share of their time, no more reads could run
)


MOST_LAG = (
    2.0  # largest factor between the possible and the real number of concurrent reads that is used
)


def step_seconds(measured: Measured, workers: int, *, reads: int | None = None) -> float:
    """Compute the seconds of a step with another number of workers or of concurrent reads.

    Args:
        measured: the measurement with the current numbers.
        workers: number of workers.
        reads: number of concurrent reads in each process or actor that reads ahead; None for the
            current number.

    >>> loop = Measured(100, 0.03, 0.02, 0.02, 32, 4096, (), workers=2)
    >>> round(step_seconds(loop, 4), 3)  # nothing to do: the user's own work is all that is left
    0.01
    """
    reading, busy, fed = (
        reading_seconds(measured, workers, reads),
        _busy(measured, reads),
        measured.feeding,
    )
    if workers == 0 and fed is None:
        return max(measured.own + busy + (measured.hand_over if measured.workers else 0.0), reading)
    cores = _seconds_of_cores(measured) if measured.worker_kind != "ray" else 0.0
    # or the feeder's thread
    longest = busy / workers if workers else busy + (fed.transforming if fed else 0.0)
    floor = measured.own + (measured.hand_over if measured.workers else HAND_OVER)
    floor += fed.transforming + fed.agreeing + fed.transfer if fed else 0.0
    return max(floor, longest, reading, cores) + measured.starting


def _seconds_of_cores(measured: Measured) -> float:
    """Compute the seconds that this machine's cores need for a step.

    Cores that other programs use are left out.
    """
    needed = measured.processor + measured.own_processor
    used = needed / measured.elapsed if measured.elapsed else 0.0
    return needed / max(measured.cores - measured.others, used, 1e-9)


def worker_seconds(alone: Measured) -> float:
    """Compute the seconds that one worker needs for a step, from a measurement in one thread.

    If the worker reads ahead, this is the longer of its work and its reads. Otherwise it does one
    after the other.

    Args:
        alone: the measurement.
    """
    if not alone.reads_ahead:
        return alone.work
    return max(_busy(alone, None), alone.read_seconds / alone.source.reads)


def _busy(measured: Measured, reads: int | None) -> float:
    """Compute the seconds of work that one worker needs for a step.

    Waiting for records that are read ahead does not count.

    Args:
        measured: the measurement.
        reads: number of concurrent reads, if the user would change to reading ahead; None: as
            measured.
    """
    if not measured.reads_ahead and not reads:
        return measured.work
    return measured.work - measured.seconds_of("reading") + measured.reading_processor


def enough_workers(measured: Measured) -> int:
    """Return the smallest number of workers that hides their work; at most 512.

    If more than some number gain nothing, return that number.
    """
    goal = CLOSE * step_seconds(measured, MOST_WORKERS)
    return 1 + bisect_left(
        range(1, MOST_WORKERS), True, key=lambda count: step_seconds(measured, count) <= goal
    )


def lighter(measured: Measured, keep: float, *kinds: PartKind, named: str = "") -> Measured:
    """Return the measurement after some parts of the work became lighter.

    For "reading", reads ahead and the times of the source become lighter, too. Nothing else
    changes.

    Args:
        measured: the measurement.
        keep: share of their seconds that these parts still take.
        *kinds: kinds of the parts.
        named: name of one more part; "" for none.
    """
    parts = tuple(
        replace(part, seconds=part.seconds * keep)
        if part.kind in kinds or part.name == named
        else part
        for part in measured.parts
    )
    if "reading" not in kinds:
        return replace(measured, parts=parts)
    source = measured.source
    source = replace(source, random=source.random * keep, processor=source.processor * keep)
    return replace(measured, parts=parts, read_seconds=measured.read_seconds * keep, source=source)


def all_cores_work(measured: Measured) -> bool:
    """Return True if the loop uses over 80 % of this machine's processor time.

    Never for a Ray cluster.
    """
    needed = measured.processor + measured.own_processor
    return measured.worker_kind != "ray" and needed > FULL * measured.cores * measured.elapsed


def share_waited(measured: Measured, seconds: float) -> float:
    """Return the share of a step of `seconds` seconds in which the user does no own work."""
    return max(1.0 - measured.own / seconds, 0.0) if seconds else 0.0


def possible(measured: Measured, workers: int | None = None, reads: int | None = None) -> int:
    """Return how many reads can run at a time together.

    They run in all places, i.e. processes or actors that read ahead.

    Args:
        measured: the measurement.
        workers: number of workers; None for the current number.
        reads: number of concurrent reads in each place; None for the current number.
    """
    each = measured.source.reads if reads is None else reads
    return max(each, 1) * measured.places(workers)


def under_way(measured: Measured) -> float:
    """Return the mean number of reads that ran at a time."""
    return measured.read_seconds / measured.elapsed if measured.elapsed else 0.0


def reading_seconds(measured: Measured, workers: int, reads: int | None = None) -> float:
    """Compute the seconds in which the records of a step can be read.

    The result is 0 without reading ahead, because reading then counts as work.

    Args:
        measured: the measurement.
        workers: number of workers.
        reads: number of concurrent reads in each process or actor that reads ahead; None for the
            current number.
    """
    if not measured.reads_ahead and not reads:
        return 0.0
    seconds = measured.read_seconds * lag(measured) / possible(measured, workers, reads)
    if is_limited(measured) and measured.places(workers) <= measured.places():
        seconds = max(seconds, measured.read_seconds / max(under_way(measured), 1e-9))
    return seconds


def waits_for_reads(measured: Measured) -> bool:
    """Return True if workers, or the user's thread, wait for records that are being read ahead."""
    return (
        measured.reads_ahead
        and measured.seconds_of("reading") > LAGS * max(measured.workers, 1) * measured.elapsed
    )


def lag(measured: Measured) -> float:
    """Return how many times as many reads could run at a time as did run, from 1 to 2.

    The result is 1 if workers did not wait for reads.
    """
    if not waits_for_reads(measured):
        return 1.0
    return min(max(possible(measured) / max(under_way(measured), 1e-9), 1.0), MOST_LAG)


def slowed(measured: Measured) -> float:
    """Return how many times as long a read takes beside others as alone; 1 if unknown."""
    alone = measured.source.random
    if not (measured.source.singly and alone and measured.records and measured.reads_ahead):
        return 1.0
    return measured.read_seconds / measured.records / alone


def is_limited(measured: Measured) -> bool:
    """Return True if reads wait for one another, not for processors or Python's lock."""
    at_work = measured.reading_processor / measured.places()
    return (
        slowed(measured) > SLOWED
        and at_work < measured.elapsed / 2
        and under_way(measured) > SLOWED
    )


def enough_reads(measured: Measured, goal: float) -> int:
    """Return how many reads must run at a time to read a step's records in time.

    The number is for each process or actor that reads ahead.

    The result is at most the largest number that is proposed.

    Args:
        measured: the measurement.
        goal: seconds in which the records of a step should be read.
    """
    needed = measured.read_seconds * lag(measured) / measured.places() / max(goal, 1e-9)
    now = max(measured.source.reads, 1)
    most = MOST_COROUTINES if measured.source.in_event_loop else MOST_THREADS
    most = most if measured.step_known else min(most, AT_ONCE * now)
    return min(max(4 * math.ceil(needed * ROOM / 4 - 1e-9), 4), max(most, now))  # 37.2 reads are 40
