"""Which part of a loop the user waits for. Pure.

In: what was measured. Out: one finding: what kind of thing it is, and what it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .measured import Measured, Part

Kind: TypeAlias = Literal[
    "step",
    "operation",
    "small calls",
    "slow record",
    "stacking",
    "reading",
    "groups",
    "small files",
    "waiting source",
    "hand-over",
    "small batches",
    "lock",
    "transform",
    "hosts",
    "transfer",
]
"""The user's own step; an operation; operations that are called for each record and do little; a record that takes far longer
than others; the making of batches; reading, of one of four sorts; batches that are costly to hand over, or too small; the
interpreter's lock; and, of a device feeder, its transform, other hosts, or the transfer."""

LITTLE = 0.05
"""Share of the time: a loop that waits for less gains nothing by faster batches."""

SHORT_CALL = 50e-6
"""Seconds: calls shorter than this are mostly Python's own cost of a call and of small arrays. Chosen."""

SMALL_BATCH, FEW_IN_BATCH = 1e-3, 64
"""Seconds and records: batches of fewer, which take less, may cost more by their number than by what is in them. Chosen."""

RARE, MUCH = 0.2, 0.4
"""Shares of the tasks and of the time: if fewer tasks take more than this, it is rare records that are waited for. Chosen."""

FEW_RECORDS = 64
"""Records in a file: with fewer, opening files is what takes the time. Chosen."""

GROUPED = 2.0
"""If a record takes so many times as long in the sampler's order as among neighbours, much is read in vain."""

MANY_TOGETHER = 8
"""Records that are decompressed to read one: from here on that is what takes the time. Chosen."""

WAITS = 0.5
"""Of the time of reading: with the processor at work for less, the source waits for something."""

LOCKED = 2.5e-3
"""Seconds that a thread waits for the interpreter's lock when others hold it all the time: half of Python's 5 ms."""


@dataclass(frozen=True)
class Finding:
    """What is waited for.

    Attributes:
        kind: see `Kind`.
        stage: what it is called: an operation's name, "reading", "hand-over", "your step" and so on.
        part: what workers do there, if it is theirs.
    """

    kind: Kind
    stage: str
    part: Part | None = None


def found(measured: Measured) -> Finding:
    """What the user waits for the longest.

    >>> found(Measured(100, 0.01, 0.0001, 0.0, 32, 4096, ())).stage
    'your step'
    """
    if measured.step_known and measured.share_waited <= LITTLE:
        return Finding("step", "your step")
    of_feeder = _of_feeder(measured)
    if of_feeder is not None:
        return of_feeder
    if measured.worker_kind == "thread" and measured.workers > 1 and measured.gil > LOCKED:
        return Finding("lock", *_largest_operation(measured))
    if _is_small(measured):
        return Finding("small batches", "hand-over" if measured.workers else "between operations")
    if measured.workers and measured.hand_over > measured.waited / 2:
        return Finding("hand-over", "hand-over")
    return _of_work(measured)


def _largest_operation(measured: Measured) -> tuple[str, Part | None]:
    part = max(measured.parts, key=lambda part: part.seconds, default=None)
    return (part.name, part) if part else ("operations", None)


def _is_small(measured: Measured) -> bool:
    """Whether it is the number of batches that takes the time: what each of them costs, however few records it has."""
    each = measured.seconds_of("between", "stacking", "packing") + measured.hand_over * measured.workers
    whole = measured.work + measured.hand_over * measured.workers
    return measured.records < FEW_IN_BATCH and measured.waited < SMALL_BATCH and each > whole / 2


def _of_feeder(measured: Measured) -> Finding | None:
    """The part of a device feeder that is waited for longer than for the host's batches, if one is."""
    fed = measured.feeding
    if fed is None:
        return None
    reading = measured.waited - fed.transforming - fed.agreeing - fed.transfer - fed.hand_over
    parts = {
        fed.transforming: Finding("transform", "transform="),
        fed.agreeing: Finding("hosts", "other hosts"),
        fed.transfer: Finding("transfer", "transfer"),
        fed.hand_over: Finding("small batches", "hand-over"),
    }
    return parts[max(parts)] if max(parts) > reading else None


def _of_work(measured: Measured) -> Finding:
    if not measured.parts:
        return Finding("hand-over", "hand-over")
    largest = max(measured.parts, key=lambda part: part.seconds)
    rare = _rare_part(measured)
    if rare is not None:
        return Finding("slow record", rare.name, rare)
    if largest.kind == "packing":
        return Finding("hand-over", "hand-over", largest)
    stacking = _stacking_of_memory(measured)
    if stacking is not None:
        return Finding("stacking", stacking.name, stacking)
    if largest.kind == "reading" and not measured.source.in_memory:
        return Finding(_sort_of_reading(measured), "reading", largest)
    return _of_operations(measured, largest)


def _rare_part(measured: Measured) -> Part | None:
    """The operation that takes far longer for rare records, if much of the time goes into these."""
    rare = measured.rare
    if rare is None or rare.share < MUCH or rare.few > RARE:
        return None
    return next((part for part in measured.parts if part.name == rare.name), None)


def _stacking_of_memory(measured: Measured) -> Part | None:
    """The batch, where records that lie in memory are gathered one by one and stacked, and little else is done."""
    batch = next((part for part in measured.parts if part.kind == "stacking"), None)
    gathered = measured.seconds_of("reading", "stacking", "between")
    listed = measured.source.in_memory and not measured.source.columns and not measured.reads_memory_slowly
    return batch if listed and gathered > measured.work / 2 else None


def _sort_of_reading(measured: Measured) -> Kind:
    source = measured.source
    if source.evaluates:
        return "reading"
    if source.files and source.records < FEW_RECORDS * source.files:
        return "small files"
    if source.together >= MANY_TOGETHER or (source.consecutive and source.random > GROUPED * source.consecutive):
        return "groups"
    return "waiting source" if source.at_work < WAITS else "reading"


def _of_operations(measured: Measured, largest: Part) -> Finding:
    if largest.kind != "batch":
        each = max(
            (part for part in measured.parts if part.kind == "record"), key=lambda part: part.seconds, default=None
        )
        calls = measured.seconds_of(
            "record", "stacking", "between", *(("reading",) if measured.source.in_memory else ())
        )
        if each is not None and calls < SHORT_CALL * each.calls:
            return Finding("small calls", each.name, each)
    kind: Kind = "stacking" if largest.kind == "stacking" else "reading" if largest.kind == "reading" else "operation"
    return Finding(kind, largest.name, largest)
