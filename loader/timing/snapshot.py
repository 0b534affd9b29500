"""Counts and times of a loop: what stats, log, metrics, the terminal's line, reports and verdicts read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .observer import Observer
from .stats import OperationStats, StageStats, WorkerStats
from .sums import StageSums


class StepTimes(NamedTuple):
    """Seconds for which the user waited, and what for; the parts add up to `waited`.

    Attributes:
        waited: in `next`.
        reading: the host iterator had yet to give the batch.
        transforming: `transform` had yet to return.
        agreeing: other hosts had yet to say what they have.
        transfer: the batch was on its way to the devices.
        hand_over: the rest: queues and the waking up of threads.
    """

    waited: float
    reading: float
    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


PARTS_OF_A_WAIT = ("waited", "reading", "transforming", "agreeing", "transfer", "hand_over")
"""The fields of `StepTimes`."""


@dataclass(frozen=True)
class Snapshot:
    """Counts and times of a loop since its start, or since the last `set_state`; from `snapshot()` of an iterator or a feeder.

    It costs less than `stats()`, which adds the single tasks. Records, bytes and stages are of the tasks whose results your
    process took, which may be some more than you received the elements of.

    Attributes:
        steps: elements that you received.
        elapsed: seconds in which you received them, your own work in between included.
        waited: seconds of these that you spent in `next`. Without workers your thread does the operations there.
        worker_count: of the loader, now.
        skipped: records or batches left out because they failed.
        stages: what the tasks of each stage took; none with `ExecutionOptions(observe=False)`.
        records: positions whose records were read.
        nbytes: bytes of the elements; estimated where their sizes differ.
        shared_bytes: memory that workers share with your process now.
        feeding: of a device feeder, the parts of `waited`.
    """

    steps: int
    elapsed: float
    waited: float
    worker_count: int = 0
    skipped: int = 0
    stages: tuple[StageStats, ...] = ()
    records: int = 0
    nbytes: int = 0
    shared_bytes: int = 0
    feeding: StepTimes | None = None

    def since(self, before: Snapshot) -> Snapshot:
        """With what was added after `before`; all of it, if the loop began anew."""
        added = {name: getattr(self, name) - getattr(before, name) for name in _COUNTED}
        return self if any(added[name] < 0 for name in _COUNTED[:-1]) else replace(self, **added)


_COUNTED = ("steps", "elapsed", "waited", "records", "nbytes")  # the last one is estimated, and may shrink


class StageNames(NamedTuple):
    """What a stage is made of."""

    first: int  # number of its first operation in the pipeline
    operations: tuple[str, ...]
    reads: bool  # it is given positions, whose records it reads
    ends: bool  # what it makes are elements, or rows that are joined to be elements


def snapshot_of(observer: Observer, names: Sequence[StageNames], **more: Any) -> Snapshot:
    """Of an iterator: what its observer added up."""
    stages, elapsed = sorted(observer.stages().items()), observer.waits.elapsed
    return Snapshot(
        elapsed=elapsed,
        waited=observer.waits.seconds,
        stages=tuple(_stage(number, sums, names[number], elapsed) for number, sums in stages if sums.timed_inputs),
        records=sum(sums.inputs for number, sums in stages if names[number].reads),
        nbytes=sum(sums.nbytes for number, sums in stages if names[number].ends),
        shared_bytes=observer.slab_bytes,
        **more,
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
