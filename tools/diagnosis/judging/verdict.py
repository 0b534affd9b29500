"""Find the part of a loop that the user waits for, and compute a step's duration after a change.

It does no I/O.

Several things work at the same time, and a step takes as long as the slowest: the user's thread,
which receives batches and does the user's own work; the workers, which share their work; the
concurrent reads, which share the reading; and the processors, which do all work that is not
waiting. Workers in a Ray cluster have their own processors.

If a source waits, reading a step's records takes the total time of their reads, divided by the
number of concurrent reads. Each worker process, or the user's process, reads ahead for itself. If a
read takes far longer beside others than alone, reads wait for one another, and more of them gain
nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..measured import Measured, PartKind, WorkPart

# From the workload `mnist`.
HAND_OVER = 1e-4
"""Seconds that the user's thread takes to get a batch from a worker, if this was not measured."""

CLOSE = 1.03  # a step that takes this many times as long as without waiting counts as good enough
# share of the time of all cores that counts as full. Chosen: other programs and the system need the
# rest
FULL = 0.8
MOST_WORKERS = 512
UNLIMITED = 1 << 40  # a number of concurrent reads with which reading takes no time

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
    longest = (
        busy / workers if workers else busy + (fed.transforming if fed else 0.0)
    )  # or the feeder's thread
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


Kind: TypeAlias = str
"""What the user waits for. One of:

* "step": the user's own step;
* "start": workers that start anew for each loop;
* "filter": a filter that drops records after work was done for them;
* "sampler", "operation", "reading": the sampler, an operation, the reading of records;
* "groups", "small files", "waiting source", "limited source": special cases of reading;
* "small calls": operations that do little per record;
* "slow record": a record that takes far longer than others;
* "stacking": the making of batches;
* "hand-over": the hand-over of large batches;
* "small batches": the costs of each batch, however small;
* "lock": the interpreter's lock;
* "turns": calls that wait for one another;
* "transform", "hosts", "transfer": in a device feeder, its `transform`, other hosts, or the
  transfer.
"""

LITTLE = (
    0.05  # a loop that waits for less than this share of its time gains nothing by faster batches
)
SHORT_CALL = 50e-6
"""A call of fewer seconds mostly consists of Python's own cost for calls and small arrays."""
SMALL_BATCH, FEW_IN_BATCH = 1e-3, 64
"""Limit of seconds of a batch, as a share of those of the compared one.

If a batch takes fewer seconds and has fewer records, the cost of each batch may be more than that
of its records.
"""
RARE, MUCH = 0.45, 0.4
"""Shares of the tasks and of the time that tell of rare slow records.

If fewer than the first share of the tasks take more than the second share of the time, the user
waits for rare records.
"""
FEW_RECORDS = 64  # with fewer records in a file, opening files takes most of the time. Chosen
GROUPED = 2.0
"""Ratio of the times of the sampler's order and of the order of keys, as a limit.

Above it many records are read in vain.
"""
MANY_TOGETHER = (
    8  # if this many records are decompressed to read one, that takes most of the time. Chosen
)
# if the processor works for less than this share of the time of reading, the source waits for
# something
WAITS = 0.5
# if workers work for more than this share of their time, they decide how long a step is. Chosen
BUSY = 0.9
FILTERED = 0.5
"""Shares of records that a filter drops, and of the work before it, as limits.

If a filter drops more than the first, after more than the second, it is the finding.
"""

# Chosen: processors also share caches.
IN_TURN = 1.7
"""A call that takes this many times as long beside others as alone waits for the others."""

# Half of Python's 5 ms.
LOCKED = 2.5e-3
"""Seconds that a thread waits for Python's lock (GIL) if other threads always hold it."""


@dataclass(frozen=True)
class Finding:
    """Result of a diagnosis: what the user of a loop waits for.

    Attributes:
        kind: see `Kind`.
        stage: name of what is waited for: an operation's name, "reading", "hand-over", "your step"
            and so on.
        part: the part of the workers' work that is waited for; None if it is not such a part.
    """

    kind: Kind
    stage: str
    part: WorkPart | None = None


@dataclass(frozen=True)
class Change:
    """A proposed change of a loop.

    Attributes:
        what: description of the change, for a list.
        seconds: seconds of a step after the change.
        at_most: True if `seconds` is a best case.
        cure: end of the sentence about the finding, such as "5 workers would hide it"; "" if the
            change is not mentioned in the sentence.
    """

    what: str
    seconds: float
    at_most: bool = False
    cure: str = ""


