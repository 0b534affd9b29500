"""Finds records that a source takes far longer to read than others.

In: a loop whose reads took longer than one alone does, and its tasks. Out: `Rare`. Records of a task are read once more, here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from ...loader.plan.leaf import Leaf
from ...loader.timing.times import TaskEvent
from ...loader.work.explain import place
from ...sources.protocol import reader_of
from .measured import Measured, Rare

LONG = 5.0
"""A read is a slow one that takes so many times what one in the middle takes."""

SECONDS = 3.0
"""For which records are read again. Chosen."""

RECORDS = 512
"""That are read again, at most."""


def slow_reads(measured: Measured, leaf: Leaf, tasks: Sequence[TaskEvent]) -> Rare | None:
    """The slowest read of the task whose records took longest, if it is slow whenever it is read; None if there is none."""
    reading = [task for task in tasks if task.times.under_way and task.stop > task.start and not task.made_of]
    if leaf.in_order or not reading:
        return None
    slowest = max(reading, key=lambda task: task.times.under_way / (task.stop - task.start))
    try:
        return _found(measured, leaf, range(slowest.start, min(slowest.stop, slowest.start + RECORDS)))
    except Exception:  # of the user's source: the loop that was measured has told of it, or went without these records
        return None


def _found(measured: Measured, leaf: Leaf, positions: range) -> Rare | None:
    until, seconds = time.monotonic() + SECONDS, dict[int, float]()
    for position in positions:
        seconds[position] = _read(leaf, position)
        if time.monotonic() > until:
            break
    usual = statistics.median(seconds.values())
    slow = {position: each for position, each in seconds.items() if each > LONG * usual}
    if not slow:
        return None
    worst = max(slow, key=lambda position: slow[position])
    again = _read(leaf, worst)
    if again < LONG * usual:
        return None  # it was the machine
    each = measured.read_seconds / measured.records
    rest = min(usual / each, 1.0)
    where = place(leaf, leaf.position(worst))
    return Rare("reading", min(again, slow[worst]), where, 1 - rest, len(slow) / len(seconds), rest)


def _read(leaf: Leaf, position: int) -> float:
    keys = leaf.record_keys(leaf.positions(position, position + 1))
    began = time.perf_counter()
    reader_of(leaf.source)(keys)
    return time.perf_counter() - began
