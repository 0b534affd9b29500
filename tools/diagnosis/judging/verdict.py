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

from dataclasses import dataclass
from typing import TypeAlias

from ..measured import Measured, WorkPart
from .estimates import is_limited, waits_for_reads

UNLIMITED = 1 << 40  # a number of concurrent reads with which reading takes no time


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
    # one by one
    gathered = source.in_memory and not source.columns and not measured.reads_memory_slowly
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
