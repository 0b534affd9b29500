"""Measures a loop: a look at it when it has got going, another one later, and what happened in between."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...loader.iterator import DataLoaderIterator
from ...loader.options import Auto, ExecutionOptions, ReadOptions
from ...loader.plan.pipeline import Pipeline
from ...loader.stats import IteratorStats
from ...loader.timing.snapshot import Snapshot, StageStats
from ...loader.timing.times import TaskEvent
from ...reporting.loops import host_iterator
from ...reporting.machine import Processors, processors, taken_by_others
from .evaluated import read_apart
from .facts import source_of, timed, with_sampler
from .judging.model import slowed
from .measured import Feeding, Measured, WorkPart
from .work import Work, grown, slow_reads

MUCH_READING = 0.25
"""Share of the work: below it, the source is not asked how fast it is."""

MUCH_SAMPLING = 0.1
"""Share of the work: below it, the sampler is no part of its own."""

UNEVEN = 1.3
"""Times as long as usual: if reads take longer on average, records are looked for whose reads take far longer."""

WAITS = 0.5
"""Of the time of operations: with the processors at work for more, it is these that operations wait for."""


@dataclass(frozen=True)
class Look:
    """A loop at some time."""

    at: float
    processor: float  # seconds, of all threads of this process
    loop: Snapshot  # of what the user iterates
    host: IteratorStats  # of the iterator that makes the elements
    machine: Processors | None = None

    @property
    def tasks(self) -> int:
        """Tasks that were done: a block of many elements is one."""
        return sum(stage.tasks for stage in self.host.stages)

    @classmethod
    def at_loop(cls, loop: Any) -> Look:
        """Look now."""
        host = host_of(loop).stats()
        counted = host if loop is host_of(loop) else loop.snapshot()
        return cls(time.perf_counter(), time.process_time(), counted, host, processors())


def host_of(loop: Any) -> DataLoaderIterator:
    """The iterator that makes the batches.

    Raises:
        TypeError: it is none of ours.
    """
    found = host_iterator(loop)
    if found is None:
        raise TypeError(
            f"{type(loop).__name__} is no loop over a headrace loader; pass a DataLoader, a dataset or a DeviceLoader."
        )
    return found


def closely(loop: Any) -> None:
    """Have every task of a loop timed, that is about to begin."""
    if isinstance(loop, DataLoaderIterator):
        loop.execution = replace(loop.execution, observe="each")


def alone(loop: Any) -> None:
    """Have a loop that is about to begin work in its own thread, which reads, too: one thing after the other."""
    if isinstance(loop, DataLoaderIterator):
        init = loop.execution.worker_init_fn
        reading = ReadOptions(num_threads=0)
        loop.execution = ExecutionOptions(read_options=reading, worker_init_fn=init, observe="each")


@dataclass
class Lock:
    """Measures the wait for the interpreter's lock: seconds by which a thread comes back too late from short sleeps."""

    late: list[float] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within it a thread tries again and again."""
        ended = threading.Event()
        thread = threading.Thread(target=self._try, args=(ended,), name="headrace-lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _try(self, ended: threading.Event) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            time.sleep(_NAP)
            self.late.append(time.perf_counter() - began - _NAP)
            ended.wait(9 * _NAP)  # it takes the lock, too: not often

    @property
    def middle(self) -> float:
        """Seconds, in the middle."""
        return max(statistics.median(self.late), 0.0) if self.late else 0.0


_NAP = 1e-3


def measured(loop: Any, before: Look, after: Look, lock: Lock, step_known: bool) -> Measured:
    """Measure a loop between two looks at it."""
    host = host_of(loop)
    pipeline, execution = host.pipeline, host.execution
    steps = max(after.loop.steps - before.loop.steps, 1)
    tasks = [task for task in after.host.tasks if task.taken > before.at]
    start = _start(before, after, tasks)
    tasks[:1] = [task.asked_later(start) for task in tasks[:1]]
    elapsed, waited = after.loop.elapsed - before.loop.elapsed - start, after.loop.waited - before.loop.waited - start
    elements = sum(grown(before.host, after.host, stage, "rows") for stage in after.host.stages if stage.ends) or steps
    fed, former = after.loop.feeding, before.loop.feeding
    unready = fed.reading - former.reading - start if fed and former else _unready_share(tasks) * waited
    work = Work(pipeline, before.host, after.host, tasks, elements)
    found = _with_source(
        Measured(
            steps=steps,
            elapsed=elapsed / steps,
            waited=waited / steps,
            unready=unready / steps,
            records=sum(grown(before.host, after.host, stage, "inputs") for stage in after.host.stages if stage.reads)
            / elements,
            nbytes=sum(grown(before.host, after.host, stage, "nbytes") for stage in after.host.stages if stage.ends)
            / elements,
            parts=work.parts(),
            at_work=_at_work(after.host.stages),
            rare=work.rare(),
            gil=lock.middle,
            workers=_workers(execution, after.host),
            worker_kind=execution.worker_kind,
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            step_known=step_known,
            feeding=_feeding(before, after, steps),
            start=start,
            read_seconds=sum(
                grown(before.host, after.host, stage, "under_way") for stage in after.host.stages if stage.reads
            )
            / elements,
            rows=_rows(before, after, pipeline) / elements,
            dropped=work.dropped(),
            others=taken_by_others(before.machine, after.machine),
        ),
        pipeline,
        execution,
    )
    found = _with_sampler(found)
    if found.rare is None and slowed(found) > UNEVEN:
        found = replace(found, rare=slow_reads(found, pipeline.leaves[0], tasks))
    found = replace(found, alone=_alone(found, work))
    inside = found.processor if found.worker_kind != "process" or not found.workers else 0.0
    here = (after.processor - before.processor) / steps - inside - found.hand_over
    return replace(found, own_processor=max(here, 0.0))


def of_all_loops(longest: Measured, looks: Sequence[tuple[Look, Look]]) -> Measured:
    """The longest of several loops over one loader, with steps that take what they took in all of them: workers begin in each.

    Args:
        longest: what was measured of it.
        looks: at the beginning and at the end of each of them.
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
        own_processor=min(longest.own_processor, elapsed - waited),  # without what it takes to make workers
        loops_alike=len(looks),
    )