def found(measured: Measured) -> Finding:
    """Return what the user of a measured loop waits for longest.

    >>> found(Measured(100, 0.01, 0.0001, 0.0, 32, 4096, ())).stage
    'your step'
    """
    largest = max(measured.parts, key=lambda part: part.seconds, default=None)
    rare, dropped = _rare_part(measured), measured.dropped
    if measured.step_known and measured.share_waited <= LITTLE:
        return Finding("step", "your step")
    if measured.starting > measured.waited / 2:
        return Finding("start", "start of the workers")
    if (of_feeder := _of_feeder(measured)) is not None:
        return of_feeder
    if (
        largest is not None
        and measured.worker_kind == "thread"
        and measured.workers > 1
        and measured.gil > LOCKED
    ):
        return Finding("lock", largest.name, largest)
    if largest is not None and rare is None and 0 < measured.alone * IN_TURN < largest.seconds:
        return Finding("turns", largest.name, largest)
    if _is_small(measured):
        return Finding("small batches", "hand-over" if measured.workers else "between operations")
    if largest is None or (measured.workers and measured.hand_over > measured.waited / 2):
        return Finding("hand-over", "hand-over")
    if rare is not None:
        return Finding("slow record", rare.name, rare)
    if (
        dropped
        and dropped.share > FILTERED
        and dropped.before * dropped.share > FILTERED * measured.work
    ):
        return Finding("filter", dropped.name)
    return _of_work(measured, largest)


def _is_small(measured: Measured) -> bool:
    """Return True if batches are so small that the cost of each batch takes most of the time."""
    each = (
        measured.seconds_of("between", "stacking", "packing")
        + measured.hand_over * measured.workers
    )
    if measured.source.columns and not measured.reads_memory_slowly:
        each += measured.seconds_of("reading")  # one call for a batch
    whole = measured.work + measured.hand_over * measured.workers
    few = measured.batch < FEW_IN_BATCH and measured.waited < SMALL_BATCH
    return few and each > whole / 2 and not waits_for_reads(measured)


def _of_feeder(measured: Measured) -> Finding | None:
    """Return the part of a device feeder that the user waits for.

    Return None if they wait longer for batches on the host.

    The result is also None without a feeder, and if the workers are busy almost all the time,
    because they then decide how long a step takes.
    """
    fed = measured.feeding
    if fed is None or (
        measured.workers and measured.work > BUSY * measured.workers * measured.elapsed
    ):
        # workers that never rest decide how long a step is, whatever else is waited for meanwhile
        return None
    reading = measured.waited - fed.transforming - fed.agreeing - fed.transfer - fed.hand_over
    parts = {
        fed.transforming: Finding("transform", "transform="),
        fed.agreeing: Finding("hosts", "other hosts"),
        fed.transfer: Finding("transfer", "transfer"),
    }
    if measured.records < FEW_IN_BATCH:
        parts[fed.hand_over] = Finding("small batches", "hand-over")
    return parts[max(parts)] if max(parts) > reading else None


def _rare_part(measured: Measured) -> WorkPart | None:
    """Return the operation (or reading) that takes far longer for a few records.

    Return None if these do not take much of the time.
    """
    rare = measured.rare
    if rare is None or rare.share < MUCH or rare.few > RARE:
        return None
    found = next((part for part in measured.parts if part.name == rare.name), None)
    little = found is not None and found.kind == "reading" and found.seconds < MUCH * measured.work
    return None if little else found


def _of_work(measured: Measured, largest: WorkPart) -> Finding:
    source, parts = measured.source, measured.parts
    if largest.kind == "sampler":
        return Finding("sampler", "sampler", largest)
    if largest.kind == "packing":
        return Finding("hand-over", "hand-over", largest)
    batch = next((part for part in parts if part.kind == "stacking"), None)
    gathered = (
        source.in_memory and not source.columns and not measured.reads_memory_slowly
    )  # one by one
    if (
        batch
        and gathered
        and measured.seconds_of("reading", "stacking", "between") > measured.work / 2
    ):
        return Finding("stacking", batch.name, batch)
    if largest.kind == "reading" and not source.in_memory:
        return Finding(_sort_of_reading(measured), "reading", largest)
    each = max(
        (part for part in parts if part.kind == "record"),
        key=lambda part: part.seconds,
        default=None,
    )
    calls = measured.seconds_of(
        "record", "stacking", "between", *(("reading",) if source.in_memory else ())
    )
    if largest.kind != "batch" and each is not None and calls < SHORT_CALL * each.calls:
        return Finding("small calls", each.name, each)
    kind = largest.kind if largest.kind in ("stacking", "reading") else "operation"
    return Finding(kind, largest.name, largest)


def _sort_of_reading(measured: Measured) -> Kind:
    source = measured.source
    if source.evaluates:
        return "reading"
    if source.files and source.records < FEW_RECORDS * source.files:
        return "small files"
    if source.together >= MANY_TOGETHER or (
        source.consecutive and source.random > GROUPED * source.consecutive
    ):
        return "groups"
    if source.at_work >= WAITS:
        return "reading"
    return "limited source" if is_limited(measured) else "waiting source"
