"""The executor that tries several numbers of workers, measures their speeds, and keeps the best.

In: tasks. Out: handles (results to come) of the executor that currently runs tasks. The first tasks
run in the calling thread, before any worker is started. If the calling thread cannot run tasks (see
`may_work_here`), the search begins with one worker.

`Tuner` makes the decisions, without side effects:

* If the user's loop hardly waits for batches with the fastest setting so far, the search ends.
* Otherwise the number of workers is doubled as long as the stream gets faster. A number that made
  the stream no faster in two trials is not kept. Then numbers between the best and the failed one
  are tried, and also more finished batches per worker, which make the stream faster if tasks take
  unequal times.
* The best setting is kept, and nothing changes any more.

If the options have a fixed number of workers, `HereOrWorkers` makes the decisions. It compares this
number of workers with the calling thread.
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
from .tuner import HereOrWorkers, Measurement, Tuner

# All chosen so that the search ends within 30 seconds, as the documentation promises.

TUNING_SECONDS = 24.0
"""Seconds after which no further setting is tried.

The last measurement may take some seconds more.
"""

WARM_SECONDS = 0.4
"""Seconds after a change before anything is measured.

Meanwhile batches of the earlier setting are delivered.
"""

MEASUREMENT_SECONDS = 1.0
"""Seconds for which the speed of a setting is measured."""

LEAST_TASKS, LONGEST_SECONDS = 8, 4.0
"""Number of tasks, and number of seconds, either of which ends a measurement.

