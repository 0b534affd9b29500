"""Finds the part of a loop that the user waits for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..measured import Measured, WorkPart
from .model import is_limited, waits_for_reads

Kind: TypeAlias = str
"""The thing that is waited for: the user's own "step"; the "start" of workers that begin anew for each loop; a "filter" that
leaves out records for which work was done; the "sampler"; an "operation"; "small calls" of operations for each record that do
little; a "slow record", which takes far longer than others; "stacking", the making of batches; "reading", or sorts of it:
"groups", "small files", "waiting source", "limited source"; the "hand-over" of costly batches; "small batches"; the
interpreter's "lock"; "turns" of calls that wait for one another; and, of a device feeder, its "transform", other "hosts", or
the "transfer"."""

LITTLE = 0.05  # Share of the time: a loop that waits for less gains nothing by faster batches
SHORT_CALL = 50e-6
"""Seconds: calls shorter than this are mostly Python's own cost of a call and of small arrays. Chosen."""

SMALL_BATCH, FEW_IN_BATCH = 1e-3, 64
"""Seconds and records: batches of fewer, which take less, may cost more by their number than by what is in them. Chosen."""

RARE, MUCH = 0.45, 0.4
"""Shares of the tasks and of the time: if fewer tasks take more than this, it is rare records that are waited for. Chosen."""

FEW_RECORDS = 64  # Records in a file: with fewer, opening files is what takes the time. Chosen
GROUPED = 2.0
"""If a record takes so many times as long in the sampler's order as among neighbours, much is read in vain."""
MANY_TOGETHER = 8  # Records that are decompressed to read one: from here on that is what takes the time. Chosen
WAITS = 0.5  # Of the time of reading: with the processor at work for less, the source waits for something
BUSY = 0.9  # Of their time: workers that work for more of it are what decides how long a step is. Chosen

FILTERED = 0.5
"""Share of the records that a filter leaves out, and of the work: from here on, work in vain is waited for. Chosen."""

IN_TURN = 1.7
"""A call that takes so many times as long among others as alone waits for them. Chosen: processors share caches, too."""

LOCKED = 2.5e-3
"""Seconds that a thread waits for the interpreter's lock when others hold it all the time: half of Python's 5 ms."""


@dataclass(frozen=True)
class Finding:
    """The thing that is waited for.

    Attributes:
        kind: see `Kind`.
        stage: what it is called: an operation's name, "reading", "hand-over", "your step" and so on.
        part: what workers do there, if it is theirs.
    """

    kind: Kind
    stage: str
    part: WorkPart | None = None


@dataclass(frozen=True)
class Change:
    """Something to do.

    Attributes:
        what: to do, as it stands in a list.
        seconds: of a step after it.
        at_most: it is not known how much of the time it saves: a step takes so long where it saves all.
        cure: how it ends the sentence on what was found, "5 workers would hide it"; "" for one that does not.
    """

    what: str
    seconds: float
    at_most: bool = False
    cure: str = ""


def found(measured: Measured) -> Finding:
    """Find what the user waits for the longest.

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
    if largest is not None and measured.worker_kind == "thread" and measured.workers > 1 and measured.gil > LOCKED:
        return Finding("lock", largest.name, largest)
    if largest is not None and rare is None and 0 < measured.alone * IN_TURN < largest.seconds:
        return Finding("turns", largest.name, largest)
    if _is_small(measured):
        return Finding("small batches", "hand-over" if measured.workers else "between operations")
    if largest is None or (measured.workers and measured.hand_over > measured.waited / 2):
        return Finding("hand-over", "hand-over")
    if rare is not None:
        return Finding("slow record", rare.name, rare)
    if dropped and dropped.share > FILTERED and dropped.before * dropped.share > FILTERED * measured.work:
        return Finding("filter", dropped.name)
    return _of_work(measured, largest)


def _is_small(measured: Measured) -> bool:
    """The number of batches takes the time: each costs something, however few records it has."""
    each = measured.seconds_of("between", "stacking", "packing") + measured.hand_over * measured.workers
    if measured.source.columns and not measured.reads_memory_slowly:
        each += measured.seconds_of("reading")  # one call for a batch
    whole = measured.work + measured.hand_over * measured.workers
    few = measured.batch < FEW_IN_BATCH and measured.waited < SMALL_BATCH
    return few and each > whole / 2 and not waits_for_reads(measured)


def _of_feeder(measured: Measured) -> Finding | None:
    """The part of a device feeder that is waited for longer than for the host's batches, if one is."""
    fed = measured.feeding
    if fed is None or (measured.workers and measured.work > BUSY * measured.workers * measured.elapsed):
        return None  # workers that never rest decide how long a step is, whatever else is waited for meanwhile
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
    """The operation that takes far longer for rare records, if much of the time goes into these."""
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
    gathered = source.in_memory and not source.columns and not measured.reads_memory_slowly  # one by one
    if batch and gathered and measured.seconds_of("reading", "stacking", "between") > measured.work / 2:
        return Finding("stacking", batch.name, batch)
    if largest.kind == "reading" and not source.in_memory:
        return Finding(_sort_of_reading(measured), "reading", largest)
    each = max((part for part in parts if part.kind == "record"), key=lambda part: part.seconds, default=None)
    calls = measured.seconds_of("record", "stacking", "between", *(("reading",) if source.in_memory else ()))
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
    if source.together >= MANY_TOGETHER or (source.consecutive and source.random > GROUPED * source.consecutive):
        return "groups"
    if source.at_work >= WAITS:
        return "reading"
    return "limited source" if is_limited(measured) else "waiting source"
