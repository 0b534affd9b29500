"""Stats as lines of text.

In: stats. Out: lines whose columns stand below one another.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...common.messages import shorten
from ...common.units import format_bytes, format_seconds
from .snapshot import StageStats, WorkerStats

NAME = 27
"""Characters of a name in a table."""


def table(what: str, elapsed: float, rows: Sequence[tuple[str, float]]) -> list[str]:
    r"""Seconds, and the shares of the time that they are.

    >>> print("\n".join(table("3 steps", 2.0, [("waited", 0.5), ("your own work", 1.5)])))
    3 steps in 2.000 s              seconds   share
      waited                          0.500   25.0%
      your own work                   1.500   75.0%
    """
    title = f"{what} in {elapsed:.3f} s"
    return [f"{title:31} seconds   share", *(_row(name, seconds, elapsed) for name, seconds in rows)]


def _row(name: str, seconds: float, whole: float) -> str:
    return f"  {shorten(name, NAME):{NAME}} {seconds:9.3f} {seconds / whole if whole else 0.0:7.1%}"


def throughput(records: int, steps: int, nbytes: int, elapsed: float) -> str:
    """Counts, and each per second.

    >>> throughput(64_000, 500, 2_000_000, 2.0)
    '64,000 records, 2.0 MB: 32,000 records/s, 250.0 steps/s, 1.0 MB/s'
    """
    each = 1 / elapsed if elapsed > 0 else 0.0
    whole = f"{records:,} records, {format_bytes(nbytes)}"
    return f"{whole}: {records * each:,.0f} records/s, {steps * each:,.1f} steps/s, {format_bytes(nbytes * each)}/s"


def lines_of_workers(workers: WorkerStats, worker_count: int, ahead: float) -> list[str]:
    """The shares of the workers' time; nothing without workers, whose work is the user's wait."""
    if worker_count == 0:
        return []
    memory = f", {format_bytes(workers.slab_bytes)} shared" if workers.most_slab_bytes else ""
    died = f", {workers.ended} died" if workers.ended else ""
    return [
        f"{worker_count} workers: busy {workers.busy:.1%}, without a task {workers.starved:.1%}, "
        f"hand-over {workers.hand_over:.1%}; {ahead:.1f} tasks ready{memory}{died}"
    ]


def lines_of_stages(stages: Sequence[StageStats], most: int) -> list[str]:
    """A title and at most `most` lines: the operations, or the longest ones and the sum of the others."""
    work = sum(stage.busy for stage in stages)
    rows = _rows(stages)
    if len(rows) > most:
        longest = sorted(range(len(rows)), key=lambda row: -rows[row][1])[: most - 1]
        others = [row for number, row in enumerate(rows) if number not in longest]
        rows = [rows[number] for number in sorted(longest)]
        rows.append((f"{len(others)} others", sum(row[1] for row in others), 0.0))
    return [
        f"{'work':31} seconds   share    each",
        *(f"{_row(name, seconds, work)} {format_seconds(each) if each else '':>9}" for name, seconds, each in rows),
    ]


def _rows(stages: Sequence[StageStats]) -> list[tuple[str, float, float]]:
    """Name, seconds, and seconds for each position or row."""
    rows = []
    for stage in stages:
        if stage.reads:
            rows.append(("reading", stage.reading, stage.reading / stage.inputs))
        if any(operation.timed for operation in stage.operations):
            rows += [(operation.name, operation.seconds, operation.per_input) for operation in stage.operations]
        elif stage.operations:
            names = ", ".join(operation.name for operation in stage.operations)
            rows.append((names, stage.between, stage.between / max(stage.inputs, 1)))
    between = sum(stage.between for stage in stages if any(operation.timed for operation in stage.operations))
    packing = sum(stage.packing for stage in stages)
    rows += [("between operations", between, 0.0), ("packing", packing, 0.0)]
    return [row for row in rows if row[1] > 0]