It lasts at least `MEASUREMENT_SECONDS`.
"""

POLL_SECONDS = 0.05
"""Seconds between two checks of something that is not ready yet."""

Counts = tuple[float, int, int, float]
"""Counts of a measurement: seconds, inputs, tasks, and seconds for which the user waited."""

NOTHING: Counts = (0.0, 0, 0, 0.0)


@dataclass
class SettingSearch:
    """Progress of the search for the fastest number of workers, kept from one epoch to the next.

    Attributes:
        tuner: decides which setting (numbers of workers and of buffered batches) to use or to try
            next.
        seconds_left: seconds for which the search may try further settings.
        measured: if the end of an epoch interrupted a measurement: its seconds, inputs and tasks so
            far, and the seconds for which the user waited. The measurement continues in the next
            epoch.
    """

    tuner: Tuner
    seconds_left: float = TUNING_SECONDS
    measured: Counts = NOTHING


class Team(Executor, Protocol):
    """Interface of an executor whose number of workers can change."""

    def resize(self, workers: int, buffer: int) -> None:
        """Change the number of workers, and how many finished batches each worker keeps ready.

        Args:
            workers: number of workers, at least 1.
            buffer: number of finished batches that each worker keeps ready.
        """

    def has_begun(self) -> bool:
        """Return True if a worker is ready to work."""

    def is_idle(self) -> bool:
        """Return True if every submitted task is done, so that `close` would lose no task.

        On threads, a task that has begun counts as done, because `close` waits for it.
        """


class AutoExecutor(Executor):
    """Runs tasks in the calling thread or with workers: measurements decide which is faster.

    Args:
        pipeline: pipeline of the run.
        options: options of the loader.
        observer: gets the number of workers and the statistics of tasks.
        make_team: function that takes a number of workers and returns an executor.
        tuning: keeps the search for the best number of workers between epochs. If it has the search
            of an earlier epoch, this executor continues that search.
    """

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
        found: SettingSearch | None = tuning.take()
        self.found = found or SettingSearch(_tuner(pipeline, options, here))
        self._unused = found is not None  # a search of an earlier epoch, and no task came yet
        workers, buffer = self.found.tuner.setting
        self._inline = InlineExecutor(pipeline, options) if here else None
        self._team = make_team(max(workers, 1)) if workers or not here else None
        if self._team is not None and found is not None:
            self._team.resize(workers, buffer)
        here = here and (self.found.tuner.begins_here or not workers)
        self._at_work: Executor | None = self._inline if here else self._team
        self._ends = 0.0  # when the tuner has to have come to an end; 0: no task came yet
        self._before: Counts | None = None  # when the measurement began that is being measured
        self._arriving = False  # the team that the last epoch ended with has not begun yet
        self._search = self._steps()
        self._at = next(self._search)  # when it is to be continued
        observer.worker_count, observer.decision = workers, self.found.tuner.reason

    def inputs(self, stage: int) -> int:
        return self._working.inputs(stage)

    def window(self, stage: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        A stage is a group of operations that run in one task. If `worker_count="auto"`, the result
        is at least 2, because workers may replace the calling thread during the run.
        """
        return max(2 if self.found.tuner.begins_here else 1, self._working.window(stage))

    @property
    def _working(self) -> Executor:
        assert self._at_work is not None, "there is an executor, or a team"
        return self._at_work

    def submit(self, task: Task, blocks: Blocks = NO_BLOCKS) -> Handle:
        """Submit a task to the current executor, and return its handle (a result to come).

        If the next step of the search for the best number of workers is due, that step is done
        first, and may change the current executor.

        Args:
            task: the task.
            blocks: the results of earlier tasks to whose rows the task refers.
        """
        now = perf_counter()
        if now >= self._at:
            self._at = self._search.send(now)
        return self._working.submit(task, blocks)

    def _steps(self) -> Generator[float, float, NoReturn]:
        """Search for the best setting (numbers of workers and of buffered batches), step by step.

        This is a generator. Each step yields the time at which the next step is due. The caller
        then sends the current time. Both times are in seconds of `perf_counter`.
        """
        tuner, waits = self.found.tuner, self._observer.waits
        now = yield 0.0
        self._unused = False
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
            now = yield now + max(MEASUREMENT_SECONDS * tuner.share - measured[0], 0.0)
            while (measurement := self._measurement(now)) is None:
                now = yield now + POLL_SECONDS
            self._before = None
            tuner.note(measurement)
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
        """Wait until a worker is ready to work, and return the current time then.

        This is a generator, used by `_steps`. It yields the time at which to check again, and the
        caller sends the current time at that check. Until a worker is ready, the former executor
        runs the tasks.
        """
        while self._team is None or not self._team.has_begun():
            now = yield now + POLL_SECONDS
        return now

    def _counts(self, now: float) -> Counts:
        sums = [
            self._observer.stage(stage.number)
            for stage in self._pipeline.stages
            if stage.leaf is not None
        ]
        inputs, tasks = sum(one.inputs for one in sums), sum(one.tasks for one in sums)
        return now, inputs, tasks, self._observer.waits.until(now)

    def _measured(self, now: float) -> Counts:
        """Return the seconds, inputs, tasks and seconds of waiting in the current measurement.

        The user's pauses are not included in the seconds. The two longest times in which the user's
        loop requested no batch count as pauses. Examples are the compilation by JAX in the first
        two steps, an evaluation, or the saving of a checkpoint.
        """
        seconds, inputs, tasks, waited = _less(self._counts(now), self._before or NOTHING)
        return seconds - self._observer.waits.paused, inputs, tasks, waited

    def _measurement(self, now: float) -> Measurement | None:
        seconds, inputs, tasks, waited = self._measured(now)
        least = MEASUREMENT_SECONDS * self.found.tuner.share
        if seconds < (least if tasks >= LEAST_TASKS else LONGEST_SECONDS):
            return None
        return Measurement(seconds, inputs, waited, self._observer.slabs.now)

    def drop_tasks(self, observer: Observer) -> bool:
        """Drop all tasks, and return True if the workers can be used for new tasks.

        Return False, without dropping tasks, in each of these cases:

        * `worker_count="auto"`, also after the search for the best number of workers has ended;
        * the choice between the workers and the calling thread has not been made yet;
        * the calling thread makes the batches.

        Otherwise, return the result of `drop_tasks` of the workers' executor.
        """
        tuner, team = self.found.tuner, self._team
        if tuner.begins_here or not tuner.settled or team is None or self._at_work is not team:
            return False
        self._observer = observer
        return team.drop_tasks(observer)

    def close(self) -> None:
        """Close the executors of the calling thread and of the workers.

        If this executor has the progress of the search for the best number of workers, the progress
        is kept for the next epoch.
        """
        if self._unused:
            self._unused = False
            self._tuning.give_back(self.found)
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
    # where one task follows from the other
    in_order = all(leaf.in_order for leaf in pipeline.leaves)
    return Tuner(0 if here else 1, 1 if in_order else count.most, count.most_bytes, buffer)


def may_work_here(pipeline: Pipeline, options: ExecutionOptions) -> bool:
    """Return True if the calling thread could run the tasks of a pipeline, in place of workers.

    Return False in these cases:

    * an option (`worker_init_fn`, `timeout`) needs workers;
    * the source has no random access;
    * elements are not made of a fixed number of positions each (see `Pipeline.aligned`).
    """
    wants_workers = options.worker_init_fn is not None or options.timeout is not None
    return pipeline.aligned and not pipeline.leaf.in_order and not wants_workers
