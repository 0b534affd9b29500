"""Makes what users see of what was added up.

In: an observer, and what the stages are made of. Out: stats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .observer import Observer
from .stats import OperationStats, StageStats, WorkerStats
from .sums import StageSums


class StageNames(NamedTuple):
    """What a stage is made of."""

    first: int  # number of its first operation in the pipeline
    operations: tuple[str, ...]
    reads: bool  # it is given positions, whose records it reads
    ends: bool  # what it makes are elements, or rows that are joined to be elements


def stage_stats(observer: Observer, names: Sequence[StageNames], elapsed: float) -> tuple[StageStats, ...]:
    """Of the stages that did anything, in `elapsed` seconds."""
    return tuple(
        _stage(number, sums, names[number], elapsed)
        for number, sums in sorted(observer.stages().items())
        if sums.timed_inputs
    )


def _stage(number: int, sums: StageSums, names: StageNames, elapsed: float) -> StageStats:
    whole = sums.inputs / sums.stood_for if sums.stood_for else 1.0  # the last tasks have none yet that stands for them
    busy, reading, packing = whole * sums.busy, whole * sums.reading, whole * sums.packing
    work = busy - reading - packing
    scale = work / sums.looked if sums.looked > 0 else 0.0
    operations = tuple(_operation(place, name, sums, names.first, scale) for place, name in enumerate(names.operations))
    return StageStats(
        number=number,
        tasks=sums.tasks,
        inputs=sums.inputs,
        rows=sums.rows,
        nbytes=sums.nbytes,
        reads=names.reads,
        ends=names.ends,
        busy=busy,
        reading=reading,
        packing=packing,
        under_way=whole * sums.under_way,
        between=max(0.0, work - sum(operation.seconds for operation in operations)),
        cpu_share=min(1.0, sums.looked_cpu / sums.looked) if sums.looked > 0 else 1.0,
        waited=whole * sums.waited,
        queued=whole * sums.queued / sums.tasks,
        ahead=whole * sums.ahead / elapsed if elapsed > 0 else 0.0,
        operations=operations,
    )


def _operation(place: int, name: str, sums: StageSums, first: int, scale: float) -> OperationStats:
    seconds = sums.operations[place] * scale if sums.operations else 0.0
    per_input = seconds / sums.inputs if sums.inputs else 0.0
    worst = sums.slowest.get(place)
    slowest = (worst.seconds, worst.tag) if worst else (0.0, -1)
    return OperationStats(first + place, name, seconds, per_input, sums.looked_inputs, *slowest)


def worker_stats(observer: Observer) -> WorkerStats:
    """Of the workers of an iterator."""
    did = observer.between()
    whole = did.busy + did.starved + did.hand_over or 1.0
    shares = did.busy / whole, did.starved / whole, did.hand_over / whole
    memory = observer.slab_bytes, observer.most_slab_bytes
    return WorkerStats(did.workers, *shares, observer.started, observer.ended, *memory)