def _with_source(loop: Measured, pipeline: Pipeline, execution: ExecutionOptions) -> Measured:
    source = with_sampler(source_of(pipeline, execution), pipeline)
    if source.in_memory or loop.read_seconds <= MUCH_READING * loop.work:
        return replace(loop, source=source)
    source = timed(source, pipeline)
    source = replace(source, processor=min(source.processor, _room(loop) / max(loop.records, 1e-9)))
    return read_apart(replace(loop, source=source), pipeline.leaves[0])


def _room(loop: Measured) -> float:
    """Seconds of a step in which places that work may have read, beside their other work: alone, a read may take longer."""
    others = loop.work - loop.seconds_of("reading") + (loop.own if loop.workers == 0 else 0.0)
    return max(loop.places() * loop.elapsed - others, 0.0)


def _with_sampler(loop: Measured) -> Measured:
    """With the sampler's work as a part of its own, where it takes much: it is done where records are read, or before."""
    seconds = loop.source.sampler * loop.records
    if seconds < MUCH_SAMPLING * loop.work:
        return loop
    apart = 0.0 if loop.reads_ahead else seconds
    parts = [
        replace(part, seconds=max(part.seconds - apart, 0.0)) if part.kind == "reading" else part for part in loop.parts
    ]
    return replace(loop, parts=(WorkPart("the sampler", "sampler", seconds), *parts))


def _alone(loop: Measured, work: Work) -> float:
    """Seconds of the largest operation where nobody else is at work, if others may make it wait."""
    largest = max(loop.parts, key=lambda part: part.seconds, default=None)
    if largest is None or largest.kind not in ("record", "batch") or loop.workers < 2 or loop.at_work > WAITS:
        return 0.0
    return work.alone(largest)


def _rows(before: Look, after: Look, pipeline: Pipeline) -> float:
    """Rows of the elements, where there are other numbers of these than of records; 0: the same."""
    last = next((stage for stage in reversed(after.host.stages) if stage.ends), None)
    if last is None or last.reads or not pipeline.stages[last.number].groups:
        return 0.0
    return grown(before.host, after.host, last, "inputs")


def _workers(execution: ExecutionOptions, host: IteratorStats) -> int:
    """Number of workers; where it is looked for, the present one; of a cluster, those that were at work."""
    if isinstance(execution.worker_count, Auto):
        return host.worker_count
    if isinstance(execution.worker_count, str) and host.workers is not None:
        return max(host.workers.count, 1)
    return execution.workers


def _start(before: Look, after: Look, tasks: Sequence[TaskEvent]) -> float:
    """Seconds in which the first batch was waited for while the workers had not begun."""
    if before.loop.steps or not tasks or tasks[0].block:  # else the first one is not among them
        return 0.0
    waited = after.loop.feeding.reading if after.loop.feeding else after.loop.waited
    return min(max(tasks[0].times.began - tasks[0].asked, 0.0), waited)


def _feeding(before: Look, after: Look, steps: int) -> Feeding | None:
    if after.loop.feeding is None or before.loop.feeding is None:
        return None
    return Feeding(*((now - then) / steps for now, then in zip(after.loop.feeding[2:], before.loop.feeding[2:])))


def _unready_share(tasks: Sequence[TaskEvent]) -> float:
    """Share of the waiting for tasks in which workers had not finished them."""
    waited = sum(task.taken - task.asked for task in tasks)
    unready = sum(max(0.0, min(task.times.ended, task.taken) - task.asked) for task in tasks)
    return min(unready / waited, 1.0) if waited > 0 else 1.0


def _at_work(stages: Sequence[StageStats]) -> float:
    """Share of the time of operations in which processors were at work."""
    whole = sum(stage.busy - stage.reading - stage.packing for stage in stages)
    worked = sum((stage.busy - stage.reading - stage.packing) * stage.cpu_share for stage in stages)
    return worked / whole if whole > 0 else 1.0
