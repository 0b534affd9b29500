"""Splits the work of a step into operations, and finds rare records that take long.

In: what a loop's iterator told at two times. Out: parts, and what rare records cost. One task may be done once more, here,
with a clock on each operation: where the loop was too short to have timed them, and to find the record that made a task slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...loader.plan.leaf import Leaf
from ...loader.plan.pipeline import Pipeline
from ...loader.stats import IteratorStats
from ...loader.timing.snapshot import StageStats
from ...loader.timing.times import OperationTimes, TaskEvent
from ...loader.work.explain import place
from ...loader.work.stopwatch import Stopwatch
from ...loader.work.tasks import SpanTask
from ...loader.work.worker import Worker
from ...sources.protocol import reader_of
from .facts import kinds_of
from .measured import Dropped, Measured, PartKind, Rare, WorkPart

LONG = 5.0
"""A task, or a read, is a slow one if it takes so many times what the middle one takes for each record."""

LIKE = 3.0
"""… and not so many times less than in the slowest."""

QUICK = 0.25
"""Share of the tasks that are quick: those that rare records are compared with, to tell what could be gained at most."""

TRIES = 2
"""So many times the same record must be the slowest of its task, when that is done again."""

AGAIN_SECONDS = 5.0
"""A task that took longer is not done again."""


READ_SECONDS = 3.0
"""For which records are read again. Chosen."""

READ_RECORDS = 512
"""That are read again, at most."""


class Looking(Stopwatch):
    """Times every operation."""

    def may_look(self, calls: int) -> bool:
        return True


@dataclass(frozen=True)
class Work:
    """The work of a loop between two looks at it, over `elements`."""

    pipeline: Pipeline
    before: IteratorStats
    after: IteratorStats
    tasks: Sequence[TaskEvent]
    elements: float

    def parts(self) -> tuple[WorkPart, ...]:
        """All of it, for one element."""
        found: dict[tuple[str, PartKind], WorkPart] = {}
        for stats in self.after.stages:
            for part in self._of_stage(stats):
                if part.seconds > 0 or part.kind in ("record", "batch"):
                    known = found.get((part.name, part.kind))
                    more = (known.seconds, known.calls) if known else (0.0, 0.0)
                    found[part.name, part.kind] = WorkPart(
                        part.name, part.kind, part.seconds + more[0], part.calls + more[1]
                    )
        return tuple(found.values())

    def _of_stage(self, stats: StageStats) -> list[WorkPart]:
        def seconds(name: str) -> float:
            return grown(self.before, self.after, stats, name) / self.elements

        reading, packing = seconds("reading"), seconds("packing")
        inside = max(seconds("busy") - reading - packing, 0.0)
        stage = self.pipeline.stages[stats.number]
        *each, between = self._shares(stats)
        inputs = seconds("inputs")
        return [
            WorkPart("reading", "reading", reading),
            *(
                WorkPart(operation.name_in_stats, kind, inside * share, inputs if kind == "record" else 1.0)
                for operation, kind, share in zip(stage.operations, kinds_of(self.pipeline, stage), each)
            ),
            WorkPart("between operations", "between", inside * between),
            WorkPart("packing for your process", "packing", packing),
        ]

    def _shares(self, stats: StageStats) -> list[float]:
        """Shares of a stage's time without reading and packing: of each operation, and last between them."""
        seconds = [operation.seconds for operation in stats.operations]
        between = stats.between
        if not any(operation.timed for operation in stats.operations):
            look = self._again([task for task in self.tasks if task.stage == stats.number][-1:])
            *seconds, between = look.operations if look else (*seconds, 1.0)
        whole = sum(seconds) + between or 1.0
        return [part / whole for part in (*seconds, between)]

    def rare(self) -> Rare | None:
        """The cost of rare records, in the few tasks that take far longer than others; None if there are none."""
        reading = [
            task for task in self.tasks if self.pipeline.stages[task.stage].leaf is not None and task.times.inputs
        ]
        if not reading:
            return None
        slowest = max(reading, key=_each)
        least = max(LONG * statistics.median(map(_each, reading)), _each(slowest) / LIKE)
        long = [task for task in reading if _each(task) > least]
        if not long:
            return None
        found = [look.slowest for _ in range(TRIES) if (look := self._again([slowest])) is not None and look.slowest]
        if len({(each.operation, each.tag) for each in found}) != 1 or len(found) < TRIES:
            return None  # it was the machine, or something that happened once
        seconds, number, tag = min(found)
        if seconds < _took(slowest) / 2:
            return None
        operation = self.pipeline.stages[slowest.stage].operations[number]
        whole = sum(map(_took, reading))
        share = sum(map(_took, long)) / whole
        quick = float(np.quantile([*map(_each, reading)], QUICK)) * sum(task.times.inputs for task in reading)
        key = place(*self.pipeline.place_of(tag)) if tag >= 0 else ""
        return Rare(operation.name_in_stats, seconds, key, share, len(long) / len(reading), min(quick / whole, 1.0))

    def dropped(self) -> Dropped | None:
        """The records that a filter leaves out, and the work for these; None where there is none."""
        stats = next((stats for stats in self.after.stages if stats.reads), None)
        if stats is None:
            return None
        operations = self.pipeline.stages[stats.number].operations
        filters = [place for place, operation in enumerate(operations) if operation.only_filters]
        if not filters or any(not each.one_to_one and not each.only_filters for each in operations):
            return None
        last, parts = filters[-1], self._of_stage(stats)
        came, kept = (grown(self.before, self.after, stats, name) for name in ("inputs", "rows"))
        before = [part for part, operation in zip(parts[1:], operations[:last]) if not operation.only_filters]
        seconds = sum(part.seconds for part in before)
        return Dropped(
            operations[last].name_in_stats,
            1 - kept / came if came else 0.0,
            parts[0].seconds + seconds,
            seconds,
            tuple(part.name for part in before),
        )

    def alone(self, part: WorkPart) -> float:
        """Seconds for an element of an operation, when the task in the middle is done again by nobody else meanwhile.

        0: it cannot be done.
        """
        for stats in self.after.stages:
            stage = self.pipeline.stages[stats.number]
            names = [operation.name_in_stats for operation in stage.operations]
            if part.name in names and stage.leaf is not None:
                tasks = sorted(
                    (task for task in self.tasks if task.stage == stats.number and _inside(task) > 0), key=_each
                )
                usual = tasks[len(tasks) // 2 : len(tasks) // 2 + 1]
                looks = [self._again(usual) for _ in range(TRIES)]
                found = [sum(look.operations) / _inside(usual[0]) for look in looks if look is not None]
                return min(found, default=0.0) * part.seconds
        return 0.0

    def _again(self, tasks: Sequence[TaskEvent]) -> OperationTimes | None:
        """Do the first of the tasks again; None where that cannot be done."""
        if not tasks or self.pipeline.stages[tasks[0].stage].leaf is None or _took(tasks[0]) > AGAIN_SECONDS:
            return None
        if any(leaf.in_order for leaf in self.pipeline.every_leaf) or self.pipeline.formers:
            return None
        worker, leaf = (
            Worker(self.pipeline, stopwatch=lambda: Looking(0)),
            self.pipeline.stages[tasks[0].stage].leaf or 0,
        )
        try:
            block = worker.run(SpanTask(tasks[0].stage, tasks[0].start, tasks[0].stop, leaf))
            return block.times.look if block.times is not None and block.failure is None else None
        finally:
            worker.close()


def grown(before: IteratorStats, after: IteratorStats, stage: StageStats, name: str) -> float:
    """By how much a number of a stage has grown."""
    then = next((one for one in before.stages if one.number == stage.number), None)
    return float(getattr(stage, name) - (0 if then is None else getattr(then, name)))


def _took(task: TaskEvent) -> float:
    return task.times.ended - task.times.began


def _inside(task: TaskEvent) -> float:
    """Seconds in operations, and between them."""
    return _took(task) - task.times.reading - task.times.packing


def _each(task: TaskEvent) -> float:
    return _took(task) / task.times.inputs


def slow_reads(measured: Measured, leaf: Leaf, tasks: Sequence[TaskEvent]) -> Rare | None:
    """The slowest read of the task whose records took longest, if it is slow whenever it is read; None if there is none."""
    reading = [task for task in tasks if task.times.under_way and task.stop > task.start and not task.made_of]
    if leaf.in_order or not reading:
        return None
    slowest = max(reading, key=lambda task: task.times.under_way / (task.stop - task.start))
    try:
        return _slowest_read(measured, leaf, range(slowest.start, min(slowest.stop, slowest.start + READ_RECORDS)))
    except Exception:  # of the user's source: the loop that was measured has told of it, or went without these records
        return None


def _slowest_read(measured: Measured, leaf: Leaf, positions: range) -> Rare | None:
    until, seconds = time.monotonic() + READ_SECONDS, dict[int, float]()
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
