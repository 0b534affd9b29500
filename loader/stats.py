"""The statistics of an iterator: counts and times, and the times of single tasks.

`print` shows them as a table with advice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..common.messages import short_repr, shorten
from ..common.units import format_bytes, format_seconds
from .timing.observer import Observer
from .timing.quantiles import Quantiles, as_plain
from .timing.snapshot import Snapshot, StageNames, StageStats
from .timing.times import TaskEvent, WorkerEvent
from .timing.workers import WorkerStats

LITTLE = 0.05
"""Share of the loop's time.

If the loop waits for a smaller share, faster batches would not help.
"""

MUCH = 0.5
"""Share of the workers' time.

If waiting for records that are read ahead takes a larger share, the advice names reading.
"""

AHEAD = 1.2
"""Factor.

Reads are counted as done ahead if they take this many times the seconds for which workers wait for
them.
"""

NAME = 27
"""Largest number of characters of a name in a table."""

OPERATION_LINES = 6
"""Largest number of lines about operations in a table."""


@dataclass(frozen=True)
class IteratorStats(Snapshot):
    """A `Snapshot` with statistics of workers and single tasks; the result of `iterator.stats()`.

    `print` shows it as a table.

    Attributes:
        workers: statistics of the workers; without workers, of your thread. None if no task was
            timed.
        tasks: the last tasks that were timed, one by one, at most 2,000; empty with
            `ExecutionOptions(observe=False)`.
        worker_events: the last starts of worker processes, and ends of workers that ended by
            themselves or were killed.
        decision: if your thread makes the batches although `worker_count` asks for workers, a
            sentence that says why; otherwise "".
        quantiles: quantiles of times, by name. "next": the waits for the last 1,000 elements.
            "hand-over": the times in which results of the last timed tasks were handed over to your
            process. Other names: the times of the last timed tasks of each stage (operations that
            run in one task). Empty if no task was timed.
        last_waits: seconds of the waits for the last 1,000 elements, oldest first. If several
            elements came at once, the wait is counted for the first of them, and the others have 0.
    """

    workers: WorkerStats | None = None
    tasks: tuple[TaskEvent, ...] = field(default=(), repr=False)
    worker_events: tuple[WorkerEvent, ...] = field(default=(), repr=False)
    decision: str = ""
    quantiles: dict[str, Quantiles] = field(default_factory=dict, repr=False)
    last_waits: tuple[float, ...] = field(default=(), repr=False)

    @property
    def reads_under_way(self) -> float:
        """Mean number of concurrent reads of records."""
        return sum(stage.under_way for stage in self.stages) / self.elapsed if self.elapsed else 0.0

    def _waits_for_reads(self) -> bool:
        """Return True if workers mostly wait for records that other threads read in advance."""
        reading = sum(stage.reading for stage in self.stages)
        ahead = sum(stage.under_way for stage in self.stages) > AHEAD * reading
        return ahead and reading > MUCH * sum(stage.busy for stage in self.stages)

    @property
    def _start(self) -> float:
        """Seconds that the user waited at the start, until a worker began the first task.

        0 if the first task is no longer among the last tasks in `tasks`.
        """
        if not self.tasks or self.tasks[0].block:
            return 0.0
        return min(max(self.tasks[0].times.began - self.tasks[0].asked, 0.0), self.waited)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as plain values for JSON.

        Single tasks, single waits, events of workers, and the times of a device feeder are left
        out.
        """
        plain = dataclasses.asdict(
            dataclasses.replace(self, tasks=(), worker_events=(), last_waits=())
        )
        del plain["tasks"], plain["worker_events"], plain["feeding"], plain["last_waits"]
        return plain | {"quantiles": as_plain(self.quantiles.items())}

    def __str__(self) -> str:
        rows = [("waited in next()", self.waited), ("your own work", self.elapsed - self.waited)]
        return "\n".join(
            [
                *table(f"{self.steps:,} steps", self.elapsed, rows),
                *lines_of_waits(self.quantiles.get("next")),
                *self.lines(OPERATION_LINES),
                f"  {'left out, as they failed':27} {self.skipped:9}",
                f"What to do: {self.advice()}",
            ]
        )

    def lines(self, operations: int) -> list[str]:
        """Return the lines of the printed table, without the first part, which is about the loop.

        These are at most three lines about the whole work, a title, and at most `operations` lines
        about operations. If no task is known, there is one line, with the number of workers.
        """
        if not self.stages or self.workers is None:
            return [f"  {'workers':27} {self.worker_count:9}"]
        return [
            throughput(self.records, self.steps, self.nbytes, self.elapsed),
            *([self.decision] if self.decision else []),
            *lines_of_workers(
                self.workers, self.worker_count, sum(stage.ahead for stage in self.stages)
            ),
            *lines_of_stages(self.stages, operations),
        ]

    def most_work(self) -> str:
        """Return the name of the operation, or other part of the work, that took most time.

        Return "" if no work is known.
        """
        return max(_rows(self.stages), key=lambda row: row[1], default=("", 0.0, 0.0))[0]

    def advice(self) -> str:
        """Return a piece of advice: which change would shorten the user's waits most."""
        if self.waited <= LITTLE * self.elapsed:
            return "nothing; batches are there when you ask for them."
        if self._start > self.waited / 2:
            return (
                f"workers took {self._start:.1f} s to begin: measure more steps, or use one "
                "iterator over all epochs (num_epochs=)."
            )
        if self._waits_for_reads():
            reads = f"{self.reads_under_way:.0f} reads under way"
            return (
                f"reading is waited for, with {reads}; headrace.diagnose(loader) says what would "
                "help."
            )
        who = (
            "workers are slower than your loop"
            if self.worker_count
            else "your thread does the work"
        )
        name = self.most_work()
        most = f", mostly `{shorten(name, 24)}`" if name else ""
        return f"{who}{most}; headrace.diagnose(loader) says what would help."


