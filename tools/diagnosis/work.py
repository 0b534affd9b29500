"""Split the work of a step into operations, and find records that take far longer.

In: the statistics of an iterator before and after some steps, and the tasks between them. Out:
seconds of each operation; the slowest record; the records that a filter drops.

Statistics may lack the time of each operation, if the loop was too short; and they do not name the
record that made a task slow. Then the task is run a second time, and each operation is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from ...common.fields import field_values
from ...loader.plan.leaf import Leaf
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.stages import Stage
from ...loader.stats import IteratorStats
from ...loader.timing.snapshot import StageStats
from ...loader.timing.times import OperationTimes, TaskEvent
from ...loader.work.explain import place
from ...loader.work.stopwatch import Stopwatch
from ...loader.work.tasks import SpanTask
from ...loader.work.worker import Worker
from ...sources.protocol import reader_of
from .measured import Dropped, Measured, PartKind, Rare, WorkPart
from .pillow import uses_pillow

# a task, or a read, is slow if it takes this many times as long per record as the median one
LONG = 5.0
LIKE = 3.0  # and at least the time per record of the slowest one, divided by this number
QUICK = 0.25
"""Share of tasks that count as quick.

Slow records are compared with these, to estimate the largest gain.
"""
TRIES = (
    2  # the slow task is repeated this many times; the same record must be its slowest each time
)
AGAIN_SECONDS = 5.0  # a task that took longer is not repeated
READ_SECONDS = 3.0  # time for reading records a second time. Chosen
READ_RECORDS = 512  # largest number of records that are read a second time


class Looking(Stopwatch):
    """Stopwatch that times the operations of every task."""

    def may_look(self, calls: int) -> bool:
        return True


@dataclass(frozen=True)
class Work:
    """The work of a loop between two times, from its statistics.

    Attributes:
        pipeline: pipeline of the loop.
        before: statistics at the beginning.
        after: statistics at the end.
        tasks: tasks that were done meanwhile.
        elements: number of elements that the loop made meanwhile.
    """

    pipeline: Pipeline
    before: IteratorStats
    after: IteratorStats
    tasks: Sequence[TaskEvent]
    elements: float

    def parts(self) -> tuple[WorkPart, ...]:
        found: dict[tuple[str, PartKind], WorkPart] = {}
        for part in (part for stats in self.after.stages for part in self._of_stage(stats)):
            if part.seconds > 0 or part.kind in ("record", "batch"):
                known = found.get((part.name, part.kind), replace(part, seconds=0.0, calls=0.0))
                more = replace(
                    known, seconds=known.seconds + part.seconds, calls=known.calls + part.calls
                )
                found[part.name, part.kind] = more
        return tuple(found.values())

    def _of_stage(self, stats: StageStats) -> list[WorkPart]:
        busy, reading, packing, inputs = (
            grown(self.before, self.after, name, stats) / self.elements
            for name in ("busy", "reading", "packing", "inputs")
        )
        stage, seconds, between = (
            self.pipeline.stages[stats.number],
            [each.seconds for each in stats.operations],
            stats.between,
        )
        if not any(operation.timed for operation in stats.operations):
            look = self._again([task for task in self.tasks if task.stage == stats.number][-1:])
            seconds, between = (
                (list(look.operations[:-1]), look.operations[-1]) if look else (seconds, 1.0)
            )
        share = max(busy - reading - packing, 0.0) / (sum(seconds) + between or 1.0)
        return [
            WorkPart("reading", "reading", reading),
            *(
                WorkPart(
                    operation.name_in_stats,
                    kind,
                    each * share,
                    inputs if kind == "record" else 1.0,
                    uses_pillow(operation.user_function),
                )
                for operation, kind, each in zip(stage.operations, self._kinds(stage), seconds)
            ),
            WorkPart("between operations", "between", between * share),
            WorkPart("packing for your process", "packing", packing),
        ]

    def _kinds(self, stage: Stage) -> Iterator[PartKind]:
        below = stage.input.stages if stage.input else range(0)
        batched = any(
            each.takes is not None for at in below for each in self.pipeline.stages[at].operations
        )
        for operation in stage.operations:
            takes = operation.takes is not None
            stacks = takes and operation.user_function is None
            yield "stacking" if stacks else "batch" if batched or takes else "record"
            batched = batched or takes

    def rare(self) -> Rare | None:
        """Return the cost of slow records, if a few tasks take far longer; else None.

        The slowest task is repeated twice, and must be slow at the same record each time.
        """
        stages = self.pipeline.stages
        reading = [
            task for task in self.tasks if stages[task.stage].leaf is not None and task.times.inputs
        ]
        if not reading:
            return None
        slowest, each = max(reading, key=_each), [*map(_each, reading)]
        least = max(LONG * statistics.median(each), _each(slowest) / LIKE)
        long = [task for task in reading if _each(task) > least]
        if not long:
            return None
        found = [
            look.slowest
            for _ in range(TRIES)
            if (look := self._again([slowest])) is not None and look.slowest
        ]
        if len({(one.operation, one.tag) for one in found}) != 1 or len(found) < TRIES:
            return None  # it was the machine, or something that happened once
        seconds, number, tag = min(found)
        if seconds < _took(slowest) / 2:
            return None
        name = stages[slowest.stage].operations[number].name_in_stats
        whole = sum(map(_took, reading))
        quick = float(np.quantile(each, QUICK)) * sum(task.times.inputs for task in reading)
        key = place(*self.pipeline.place_of(tag)) if tag >= 0 else ""
        share = sum(map(_took, long)) / whole
        return Rare(name, seconds, key, share, len(long) / len(reading), min(quick / whole, 1.0))

    def dropped(self) -> Dropped | None:
        """Return which records a filter drops, and the work that was done for them before.

        Return None if there is no filter.

        Only the first stage that reads records is considered. The result is also None if it has an
        operation that makes more or fewer elements in another way.
        """
        stats = next((stats for stats in self.after.stages if stats.reads), None)
        operations = self.pipeline.stages[stats.number].operations if stats else ()
        filters = [at for at, operation in enumerate(operations) if operation.only_filters]
        if (
            stats is None
            or not filters
            or not all(each.one_to_one or each.only_filters for each in operations)
        ):
            return None
        last, (read, *parts) = filters[-1], self._of_stage(stats)
        came, kept = (grown(self.before, self.after, name, stats) for name in ("inputs", "rows"))
        before = [
            part for part, operation in zip(parts, operations[:last]) if not operation.only_filters
        ]
        seconds = sum(part.seconds for part in before)
        name, share = operations[last].name_in_stats, 1 - kept / came if came else 0.0
        return Dropped(
            name, share, read.seconds + seconds, seconds, tuple(part.name for part in before)
        )

    def alone(self, part: WorkPart) -> float:
        """Return the seconds of an operation per element when a task is repeated alone.

        Returns 0 if no task can be repeated.

        Args:
            part: the operation, as a part of the measured work.
        """
        for stage in self.pipeline.stages:
            if stage.leaf is not None and part.name in (
                operation.name_in_stats for operation in stage.operations
            ):
                tasks = sorted(
                    (
                        task
                        for task in self.tasks
                        if task.stage == stage.number and _inside(task) > 0
                    ),
                    key=_each,
                )
                usual = tasks[len(tasks) // 2 : len(tasks) // 2 + 1]
                looks = [self._again(usual) for _ in range(TRIES)]
                found = [
                    sum(look.operations) / _inside(usual[0]) for look in looks if look is not None
                ]
                return min(found, default=0.0) * part.seconds
        return 0.0

    def _again(self, tasks: Sequence[TaskEvent]) -> OperationTimes | None:
        """Repeat the first of `tasks`, and return the times of its operations.

        The result is None if there is no task, if it reads rows instead of records, took over 5 s
        or fails, or if the source has no random access, or if work of shards of earlier runs is
        still unfinished.
        """
        if (
            not tasks
            or (leaf := self.pipeline.stages[tasks[0].stage].leaf) is None
            or _took(tasks[0]) > AGAIN_SECONDS
        ):
            return None
        if any(each.in_order for each in self.pipeline.every_leaf) or self.pipeline.formers:
            return None
        with closing(Worker(self.pipeline, stopwatch=lambda: Looking(0))) as worker:
            block = worker.run(SpanTask(tasks[0].stage, tasks[0].start, tasks[0].stop, leaf))
            return block.times.look if block.times is not None and block.failure is None else None


def grown(before: IteratorStats, after: IteratorStats, name: str, *stages: StageStats) -> float:
    """Return the growth of a field of the statistics of some stages together, between two times.

    Args:
        before: statistics at the first time.
        after: statistics at the second time.
        name: name of the field.
        *stages: the stages in `after`.
    """
    then = {stage.number: field_values(stage)[name] for stage in before.stages}
    return float(sum(field_values(stage)[name] - then.get(stage.number, 0) for stage in stages))


def _took(task: TaskEvent) -> float:
    return task.times.ended - task.times.began


def _inside(task: TaskEvent) -> float:
    return _took(task) - task.times.reading - task.times.packing


def _each(task: TaskEvent) -> float:
    return _took(task) / task.times.inputs


def slow_reads(measured: Measured, leaf: Leaf, tasks: Sequence[TaskEvent]) -> Rare | None:
    """Find records whose reads take far longer than others, in the task that read longest.

    Up to 512 records are read a second time, for up to 3 seconds; the slowest must be slow a third
    time.

    Args:
        measured: measurement of the loop.
        leaf: its source with its sampler.
        tasks: tasks of the loop.

    Returns:
        The cost of these records; None if there are none, or if a read fails.
    """
    reading = [
        task
        for task in tasks
        if task.times.under_way and task.stop > task.start and not task.made_of
    ]
    if leaf.in_order or not reading:
        return None
    slowest = max(reading, key=lambda task: task.times.under_way / (task.stop - task.start))
    try:
        return _slowest_read(
            measured, leaf, range(slowest.start, min(slowest.stop, slowest.start + READ_RECORDS))
        )
    # of the user's source: the loop that was measured has told of it, or went without these records
    except Exception:
        return None


def _slowest_read(measured: Measured, leaf: Leaf, positions: range) -> Rare | None:
    until, seconds = time.monotonic() + READ_SECONDS, dict[int, float]()
    for position in positions:
        seconds[position] = _read(leaf, position)
        if time.monotonic() > until:
            break
    usual = statistics.median(seconds.values())
    worst = max(seconds, key=lambda position: seconds[position])
    if seconds[worst] <= LONG * usual or (again := _read(leaf, worst)) < LONG * usual:
        return None  # or it was the machine
    few = sum(each > LONG * usual for each in seconds.values()) / len(seconds)
    rest = min(usual / (measured.read_seconds / measured.records), 1.0)
    return Rare(
        "reading",
        min(again, seconds[worst]),
        place(leaf, leaf.position(worst)),
        1 - rest,
        few,
        rest,
    )


def _read(leaf: Leaf, position: int) -> float:
    keys = leaf.record_keys(leaf.positions(position, position + 1))
    began = time.perf_counter()
    reader_of(leaf.source)(keys)
    return time.perf_counter() - began
