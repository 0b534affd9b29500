"""Measure a loop between two observations ("looks"): one after warm-up, and a later one."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...common.messages import a_kind_of
from ...common.system import usable_processors
from ...loader.iterator import DataLoaderIterator
from ...loader.options import Auto, ExecutionOptions
from ...loader.plan.pipeline import Pipeline
from ...loader.stats import IteratorStats
from ...loader.timing.snapshot import Snapshot, StageStats
from ...loader.timing.times import TaskEvent
from ...reporting.loops import host_iterator
from ...reporting.machine import Processors, processors, taken_by_others
from .evaluated import read_apart
from .facts import source_of, timed, with_sampler
from .hang_notes import LEAST_SECONDS, SHARE
from .judging.estimates import slowed
from .measured import Feeding, Measured, WorkPart
from .work import Work, grown, slow_reads

MUCH_READING = 0.25  # if reading takes a smaller share of the work, the source is not timed
MUCH_SAMPLING = 0.1  # if the sampler takes a smaller share of the work, its time counts as reading
UNEVEN = 1.3
"""Ratio of the average read to a usual read that starts a search for slow records."""
# if processors work for more than this share of the operations' time, operations wait for
# processors only
WAITS = 0.5


@dataclass(frozen=True)
class Look:
    """An observation of a loop at one time, with its counts and times up to then.

    Attributes:
        at: time of the observation.
        processor: processor seconds of all threads of this process.
        loop: counts and times of the loop that the user iterates, perhaps a feeder.
        host: statistics of the loader's iterator in it.
        machine: use of the machine's processors; None if the system does not report it.
    """

    at: float
    processor: float
    loop: Snapshot
    host: IteratorStats
    machine: Processors | None = None

    @classmethod
    def at_loop(cls, loop: Any) -> Look:
        host = host_of(loop).stats()
        counted = host if loop is host_of(loop) else loop.snapshot()
        return cls(time.perf_counter(), time.process_time(), counted, host, processors())

    @property
    def tasks(self) -> int:
        """Number of finished tasks. A task may make many elements."""
        return sum(stage.tasks for stage in self.host.stages)


def host_of(loop: Any) -> DataLoaderIterator:
    """Return the `DataLoader`'s iterator inside a loop (an iterator or a feeder).

    Raises:
        TypeError: it is not a loop over a headrace loader.
    """
    found = host_iterator(loop)
    if found is None:
        raise TypeError(
            f"{a_kind_of(loop)} is not a loop over a headrace loader. Pass a DataLoader, a "
            "dataset, or one of these on devices, loader.to_device(…)."
        )
    return found


def closely(loop: Any) -> None:
    """Make a loop that is about to begin time every task. Does nothing for a feeder."""
    if isinstance(loop, DataLoaderIterator):
        loop.execution = replace(loop.execution, observe="each")


def tell_of_hangs(loop: Any, seconds: float) -> None:
    """Make a loop that is about to begin report tasks that take too long.

    Does nothing for a feeder.

    Args:
        loop: an iterator or a feeder.
        seconds: measuring time. A task is reported if it takes half of it, but at least half a
            second; or as long as the loop's own `hang_seconds`, if that is less.
    """
    if isinstance(loop, DataLoaderIterator):
        soon = max(SHARE * seconds, LEAST_SECONDS)
        known = loop.execution.hang_seconds
        loop.execution = replace(
            loop.execution, hang_seconds=soon if known is None else min(soon, known)
        )


@dataclass
class Lock:
    """Measures how long threads wait for Python's lock (GIL): the delay after short sleeps.

    Attributes:
        late: delay of each sleep, in seconds.
    """

    late: list[float] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Return a context in which a thread measures, and adds the delays to `late`."""
        ended = threading.Event()

        def try_again() -> None:
            while not ended.is_set():
                began = time.perf_counter()
                time.sleep(_NAP)
                self.late.append(time.perf_counter() - began - _NAP)
                ended.wait(9 * _NAP)  # it takes the lock, too: not often

        thread = threading.Thread(target=try_again, name="headrace-lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @property
    def middle(self) -> float:
        return max(statistics.median(self.late), 0.0) if self.late else 0.0


_NAP = 1e-3


def measured(loop: Any, before: Look, after: Look, lock: Lock, step_known: bool) -> Measured:
    """Return the measurement of a loop between two observations.

    Args:
        loop: the loop, which may have ended.
        before: first observation.
        after: last observation.
        lock: measured waits for Python's lock (GIL).
        step_known: True if the user's own step was part of the loop.
    """
    host, stages = host_of(loop), after.host.stages
    pipeline, execution = host.pipeline, host.execution
    steps = max(after.loop.steps - before.loop.steps, 1)
    tasks = [task for task in after.host.tasks if task.taken > before.at]
    start = _start(before, after, tasks)
    tasks[:1] = [task.asked_later(start) for task in tasks[:1]]
    waited = after.loop.waited - before.loop.waited - start
    fed, former = after.loop.feeding, before.loop.feeding
    unready = (
        fed.reading - former.reading - start if fed and former else _unready_share(tasks) * waited
    )
    reads, ends = (
        [stage for stage in stages if stage.reads],
        [stage for stage in stages if stage.ends],
    )
    elements = grown(before.host, after.host, "rows", *ends) or steps
    work = Work(pipeline, before.host, after.host, tasks, elements)
    joined = ends and not ends[-1].reads and pipeline.stages[ends[-1].number].groups
    found = Measured(
        steps=steps,
        elapsed=(after.loop.elapsed - before.loop.elapsed - start) / steps,
        waited=waited / steps,
        unready=unready / steps,
        records=grown(before.host, after.host, "inputs", *reads) / elements,
        nbytes=grown(before.host, after.host, "nbytes", *ends) / elements,
        parts=work.parts(),
        at_work=_at_work(stages),
        rare=work.rare(),
        gil=lock.middle,
        workers=_workers(execution, after.host),
        worker_kind=execution.worker_kind or "process",
        cores=usable_processors(),
        step_known=step_known,
        feeding=Feeding(*((now - then) / steps for now, then in zip(fed[2:], former[2:])))
        if fed and former
        else None,
        start=start,
        read_seconds=grown(before.host, after.host, "under_way", *reads) / elements,
        rows=grown(before.host, after.host, "inputs", ends[-1]) / elements if joined else 0.0,
        dropped=work.dropped(),
        others=taken_by_others(before.machine, after.machine),
        decision=after.host.decision,
    )
    found = _with_sampler(_with_source(found, pipeline, execution))
    if found.rare is None and slowed(found) > UNEVEN:
        found = replace(found, rare=slow_reads(found, pipeline.leaves[0], tasks))
    largest = max(found.parts, key=lambda part: part.seconds, default=None)
    if (
        largest
        and largest.kind in ("record", "batch")
        and found.workers > 1
        and found.at_work <= WAITS
    ):
        found = replace(found, alone=work.alone(largest))
    inside = found.processor if found.worker_kind != "process" or not found.workers else 0.0
    here = (after.processor - before.processor) / steps - inside - found.hand_over
    return replace(found, own_processor=max(here, 0.0))


def of_all_loops(longest: Measured, looks: Sequence[tuple[Look, Look]]) -> Measured:
    """Return the measurement of the longest of several loops over one loader.

    Its step time is the mean of all loops.

    Args:
        longest: measurement of the longest loop.
        looks: first and last observation of each loop.
    """
    steps = sum(after.loop.steps - before.loop.steps for before, after in looks)
    elapsed = sum(after.loop.elapsed - before.loop.elapsed for before, after in looks) / steps
    waited = sum(after.loop.waited - before.loop.waited for before, after in looks) / steps
    starting = sum(_start(before, after, after.host.tasks) for before, after in looks) / steps
    more = longest.unready / longest.waited if longest.waited else 1.0
    return replace(
        longest,
        steps=steps,
        elapsed=elapsed,
        waited=waited,
        unready=starting + more * (waited - starting),
        start=0.0,
        starting=starting,
        # without what it takes to make workers
        own_processor=min(longest.own_processor, elapsed - waited),
        loops_alike=len(looks),
    )


def _with_source(loop: Measured, pipeline: Pipeline, execution: ExecutionOptions) -> Measured:
    source = with_sampler(source_of(pipeline, execution), pipeline)
    if source.in_memory or loop.read_seconds <= MUCH_READING * loop.work:
        return replace(loop, source=source)
    source = timed(source, pipeline)
    others = loop.work - loop.seconds_of("reading") + (loop.own if loop.workers == 0 else 0.0)
    # in which places may have read: alone, it may take longer
    room = max(loop.places() * loop.elapsed - others, 0.0)
    source = replace(source, processor=min(source.processor, room / max(loop.records, 1e-9)))
    return read_apart(replace(loop, source=source), pipeline.leaves[0])


def _with_sampler(loop: Measured) -> Measured:
    """Return the measurement with the sampler's work as a separate part.

    Do so if it is at least a tenth of the work.

    Otherwise it stays a part of reading.
    """
    seconds = loop.source.sampler * loop.records
    if seconds < MUCH_SAMPLING * loop.work:
        return loop
    apart = 0.0 if loop.reads_ahead else seconds
    parts = [
        replace(part, seconds=max(part.seconds - apart, 0.0)) if part.kind == "reading" else part
        for part in loop.parts
    ]
    return replace(loop, parts=(WorkPart("the sampler", "sampler", seconds), *parts))


def _workers(execution: ExecutionOptions, host: IteratorStats) -> int:
    """Return the number of workers.

    With "auto" it is the current number, in a cluster the number that did tasks.
    """
    if isinstance(execution.worker_count, Auto) or host.decision:
        return host.worker_count
    if isinstance(execution.worker_count, str) and host.workers is not None:
        return max(host.workers.count, 1)
    return execution.workers


def _start(before: Look, after: Look, tasks: Sequence[TaskEvent]) -> float:
    """Return the seconds that the user waited for the first batch while workers were starting up.

    The result is 0 if the first batch came before the first observation, or if the times of its
    task are not known.

    Args:
        before: first observation of the loop.
        after: last observation.
        tasks: tasks of the loop between the two.
    """
    if before.loop.steps or not tasks or tasks[0].block:  # else the first one is not among them
        return 0.0
    waited = after.loop.feeding.reading if after.loop.feeding else after.loop.waited
    return min(max(tasks[0].times.began - tasks[0].asked, 0.0), waited)


def _unready_share(tasks: Sequence[TaskEvent]) -> float:
    """Return the share of the wait for tasks' results in which workers had not finished them.

    The rest is hand-over. If nothing was waited for, the result is 1.
    """
    waited = sum(task.taken - task.asked for task in tasks)
    unready = sum(max(0.0, min(task.times.ended, task.taken) - task.asked) for task in tasks)
    return min(unready / waited, 1.0) if waited > 0 else 1.0


def _at_work(stages: Sequence[StageStats]) -> float:
    """Return the share of the operations' time in which processors were at work."""
    seconds = [stage.busy - stage.reading - stage.packing for stage in stages]
    worked = sum(each * stage.cpu_share for each, stage in zip(seconds, stages))
    return worked / sum(seconds) if sum(seconds) > 0 else 1.0