def table(what: str, elapsed: float, rows: Sequence[tuple[str, float]]) -> list[str]:
    r"""Return the lines of a table of seconds: a title, then a line for each row.

    Args:
        what: first part of the title.
        elapsed: the total in seconds. Each row shows its share of the total.
        rows: for each line, a name and seconds.

    >>> print("\n".join(table("3 steps", 2.0, [("waited", 0.5), ("your own work", 1.5)])))
    3 steps in 2.000 s              seconds   share
      waited                          0.500   25.0%
      your own work                   1.500   75.0%
    """
    title = f"{what} in {elapsed:.3f} s"
    return [
        f"{title:31} seconds   share",
        *(_row(name, seconds, elapsed) for name, seconds in rows),
    ]


def lines_of_waits(waits: Quantiles | None) -> list[str]:
    """Return a list with one line, the quantiles of the last waits; [] if there were no waits.

    >>> lines_of_waits(Quantiles(0.001, 0.002, 0.01, 0.25, 1000))
    ['  last 1,000 waits: median 1.0 ms, 95 % under 2.0 ms, 99 % under 10.0 ms, longest 250 ms']
    """
    if waits is None or not waits.number:
        return []
    p50, p95, p99, longest = map(format_seconds, waits[:4])
    return [
        f"  last {waits.number:,} waits: median {p50}, 95 % under {p95}, 99 % under {p99}, longest "
        f"{longest}"
    ]


def _row(name: str, seconds: float, whole: float) -> str:
    return f"  {shorten(name, NAME):{NAME}} {seconds:9.3f} {seconds / whole if whole else 0.0:7.1%}"


def throughput(records: int, steps: int, nbytes: int, elapsed: float) -> str:
    """Return a line with numbers of records and bytes, and records, steps and bytes per second.

    Args:
        records: number of records.
        steps: number of steps.
        nbytes: number of bytes.
        elapsed: seconds in which these steps were made; with 0, all rates are 0.

    >>> throughput(64_000, 500, 2_000_000, 2.0)
    '64,000 records, 2.0 MB: 32,000 records/s, 250.0 steps/s, 1.0 MB/s'
    """
    each = 1 / elapsed if elapsed > 0 else 0.0
    whole = f"{records:,} records, {format_bytes(nbytes)}"
    return (
        f"{whole}: {records * each:,.0f} records/s, {steps * each:,.1f} steps/s, "
        f"{format_bytes(nbytes * each)}/s"
    )


