"""The stats of an iterator: a snapshot with the single tasks, as a table with advice.

In: what was found out. Out: numbers, and lines of text.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from .timing.snapshot import Snapshot, WorkerStats
from .timing.tables import lines_of_stages, lines_of_workers, table, throughput
from .timing.times import TaskEvent, WorkerEvent

LITTLE = 0.05
"""Of the time: a loop that waits for less gains nothing by faster batches."""

MUCH = 0.5
"""Of the time of work: what takes more is what is waited for."""

AHEAD = 1.2
"""Reads that take so many times as long as they are waited for are done ahead of the work, by others."""

OPERATION_LINES = 6
"""Of a table, that tell what work took."""


@dataclass(frozen=True)
class IteratorStats(Snapshot):
    """A `Snapshot` with what workers did and the single tasks, from `iterator.stats()`; `print` it for a table of 15 lines.

    Attributes:
        workers: what the workers did. Without workers it is your thread; None: nothing is known.
        tasks: the last 2,000 tasks, one by one; none with `ExecutionOptions(observe=False)`.
        worker_events: the last starts of worker processes, and ends that nobody wanted.
    """

    workers: WorkerStats | None = None
    tasks: tuple[TaskEvent, ...] = field(default=(), repr=False)
    worker_events: tuple[WorkerEvent, ...] = field(default=(), repr=False)

    @property
    def reads_under_way(self) -> float:
        """Reads of records under way at a time, on average."""
        return sum(stage.under_way for stage in self.stages) / self.elapsed if self.elapsed else 0.0

    def _waits_for_reads(self) -> bool:
        """Workers spend over half of their time waiting for records that are read ahead."""
        reading = sum(stage.reading for stage in self.stages)
        ahead = sum(stage.under_way for stage in self.stages) > AHEAD * reading
        return ahead and reading > MUCH * sum(stage.busy for stage in self.stages)

    @property
    def _start(self) -> float:
        """Seconds in which the first element was waited for while the workers had not begun; 0 if that was long ago."""
        if not self.tasks or self.tasks[0].block:
            return 0.0
        return min(max(self.tasks[0].times.began - self.tasks[0].asked, 0.0), self.waited)

    def to_dict(self) -> dict[str, Any]:
        """All but the single tasks and events, as plain values for JSON."""
        plain = dataclasses.asdict(dataclasses.replace(self, tasks=(), worker_events=()))
        del plain["tasks"], plain["worker_events"], plain["feeding"]
        return plain

    def __str__(self) -> str:
        rows = [("waited in next()", self.waited), ("your own work", self.elapsed - self.waited)]
        return "\n".join(
            [
                *table(f"{self.steps:,} steps", self.elapsed, rows),
                *self.lines(OPERATION_LINES),
                f"  {'left out, as they failed':27} {self.skipped:9}",
                f"What to do: {self._advice()}",
            ]
        )

    def lines(self, operations: int) -> list[str]:
        """The work in at most three lines, and `operations` lines for operations."""
        if not self.stages or self.workers is None:
            return [f"  {'workers':27} {self.worker_count:9}"]
        return [
            throughput(self.records, self.steps, self.nbytes, self.elapsed),
            *lines_of_workers(self.workers, self.worker_count, sum(stage.ahead for stage in self.stages)),
            *lines_of_stages(self.stages, operations),
        ]

    def _advice(self) -> str:
        if self.waited <= LITTLE * self.elapsed:
            return "nothing; batches are there when you ask for them."
        if self._start > self.waited / 2:
            return f"workers took {self._start:.1f} s to begin, in every loop anew: one iterator over all epochs (num_epochs=)."
        if self._waits_for_reads():
            reads = f"{self.reads_under_way:.0f} reads under way"
            return f"reading is waited for, with {reads}; allow more (read_options=); ask headrace.diagnose(loader)."
        if self.worker_count == 0:
            return "your thread reads and transforms; pass worker_count=, or make operations and source faster."
        return (
            "workers are slower than your loop; allow more (worker_count=, Auto(most=)), or make the operations faster."
        )
