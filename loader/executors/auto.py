"""The executor that finds out how many workers are best: it measures how fast the stream goes with some, and tries others.

In: tasks. Out: handles, of the executors between which it chooses. A pipeline whose tasks name earlier blocks begins with
one worker, as blocks that were made here are not known there; others begin in the calling thread. `Tuner` decides, purely:
* it begins small: in the calling thread, where that is possible, or with one worker.
* who hardly waits needs no more.
* workers are doubled as long as the stream gets faster by it; what did not help, tried twice, is taken back. Then numbers
  half-way to the one that did not help are tried, and longer buffers, which help where tasks take unequal times.
* whatever was best is kept: after that nothing changes any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import sub
from time import perf_counter
from typing import NamedTuple, NoReturn, Protocol

from ..options import Auto, ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.observer import Observer
from ..work.tasks import NO_BLOCKS, Blocks, Task
from .local import InlineExecutor
from .protocol import Executor, Handle, Tuning

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

GAIN = 1.05
"""What more workers must bring to be kept. Chosen: more than speeds differ by chance from second to second, mostly."""

ENOUGH = 0.02
"""Of the time: who waits less needs nothing more. Chosen."""

MOST_BUFFER = 4
"""Batches ahead for each worker. Chosen."""


class Setting(NamedTuple):
    """A number of workers, and how far they work ahead.

    Attributes:
        workers: 0: in the calling thread.
        buffer: finished batches held ready for each.
    """

    workers: int
    buffer: int


class Stretch(NamedTuple):
    """Some seconds with one setting.

    Attributes:
        seconds: how long it was.
        inputs: records, or rows, that came through.
        waited: seconds that the user waited.
        nbytes: of memory that workers share, at most.
    """

    seconds: float
    inputs: int
    waited: float
    nbytes: int

    @property
    def rate(self) -> float:
        return self.inputs / self.seconds


class Tuner:
    """The setting, and what is tried next.

    Args:
        least: workers to begin with: 0 or 1.
        most: workers that there may be.
        most_bytes: of memory that workers may share with the user; None: any.
        buffer: to begin with.
    """

    def __init__(self, least: int, most: int, most_bytes: int | None = None, buffer: int = 1) -> None:
        self.setting = self._best = Setting(least, buffer)
        self.settled = False
        self._most, self._most_bytes = most, most_bytes
        self._best_rate = 0.0
        self._bytes_each = 0.0  # of memory, for each batch that is ahead
        self._tries = self._settings()
        next(self._tries)

    def note(self, stretch: Stretch) -> Setting:
        """Note a stretch with the setting; return the next setting."""
        if self.settled:
            return self.setting
        if self.setting.workers:
            self._bytes_each = max(self._bytes_each, stretch.nbytes / _ahead(self.setting))
        better = stretch.rate > self._best_rate * GAIN
        if better or self._best == self.setting:
            self._best, self._best_rate = self.setting, stretch.rate
        if stretch.waited <= ENOUGH * stretch.seconds and (better or self._best == self.setting):
            return self.settle()
        for setting in self._tries:
            if self._fits(setting):
                self.setting = setting
                return setting
        return self.settle()

    def settle(self) -> Setting:
        """Keep what was best."""
        self.settled, self.setting = True, self._best
        return self._best

    def _fits(self, setting: Setting) -> bool:
        return self._most_bytes is None or self._bytes_each * _ahead(setting) <= self._most_bytes

    def _settings(self) -> Iterator[Setting]:
        """Settings to try, one after the other; between two of them `_best` is brought up to date."""
        yield self._best
        workers, failed = max(2 * self._best.workers, 2), self._most + 1
        while workers <= self._most:
            yield Setting(workers, self._best.buffer)
            if self._best.workers != workers:  # or something else slowed it down: one after the other, once more
                yield self._best
                yield Setting(workers, self._best.buffer)
            if self._best.workers != workers:
                failed = workers
                break
            workers = 2 * workers if 2 * workers <= self._most else max(self._most, workers + 1)
        while (between := (self._best.workers + failed) // 2) > self._best.workers:
            yield Setting(between, self._best.buffer)
            if self._best.workers != between:
                failed = between
        while self._best.workers and self._best.buffer < MOST_BUFFER:
            tried = Setting(self._best.workers, 2 * self._best.buffer)
            yield tried
            if self._best != tried:
                break


def _ahead(setting: Setting) -> int:
    """Batches that may be in memory at a time."""
    return setting.workers * (1 + setting.buffer)


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
        auto = options.worker_count
        assert isinstance(auto, Auto), "the options say that workers are counted here"
        self._pipeline, self._observer, self._make_team = pipeline, observer, make_team
        here = _may_work_here(pipeline, options)
        most = (
            1 if all(leaf.in_order for leaf in pipeline.leaves) else auto.most
        )  # where one task follows from the other
        self._tuning = tuning
        found: Findings | None = tuning.take()
        self.found = found or Findings(Tuner(0 if here else 1, most, auto.most_bytes, options.worker_buffer_size))
        workers, buffer = self.found.tuner.setting
        self._inline = InlineExecutor(pipeline, options) if here else None
        self._team = make_team(max(workers, 1)) if workers or not here else None
        if self._team is not None and found is not None:
            self._team.resize(workers, buffer)
        self._at_work: Executor | None = self._inline or self._team
        self._ends = 0.0  # when the tuner has to have come to an end; 0: no task came yet
        self._before: Counts | None = None  # when the stretch began that is being measured
        self._arriving = False  # the team that the last epoch ended with has not begun yet
        self._search = self._steps()
        self._at = next(self._search)  # when it is to be continued
        observer.worker_count = workers

    def inputs(self, stage: int) -> int:
        return self._working.inputs(stage)

    def window(self, stage: int) -> int:
        """That of the executor at work; more than one task, as the number may grow in a moment."""
        return max(2, self._working.window(stage))

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
        while not tuner.settled:
            self._ends += waits.paused
            waits.forget_pauses()
            measured, self.found.measured = self.found.measured, NOTHING
            self._before = _less(self._counts(now), measured)
            now = yield now + max(STRETCH_SECONDS - measured[0], 0.0)
            while (stretch := self._stretch(now)) is None:
                now = yield now + POLL_SECONDS
            self._before = None
            tuner.note(stretch)
            if now - waits.paused > self._ends:
                tuner.settle()
            now = yield from self._change(now, *tuner.setting)
        while not tuner.setting.workers and self._team is not None:
            if self._team.is_idle():
                team, self._team = self._team, None
                team.close()
            else:
                now = yield now + POLL_SECONDS
        while True:
            yield math.inf

    def _change(self, now: float, workers: int, buffer: int) -> Generator[float, float, float]:
        self._observer.worker_count = workers
        if workers:
            self._team = self._team or self._make_team(workers)
            self._team.resize(workers, buffer)
            now = yield from self._team_begins(now)
        self._at_work = self._team if workers else self._inline
        return now if self.found.tuner.settled else (yield now + WARM_SECONDS)

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
        if seconds < (STRETCH_SECONDS if tasks >= LEAST_TASKS else LONGEST_SECONDS):
            return None
        return Stretch(seconds, inputs, waited, self._observer.slabs.now)

    def close(self) -> None:
        """Close all of them; what was found out is for the next epoch."""
        if self._ends:
            found, now = self.found, perf_counter()
            found.seconds_left, self._ends = max(self._ends - now, 0.0), 0.0
            if self._before is not None:
                found.measured = self._measured(now)
            if self._arriving or not found.seconds_left:  # epochs end before workers begin
                found.tuner.settle()
            self._tuning.give_back(found)
        for executor in (self._inline, self._team):
            if executor is not None:
                executor.close()


def _less(counts: Counts, before: Counts) -> Counts:
    seconds, inputs, tasks, waited = map(sub, counts, before)
    return seconds, int(inputs), int(tasks), waited


def _may_work_here(pipeline: Pipeline, options: ExecutionOptions) -> bool:
    """True if tasks can be done in the calling thread as well as by a team, in any order, and no option needs workers."""
    wants_workers = options.worker_init_fn is not None or options.timeout is not None
    return pipeline.aligned and not pipeline.leaf.in_order and not wants_workers