def lines_of_workers(workers: WorkerStats, worker_count: int, ahead: float) -> list[str]:
    """Return a list with one line of text, which says how the workers' time is divided.

    Return an empty list if there are no workers.

    Args:
        workers: statistics of the workers.
        worker_count: number of workers.
        ahead: mean number of finished tasks that wait to be used.
    """
    if worker_count == 0:
        return []
    memory = f", largest memory {format_bytes(workers.memory)}" if workers.memory else ""
    memory += f", {format_bytes(workers.slab_bytes)} shared" if workers.most_slab_bytes else ""
    died = f", {workers.ended} died" if workers.ended else ""
    return [
        f"{worker_count} workers: busy {workers.busy:.1%}, without a task {workers.starved:.1%}, "
        f"hand-over {workers.hand_over:.1%}; {ahead:.1f} tasks ready{memory}{died}"
    ]


def lines_of_stages(stages: Sequence[StageStats], most: int) -> list[str]:
    """Return the lines of a table with the times of operations: a title, and at most `most` lines.

    If there are more operations, the last line is the sum of the operations that took least time.

    Args:
        stages: the stages (operations that run in one task) with their times.
        most: largest number of lines after the title.
    """
    work = sum(stage.busy for stage in stages)
    rows = _rows(stages)
    if len(rows) > most:
        longest = sorted(range(len(rows)), key=lambda row: -rows[row][1])[: most - 1]
        others = [row for number, row in enumerate(rows) if number not in longest]
        rows = [rows[number] for number in sorted(longest)]
        rows.append((f"{len(others)} others", sum(row[1] for row in others), 0.0))
    return [
        f"{'work':31} seconds   share    each",
        *(
            f"{_row(name, seconds, work)} {format_seconds(each) if each else '':>9}"
            for name, seconds, each in rows
        ),
    ]


def _rows(stages: Sequence[StageStats]) -> list[tuple[str, float, float]]:
    rows = []
    for stage in stages:
        if stage.reads:
            rows.append(("reading", stage.reading, stage.reading / stage.inputs))
        if any(operation.timed for operation in stage.operations):
            rows += [
                (operation.name, operation.seconds, operation.per_input)
                for operation in stage.operations
            ]
        elif stage.operations:
            names = ", ".join(operation.name for operation in stage.operations)
            rows.append((names, stage.between, stage.between / max(stage.inputs, 1)))
    between = sum(
        stage.between for stage in stages if any(operation.timed for operation in stage.operations)
    )
    packing = sum(stage.packing for stage in stages)
    rows += [("between operations", between, 0.0), ("packing", packing, 0.0)]
    return [row for row in rows if row[1] > 0]


def stage_names(pipeline: Any) -> list[StageNames]:
    """Return, for each stage of a pipeline, the names of its operations and facts about it.

    A stage is the operations that run in one task. The result is used to make a `Snapshot`.
    """
    return [
        StageNames(
            stage.first,
            tuple(short_repr(operation) for operation in stage.operations),
            stage.leaf is not None,
            stage.number not in pipeline.regrouped,
        )
        for stage in pipeline.stages
    ]


def stats_of(observer: Observer, counted: Snapshot, names: Sequence[StageNames]) -> IteratorStats:
    """Return the statistics of an iterator.

    Args:
        observer: counts and times of the iterator's work.
        counted: the iterator's snapshot.
        names: result of `stage_names`.
    """
    return IteratorStats(
        **vars(counted),
        workers=observer.worker_stats() if counted.stages else None,
        tasks=observer.last_tasks(),
        worker_events=observer.last_of_workers(),
        decision=observer.decision,
        last_waits=tuple(observer.waits.last.copy()),
        quantiles=observer.quantiles(names) if counted.stages else {},
    )
