"""The executor that finds out how many workers are best: it measures, and does what the tuner decides.

In: tasks. Out: handles, of the executors between which it chooses. A pipeline whose tasks name earlier blocks begins with
one worker, as blocks that were made here are not known there; others begin in the calling thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import sub
from time import perf_counter
from typing import Protocol

from ..options import Auto, ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.observer import Observer
from ..work.tasks import NO_BLOCKS, Blocks, Task
from .local import InlineExecutor
from .protocol import Executor, Handle
from .tuner import NOTHING, TUNING_SECONDS, Found, Standing, Stretch, Tuner, Tuning

# All chosen: together they keep what is promised, that the search ends within 30 seconds.

WARM_SECONDS = 0.4
"""After a change, before anything is measured: what was made before it is delivered, and tasks grow to their length."""

STRETCH_SECONDS = 1.0
"""For which the speed is measured."""

LEAST_TASKS, LONGEST_SECONDS = 8, 4.0
"""A stretch goes on until so many tasks came, but no longer than that."""

POLL_SECONDS = 0.05
"""Between two looks at what is not ready yet."""


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
        self._tuning, found = tuning, tuning.take()
        self._found: Found | None = found or Found(
            Tuner(0 if here else 1, most, auto.most_bytes, options.worker_buffer_size)
        )
        self._tuner = self._found.tuner
        workers, buffer = self._tuner.setting
        self._inline = InlineExecutor(pipeline, options) if here else None
        self._team = make_team(max(workers, 1)) if workers or not here else None
        if self._team is not None and found is not None:
            self._team.resize(workers, buffer)
        self._at_work = self._inline or self._team
        self._ends = 0.0  # when the tuner has to have come to an end; 0: no task came yet
        self._then: Callable[[float], None] = self._begin_stretch  # what is to be done beside tasks …
        if workers and self._inline is not None:
            self._then = self._take_over_at_first
        self._at = 0.0  # … and when
        self._before = NOTHING  # how things stood when the stretch began
        observer.worker_count = workers

    def inputs(self, stage: int) -> int:
        """As whoever is at work says."""
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
            self._ends = self._ends or now + self._seconds_left
            self._then(now)
        return self._working.submit(task, blocks)

    def _next(self, then: Callable[[float], None], at: float) -> None:
        self._then, self._at = then, at

    @property
    def _seconds_left(self) -> float:
        return TUNING_SECONDS if self._found is None else self._found.seconds_left

    def _begin_stretch(self, now: float) -> None:
        if self._tuner.settled:
            self._next(self._begin_stretch, math.inf)
            return
        self._ends += self._observer.waits.paused
        self._observer.waits.forget_pauses()
        assert self._found is not None, "it is not closed"
        measured, self._found.measured = self._found.measured, NOTHING
        seconds, inputs, tasks, waited = map(sub, self._standing(now), measured)
        self._before = seconds, int(inputs), int(tasks), waited
        self._next(self._measure, now + max(STRETCH_SECONDS - measured[0], 0.0))

    def _standing(self, now: float) -> Standing:
        """The time, inputs and tasks that came through so far, and seconds that the user waited."""
        sums = [self._observer.stage(stage.number) for stage in self._pipeline.stages if stage.leaf is not None]
        inputs, tasks = sum(one.inputs for one in sums), sum(one.tasks for one in sums)
        return now, inputs, tasks, self._observer.waits.until(now)

    def _measure(self, now: float) -> None:
        """See what the stretch gave. Pauses do not count: JAX compiles in the first two steps, others evaluate or save."""
        paused = self._observer.waits.paused
        seconds, inputs, tasks, waited = map(sub, self._standing(now), self._before)
        seconds -= paused
        if seconds < (STRETCH_SECONDS if tasks >= LEAST_TASKS else LONGEST_SECONDS):
            self._next(self._measure, now + POLL_SECONDS)
            return
        self._tuner.note(Stretch(seconds, int(inputs), waited, self._observer.slab_bytes))
        if now - paused > self._ends:
            self._tuner.settle()
        self._change(now)

    def _change(self, now: float) -> None:
        """Go on with the tuner's setting."""
        workers, buffer = self._tuner.setting
        self._observer.worker_count = workers
        if workers:
            self._team = self._team or self._make_team(workers)
            self._team.resize(workers, buffer)
            self._take_over(now)
            return
        self._at_work = self._inline
        self._next(*((self._send_home, now) if self._tuner.settled else (self._begin_stretch, now + WARM_SECONDS)))

    def _take_over(self, now: float) -> None:
        """Have the team work, once it can; until then the work goes on as before."""
        if self._team is None or not self._team.has_begun():
            self._next(self._take_over, now + POLL_SECONDS)
            return
        self._at_work = self._team
        self._next(self._begin_stretch, math.inf if self._tuner.settled else now + WARM_SECONDS)

    def _take_over_at_first(self, now: float) -> None:
        """Have the team work that the last epoch ended with, once it can."""
        if self._team is None or not self._team.has_begun():
            self._next(self._take_over_at_first, now + POLL_SECONDS)
            return
        self._at_work = self._team
        self._begin_stretch(now)

    def _send_home(self, now: float) -> None:
        """End the team, once what it was given is done."""
        if self._team is None or self._team.is_idle():
            team, self._team = self._team, None
            if team is not None:
                team.close()
        self._next(self._send_home, math.inf if self._team is None else now + POLL_SECONDS)

    def _keep_found(self, now: float) -> None:
        found, self._found = self._found, None
        if found is None or not self._ends:
            return
        found.seconds_left = max(self._ends - now, 0.0)
        if self._then == self._measure:
            seconds, inputs, tasks, waited = map(sub, self._standing(now), self._before)
            found.measured = seconds - self._observer.waits.paused, int(inputs), int(tasks), waited
        if self._then == self._take_over_at_first or not found.seconds_left:  # epochs end before workers begin
            self._tuner.settle()
        self._tuning.give_back(found)

    def close(self) -> None:
        """Close all of them; what was found out is for the next epoch."""
        self._keep_found(perf_counter())
        for executor in (self._inline, self._team):
            if executor is not None:
                executor.close()


def _may_work_here(pipeline: Pipeline, options: ExecutionOptions) -> bool:
    """True if tasks can be done in the calling thread as well as by a team, in any order, and no option needs workers."""
    wants_workers = options.worker_init_fn is not None or options.timeout is not None
    return pipeline.aligned and not pipeline.leaf.in_order and not wants_workers
