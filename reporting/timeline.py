"""Convert the recorded times of a loop to intervals for each thread.

The input is the recorded times of tasks (elements that a worker makes at a time) and of a device
feeder's steps. The result has a track of intervals for each thread. Each interval names the batch
that passes through it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from ..loader.device.stats import BatchTimes, FeederStats
from ..loader.stats import IteratorStats
from ..loader.timing.times import TaskEvent

Kind: TypeAlias = Literal[
    "waiting",
    "own work",
    "task",
    "reading",
    "packing",
    "transforming",
    "agreeing",
    "transfer",
    "not timed",
]


@dataclass(frozen=True)
class Interval:
    """A time in which a thread did one thing.

    Attributes:
        kind: what the thread did.
        name: text for the interval.
        began: beginning, in seconds of `time.perf_counter`.
        ended: end, in the same seconds.
        flows: numbers of the batches (or other results of tasks) that pass through it. Intervals
            with the same number belong together.
        details: `(name, value)` of further facts.
    """

    kind: Kind
    name: str
    began: float
    ended: float
    flows: tuple[int, ...] = ()
    details: tuple[tuple[str, int | float | str], ...] = ()


@dataclass(frozen=True)
class Track:
    """Intervals of one thread, in order. An interval may lie within the interval before it."""

    name: str
    spans: tuple[Interval, ...]


@dataclass(frozen=True)
class Timeline:
    """Timeline of a loop, its device feeder and its workers.

    Attributes:
        tracks: intervals of each thread: the user's loop first, then a feeder's threads, then the
            workers.
        ready: `(time, number)`: the number of results of tasks that, from this time on, were
            finished and not yet used.
    """

    tracks: tuple[Track, ...]
    ready: tuple[tuple[float, int], ...]

    @property
    def loop(self) -> Track:
        return self.tracks[0]


def timeline(stats: IteratorStats | None, fed: FeederStats | None = None) -> Timeline:
    """Return the timeline of an iterator's last tasks, and of a device feeder's last steps.

    `fed` is None without a feeder.
    """
    tasks, stages = (stats.tasks, stats.stages) if stats is not None else ((), ())
    last = {stage.number for stage in stages if stage.ends}
    taken = sorted((task for task in tasks if task.stage in last), key=lambda task: task.asked)
    names = {
        stage.number: ", ".join(each.name for each in stage.operations) or "read"
        for stage in stages
    }
    if fed is None:
        # between waits are the user's own work, or batches of tasks that were too short to be timed
        known = {task.block for task in tasks}
        waits = [
            Interval("waiting", "wait for a batch", task.asked, task.taken, (task.block,))
            for task in taken
        ]
        whole = [
            all(block in known for block in range(one.block, other.block))
            for one, other in pairwise(taken)
        ]
    else:
        waits = [
            Interval(
                "waiting", "wait for a batch", step.asked, step.taken, (_flow_of_step(number),)
            )
            for number, step in enumerate(fed.batches)
        ]
        whole = [True] * len(waits)
    loop = Track("your loop", tuple(_with_own_work(waits, [True, *whole])))
    feeder = () if fed is None else _feeder(fed.batches, taken)
    return Timeline((loop, *feeder, *_workers(tasks, names)), tuple(_ready(tasks)))


def _with_own_work(waits: Sequence[Interval], whole: Sequence[bool]) -> Iterator[Interval]:
    ended = waits[0].began if waits else 0.0
    for wait, follows in zip(waits, whole):
        if wait.began > ended:
            own = Interval("own work", "your own work", ended, wait.began)
            yield (
                own if follows else replace(own, kind="not timed", name="steps that were not timed")
            )
        began = max(wait.began, ended)
        ended = max(wait.ended, began)
        yield replace(wait, began=began, ended=ended)


def _feeder(steps: Sequence[BatchTimes], taken: Sequence[TaskEvent]) -> tuple[Track, ...]:
    moments = [task.taken for task in taken]
    reads, sends = [], []
    for number, step in enumerate(steps):
        times, flow = step.made, _flow_of_step(number)
        blocks = taken[bisect_left(moments, times.read_from) : bisect_left(moments, times.read_to)]
        flows = (*(task.block for task in blocks), flow)
        reads.append(
            Interval("waiting", "wait for the host's batch", times.read_from, times.read_to, flows)
        )
        if times.transformed > times.read_to:
            reads.append(Interval("transforming", "transform", times.read_to, times.transformed))
        if times.agreed > times.agree_from:
            sends.append(
                Interval("agreeing", "agree with other hosts", times.agree_from, times.agreed)
            )
        sends.append(Interval("transfer", "transfer", times.agreed, times.transferred, (flow,)))
    return Track("feeder: reads", tuple(reads)), Track("feeder: sends", tuple(sends))


def _flow_of_step(number: int) -> int:
    """Return the flow number of a feeder's step.

    It is below 0, because results of tasks have numbers from 0.
    """
    return -1 - number


def _workers(tasks: Sequence[TaskEvent], names: dict[int, str]) -> Iterator[Track]:
    for worker in sorted({task.times.worker for task in tasks}):
        own = sorted(
            (task for task in tasks if task.times.worker == worker),
            key=lambda task: task.times.began,
        )
        spans, ended = list[Interval](), own[0].times.began
        for task in own:
            others = task.times.tasks - 1
            if others and task.times.began > ended:
                spans.append(
                    Interval(
                        "not timed", f"{others} tasks that were not timed", ended, task.times.began
                    )
                )
            spans += _spans(task, names)
            ended = task.times.ended
        yield Track(f"worker {worker}", tuple(spans))


def _spans(task: TaskEvent, names: dict[int, str]) -> Iterator[Interval]:
    times = task.times
    inputs = (
        ("rows in", times.inputs)
        if task.made_of
        else ("positions", f"{task.start} to {task.stop - 1}")
    )
    told = (
        ("stage", task.stage),
        inputs,
        ("rows", times.rows),
        ("bytes", times.nbytes),
        ("reading ms", times.reading * 1e3),
        ("packing ms", times.packing * 1e3),
        ("queued ms", max(0.0, times.began - task.submitted) * 1e3),
    )
    name = names.get(task.stage, f"stage {task.stage}")
    given_on = (task.block,) if times.rows else ()
    yield Interval("task", name, times.began, times.ended, (*given_on, *task.made_of), told)
    if times.reading > 0:
        yield Interval(
            "reading",
            "reading",
            times.began,
            min(times.began + times.reading, times.ended - times.packing),
        )
    if times.packing > 0:
        yield Interval("packing", "packing", times.ended - times.packing, times.ended)


def _ready(tasks: Sequence[TaskEvent]) -> Iterator[tuple[float, int]]:
    changes = sorted(
        [(task.times.ended, 1) for task in tasks]
        + [(max(task.taken, task.times.ended), -1) for task in tasks]
    )
    count = 0
    for (at, change), (following, _) in pairwise([*changes, (float("inf"), 0)]):
        count += change
        if following > at:
            yield at, count
