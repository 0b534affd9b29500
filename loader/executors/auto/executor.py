"""The executor that finds out how many workers are best: it measures how fast the stream goes with some, and tries others.

In: tasks. Out: handles, of the executors between which it chooses. A pipeline whose tasks name earlier blocks begins with
one worker, as blocks that were made here are not known there; others begin in the calling thread. `Tuner` decides, purely:
* it begins small: in the calling thread, where that is possible, or with one worker.
* who hardly waits needs no more.
* workers are doubled as long as the stream gets faster by it; what did not help, tried twice, is taken back. Then numbers
  half-way to the one that did not help are tried, and longer buffers, which help where tasks take unequal times.
* whatever was best is kept: after that nothing changes any more.

`HereOrWorkers` decides between a number of workers that the user asked for and the calling thread, in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from operator import sub
from time import perf_counter
from typing import NoReturn, Protocol

from ...options import Auto, ExecutionOptions
from ...plan.pipeline import Pipeline
from ...timing.observer import Observer
from ...work.tasks import NO_BLOCKS, Blocks, Task
from ..local import InlineExecutor
from ..protocol import Executor, Handle, Tuning
from .tuner import HereOrWorkers, Stretch, Tuner

# All chosen: together they keep what is promised, that the search ends within 30 seconds.

TUNING_SECONDS = 24.0
"""After which nothing more is tried. The last stretch may take some seconds more."""

WARM_SECONDS = 0.4
"""After a change, before anything is measured: what was made before it is delivered, and tasks grow to their length."""

STRETCH_SECONDS = 1.0
"""For which the speed is measured."""

LEAST_TASKS, LONGEST_SECONDS = 8, 4.0
"""A stretch lasts until that number of tasks came, but no longer than that."""

POLL_SECONDS = 0.05
"""Between two looks at what is not ready yet."""

Counts = tuple[float, int, int, float]
"""Seconds, inputs, tasks, and seconds that the user waited."""

NOTHING: Counts = (0.0, 0, 0, 0.0)


@dataclass
class Findings:
    """Findings so far.

    Attributes:
        tuner: has the setting, and what is tried next.
        seconds_left: in which more may be tried.
        measured: of a stretch that an epoch's end cut short: it continues in the next epoch.
    """

    tuner: Tuner
    seconds_left: float = TUNING_SECONDS
    measured: Counts = NOTHING


class Team(Executor, Protocol):
    """An executor with workers, whose number can be changed."""

    def resize(self, workers: int, buffer: int) -> None:
        """Have so many workers, at least 1, and so many batches ahead for each."""

    def has_begun(self) -> bool:
        """True if a worker is ready to work."""

    def is_idle(self) -> bool:
        """True if every task that it was given is done."""


class AutoExecutor(Executor):
    """Runs tasks in the calling thread or by a team, which `make_team` makes of so many workers."""

    elsewhere = True

    def __init__(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        make_team: Callable[[int], Team],
        tuning: Tuning,
    ) -> None:
        self._pipeline, self._observer, self._make_team = pipeline, observer, make_team
        here = may_work_here(pipeline, options)
        self._tuning = tuning
        found: Findings | None = tuning.take()
        self.found = found or Findings(_tuner(pipeline, options, here))
        workers, buffer = self.found.tuner.setting
        self._inline = InlineExecutor(pipeline, options) if here else None
        self._team = make_team(max(workers, 1)) if workers or not here else None
        if self._team is not None and found is not None:
            self._team.resize(workers, buffer)
        here = here and (self.found.tuner.begins_here or not workers)
        self._at_work: Executor | None = self._inline if here else self._team
        self._ends = 0.0  # when the tuner has to have come to an end; 0: no task came yet
        self._before: Counts | None = None  # when the stretch began that is being measured
        self._arriving = False  # the team that the last epoch ended with has not begun yet
        self._search = self._steps()
        self._at = next(self._search)  # when it is to be continued
        observer.worker_count, observer.decision = workers, self.found.tuner.reason

    def inputs(self, stage: int) -> int:
        return self._working.inputs(stage)

    def window(self, stage: int) -> int:
        """That of the executor at work; more than one task, as the number may grow in a moment."""
        return max(2 if self.found.tuner.begins_here else 1, self._working.window(stage))

    @property
    def _working(self) -> Executor:
        assert self._at_work is not None, "there is an executor, or a team"
        return self._at_work

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Have whoever is at work do a task; see now and then who should be."""
        now = perf_counter()
        if now >= self._at:
            self._at = self._search.send(now)
        return self._working.submit(task, blocks)

    def _steps(self) -> Generator[float, float, NoReturn]:
        """The search, beside tasks: gives the time when it is to be continued, and is sent the time then."""
        tuner, waits = self.found.tuner, self._observer.waits
        now = yield 0.0
        self._ends = now + self.found.seconds_left
        if tuner.setting.workers and self._inline is not None:
            self._arriving = True
            now = yield from self._team_begins(now)
            self._arriving, self._at_work = False, self._team
            if not tuner.begins_here and not tuner.settled:
                now = yield now + WARM_SECONDS * tuner.share
        while not tuner.settled:
            self._ends += waits.paused
            waits.forget_pauses()
            measured, self.found.measured = self.found.measured, NOTHING
            self._before = _less(self._counts(now), measured)
            now = yield now + max(STRETCH_SECONDS * tuner.share - measured[0], 0.0)
            while (stretch := self._stretch(now)) is None:
                now = yield now + POLL_SECONDS
            self._before = None
            tuner.note(stretch)
            if now - waits.paused > self._ends:
                tuner.settle()
            now = yield from self._change(now, *tuner.setting)
        while not tuner.setting.workers and self._team is not None:
            if self._team.is_idle():
                self._team.close()
                self._team = None  # only now: closing may be interrupted
            else:
                now = yield now + POLL_SECONDS
        while True:
            yield math.inf

    def _change(self, now: float, workers: int, buffer: int) -> Generator[float, float, float]:
        tuner = self.found.tuner
        self._observer.worker_count, self._observer.decision = workers, tuner.reason
        if workers:
            self._team = self._team or self._make_team(workers)
            self._team.resize(workers, buffer)
            now = yield from self._team_begins(now)
        self._at_work = self._team if workers else self._inline
        return now if tuner.settled else (yield now + WARM_SECONDS * tuner.share)

    def _team_begins(self, now: float) -> Generator[float, float, float]:
        """Wait until the team can work; until then the work goes on as before."""
        while self._team is None or not self._team.has_begun():
            now = yield now + POLL_SECONDS
        return now

    def _counts(self, now: float) -> Counts:
        sums = [self._observer.stage(stage.number) for stage in self._pipeline.stages if stage.leaf is not None]
        inputs, tasks = sum(one.inputs for one in sums), sum(one.tasks for one in sums)
        return now, inputs, tasks, self._observer.waits.until(now)

    def _measured(self, now: float) -> Counts:
        """The stretch so far. Pauses do not count: JAX compiles in the first two steps, others evaluate or save."""
        seconds, inputs, tasks, waited = _less(self._counts(now), self._before or NOTHING)
        return seconds - self._observer.waits.paused, inputs, tasks, waited

    def _stretch(self, now: float) -> Stretch | None:
        seconds, inputs, tasks, waited = self._measured(now)
        least = STRETCH_SECONDS * self.found.tuner.share
        if seconds < (least if tasks >= LEAST_TASKS else LONGEST_SECONDS):
            return None
        return Stretch(seconds, inputs, waited, self._observer.slabs.now)

    def drop_tasks(self, observer: Observer) -> bool:
        """Keep workers that are to stay, as they do (`PooledExecutor.drop_tasks`)."""
        tuner, team = self.found.tuner, self._team
        if tuner.begins_here or not tuner.settled or team is None or self._at_work is not team:
            return False
        self._observer = observer
        return team.drop_tasks(observer)

    def close(self) -> None:
        """Close all of them; what was found out is for the next epoch."""
        if self._ends:
            found, now = self.found, perf_counter()
            found.seconds_left, self._ends = max(self._ends - now, 0.0), 0.0
            if self._before is not None:
                found.measured = self._measured(now)
            arriving = self._arriving and found.tuner.begins_here
            if arriving or not found.seconds_left:  # epochs end before workers begin
                found.tuner.settle()
            self._tuning.give_back(found)
        self._search.close()  # else it and this object would refer to each other
        for executor in (self._inline, self._team):
            if executor is not None:
                executor.close()


def _less(counts: Counts, before: Counts) -> Counts:
    seconds, inputs, tasks, waited = map(sub, counts, before)
    return seconds, int(inputs), int(tasks), waited


def _tuner(pipeline: Pipeline, options: ExecutionOptions, here: bool) -> Tuner:
    count, buffer = options.worker_count, options.worker_buffer_size
    if not isinstance(count, Auto):
        return HereOrWorkers(options.workers, buffer, pipeline.stages[0].unit)
    in_order = all(leaf.in_order for leaf in pipeline.leaves)  # where one task follows from the other
    return Tuner(0 if here else 1, 1 if in_order else count.most, count.most_bytes, buffer)


def may_work_here(pipeline: Pipeline, options: ExecutionOptions) -> bool:
    """True if tasks can be done in the calling thread as well as by a team, in any order, and no option needs workers."""
    wants_workers = options.worker_init_fn is not None or options.timeout is not None
    return pipeline.aligned and not pipeline.leaf.in_order and not wants_workers
