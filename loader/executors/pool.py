"""Decide which worker does which job, and what happens to the jobs of a worker that ended.

This module uses no process, clock or I/O.

In: jobs and events, each with the time. Out: actions, which the caller carries out in order.

The rules:
* A job goes to the worker with the least work. Missing workers are started first. If the pool has a
  `depth`, a worker gets jobs only after it has started up, and has at most `depth` unanswered
  messages of jobs; other jobs wait in their order. A job during which a worker ended is then tried
  alone, because answers to jobs before it may have been lost.
* A job of a series continues where the job before it ended. All jobs of a series go to one worker,
  as long as this worker exists and has room. A new series goes to the worker that has the fewest
  series.
* If a worker ends, its jobs are assigned again, each alone. The job that it was doing is divided if
  possible. If not, and if the job was alone in its message, this counts as a try; after `MAX_TRIES`
  tries the job is given up.
* If workers are lost through no fault of a job, their jobs are assigned again, and no try is
  counted.
* If jobs are dropped, waiting jobs are removed. Jobs that workers already have are done, but are
  not assigned again if a worker ends.
* If a job takes longer than the timeout, its worker is killed, and the rule for ended workers
  applies.
* After `let_go`, a surplus worker gets no more jobs, and is killed when it has done its jobs,
  without a warning.
* If all workers end together with the process that makes them, everything is started again and all
  jobs are assigned again. If that happens `MAX_TRIES` times without an answer in between, the run
  fails.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Generic

from .jobs import MAX_TRIES, J, PoolWorker
from .transport import (
    Action,
    AllEnded,
    Answered,
    Divide,
    Ended,
    Event,
    Fail,
    Finish,
    Give,
    GiveUp,
    Kill,
    Lost,
    Ready,
    Restart,
    Room,
    Spawn,
    Warn,
)

_LOAD = attrgetter("load")


class WorkerPool(Generic[J]):
    """Assigns jobs to at most `worker_count` workers.

    Arguments named `now` are the current time in seconds.

    Args:
        worker_count: largest number of workers.
        timeout: seconds that a job may take; None for no limit.
        depth: largest number of unanswered messages of a worker; a worker then gets no jobs until
            it has started up. None: any number of messages, also before the worker has started up.
    """

    def __init__(self, worker_count: int, timeout: float | None, depth: int | None = None) -> None:
        self._worker_count = worker_count
        self._timeout = timeout
        self._depth = depth
        self._workers: dict[int, PoolWorker[J]] = {}
        # workers that are given nothing any more, and go when they have nothing left
        self._leaving: set[int] = set()
        self._had_last: dict[int, int] = {}  # by series, the worker that was given its last job
        self._waiting: list[Sequence[J]] = []  # jobs that nobody has yet, each sequence a message
        self._made = 0
        self._failed_starts = 0

    def after(self, event: Event, now: float) -> list[Action[J]]:
        """Record an event at the time `now`, and return the actions that it makes necessary."""
        actions: list[Action[J]] = []
        match event:
            case Ready(worker):
                self.ready(worker, now)
            case Answered(worker, blocks):
                actions += map(Finish, self.answered(worker, len(blocks), now), blocks)
                actions += self.without_idle()
            case Ended(worker, how):
                actions = self.ended(worker, how, now)
            case AllEnded(how):
                actions = self.all_ended(how, now)
            case Lost(workers, how, is_news):
                actions = self.lost(workers, how if is_news else None, now)
            case Room(workers):
                actions = self.resize(workers)
        return actions + self.give_waiting(now)

    def spawn_missing(self) -> list[Action[J]]:
        numbers = range(self._made, self._made + max(self._worker_count - len(self._workers), 0))
        self._made = numbers.stop
        self._workers.update((number, PoolWorker(number)) for number in numbers)
        return [Spawn(number) for number in numbers]

    def resize(self, worker_count: int) -> list[Action[J]]:
        """Change the number of workers, and return the actions that start or kill workers.

        Surplus workers that have not started up and have no jobs are killed at once. Other surplus
        workers stay in the pool until `let_go` is called.
        """
        self._worker_count = worker_count
        self._leaving.clear()
        unready = [
            worker.number
            for worker in self._workers.values()
            if not worker.ready and not worker.jobs
        ]
        over = unready[: max(len(self._workers) - worker_count, 0)]
        for number in over:
            del self._workers[number]
        return [*map(Kill, over), *self.spawn_missing()]

    def let_go(self) -> list[Action[J]]:
        """Give no more jobs to surplus workers; return actions that kill those without jobs.

        If there are more workers than `worker_count`, those that were started last are surplus.
        """
        self._leaving = set(list(self._workers)[self._worker_count :])
        return self.without_idle()

    def without_idle(self) -> list[Action[J]]:
        """Remove surplus workers without jobs, and return the actions that kill these workers."""
        idle = [number for number in self._leaving if not self._workers[number].jobs]
        for number in idle:
            del self._workers[number]
        self._leaving.difference_update(idle)
        return [Kill(number) for number in idle]

    def deepen(self, depth: int) -> None:
        """Raise the largest number of unanswered messages of a worker to `depth`.

        Change nothing if this number is already higher, or unlimited.
        """
        if self._depth is not None:
            self._depth = max(self._depth, depth)

    @property
    def workers(self) -> list[int]:
        """Numbers of the workers in the pool."""
        return list(self._workers)

    @property
    def is_idle(self) -> bool:
        """True if no job is waiting or running."""
        return not self._waiting and not any(worker.jobs for worker in self._workers.values())

    def drop_jobs(self, most_seconds: float) -> bool:
        """Drop the jobs of all workers, because their results are not needed any more.

        Jobs that workers already have are still done. Return True if each worker is expected to
        finish them within `most_seconds`; False if some worker needs longer.
        """
        self._waiting.clear()
        for job in chain.from_iterable(worker.jobs for worker in self._workers.values()):
            job.dropped = True
        return all(worker.load <= most_seconds for worker in self._workers.values())

    @property
    def ready_count(self) -> int:
        return sum(worker.ready for worker in self._workers.values())

    def assign(self, jobs: Sequence[J], now: float) -> list[Action[J]]:
        """Assign new jobs, all to one worker in one message, as soon as a worker has room for them.

        Return the actions that the caller has to carry out now.
        """
        actions = self.spawn_missing() if len(self._workers) < self._worker_count else []
        insort(self._waiting, jobs, key=lambda jobs: jobs[0].number)
        return actions + self.give_waiting(now)

    def give_waiting(self, now: float) -> list[Action[J]]:
        """Assign waiting jobs to workers that have room, and return the actions that send them."""
        actions: list[Action[J]] = []
        while self._waiting and (worker := self._worker_for(self._waiting[0][0])) is not None:
            jobs = self._waiting.pop(0)
            if not worker.jobs:
                worker.began = now
            alone = len(jobs) == 1
            for job in jobs:
                job.alone = alone
                worker.load += job.cost
            worker.jobs += jobs
            worker.messages += 1
            actions.append(Give(worker.number, jobs))
        return actions

    def _worker_for(self, job: J) -> PoolWorker[J] | None:
        """Return the worker that gets a job; None if no worker has room.

        A job without a series goes to the worker with the least work. A job of a series (jobs that
        continue one another) goes to the worker that had the last job of the series. If this worker
        is gone or has no room, the job goes to the worker with the fewest series.
        """
        workers: Iterable[PoolWorker[J]] = self._workers.values()
        if self._leaving:
            workers = [worker for worker in workers if worker.number not in self._leaving]
        if self._depth is not None:
            workers = [worker for worker in workers if worker.has_room(job, self._depth)]
        if job.series is None:
            return min(workers, key=_LOAD, default=None)
        return self._worker_of_series(job.series, {worker.number: worker for worker in workers})

    def _worker_of_series(
        self, series: int, workers: Mapping[int, PoolWorker[J]]
    ) -> PoolWorker[J] | None:
        counts = Counter(self._had_last.values())
        fewest = min(
            workers.values(), key=lambda worker: (counts[worker.number], worker.load), default=None
        )
        worker = workers.get(self._had_last.get(series, -1), fewest)
        if worker is not None:
            self._had_last[series] = worker.number
        return worker

    def take_back(self, worker: int, jobs: Sequence[J]) -> None:
        """Remove jobs from a worker, because the message with these jobs was not sent.

        The caller assigns the jobs again.
        """
        holder = self._workers[worker]
        holder.messages -= 1
        for job in jobs:
            holder.jobs.remove(job)
            holder.load -= job.cost

    def ready(self, worker: int, now: float) -> None:
        """Record that a worker has started up at the time `now`.

        The time limit of the worker's first job starts at this time.
        """
        if worker in self._workers:  # or it was let go while it began
            self._workers[worker].ready = True
            self._workers[worker].began = now

    def answered(self, worker: int, count: int, now: float) -> list[J]:
        """Record that a worker has answered a message of `count` jobs, and return these jobs."""
        self._failed_starts = 0
        answerer = self._workers[worker]
        answerer.began = now
        answerer.messages -= 1
        done = [answerer.jobs.popleft() for _ in range(count)]
        for job in done:
            answerer.load -= job.cost
        return done

    def ended(self, worker: int, how: str, now: float) -> list[Action[J]]:
        """Record that a worker has ended, and return the actions that the caller has to carry out.

        The caller has already handled all answers of this worker.

        Args:
            worker: number of the worker.
            how: how it ended, such as "by signal SIGKILL". A message says "was terminated
                unexpectedly" before these words.
            now: the current time in seconds.
        """
        if worker not in self._workers:  # it was let go
            return []
        gone = self._forget(worker)
        reason = f"was terminated unexpectedly {how}"
        if gone.late is not None:
            reason = f"was stopped after timeout={self._timeout} s"
        if self._depth is not None and not gone.ready:
            return self._failed_to_begin(f"a worker {reason} before it began")
        if not gone.jobs or gone.jobs[0].dropped:
            return [
                Warn(f"worker {worker} {reason} while it was idle"),
                *self._assign_again(gone.jobs, now),
            ]
        head = gone.jobs.popleft()
        # One that was killed for a job that it then answered ended at the next one by chance.
        head.tries += head.alone and gone.late in (None, head)
        again = Warn(f"a worker {reason}; its work is done again")
        if head.divisible:
            return [Divide(head), again, *self._assign_again(gone.jobs, now)]
        if head.tries >= MAX_TRIES:
            return [
                GiveUp(head, f"{reason}, {MAX_TRIES} times"),
                *self._assign_again(gone.jobs, now),
            ]
        return [again, *self._assign_again([head, *gone.jobs], now)]

    def _failed_to_begin(self, event: str) -> list[Action[J]]:
        self._failed_starts += 1
        if self._failed_starts >= MAX_TRIES:
            return [Fail(f"{event}, {MAX_TRIES} times without a result in between.")]
        return [Warn(f"{event}; another one is made"), *self.spawn_missing()]

    def lost(self, workers: Iterable[int], event: str | None, now: float) -> list[Action[J]]:
        """Record that workers ended through no fault of their jobs.

        For all other workers, the timeout of the current job begins again, because they may have
        waited for rows that were lost.

        Args:
            workers: numbers of the workers that ended.
            event: what happened, for a warning to the user; None for no warning.
            now: the current time in seconds.

        Returns:
            The actions that the caller has to carry out.
        """
        known = [worker for worker in workers if worker in self._workers]  # others were let go
        told = [Warn(f"{event}; its work is done again")] if known and event is not None else []
        jobs = self._jobs_of(known)
        for worker in self._workers.values():
            worker.began = now
        return [*told, *self._assign_again(jobs, now), *self.spawn_missing()]

    def all_ended(self, how: str, now: float) -> list[Action[J]]:
        """Record that the process that makes workers has ended, and all workers with it.

        Return the actions that the caller has to carry out.

        Args:
            how: how it ended, such as "was terminated unexpectedly by signal SIGKILL".
            now: the current time in seconds.
        """
        jobs = self._jobs_of(list(self._workers))
        self._failed_starts += 1
        event = f"the process that makes the workers {how}"
        if self._failed_starts >= MAX_TRIES:
            return [Fail(f"{event}, {MAX_TRIES} times without a result in between.")]
        again = Warn(f"{event}; it is started again")
        return [again, Restart(), *self.spawn_missing(), *self._assign_again(jobs, now)]

    def _jobs_of(self, workers: Iterable[int]) -> list[J]:
        gone = [self._forget(worker) for worker in workers]
        return sorted((job for worker in gone for job in worker.jobs), key=attrgetter("number"))

    def _forget(self, worker: int) -> PoolWorker[J]:
        """Remove a worker that has ended, and return what the pool knew about it.

        If too few workers would remain, one of the surplus workers (which were to end when idle)
        stays.
        """
        gone = self._workers.pop(worker)
        self._leaving.discard(worker)
        if self._leaving and len(self._workers) - len(self._leaving) < self._worker_count:
            self._leaving.remove(min(self._leaving))
        return gone

    def _assign_again(self, jobs: Iterable[J], now: float) -> list[Action[J]]:
        """Assign the jobs of ended workers again, each alone in a message; return the actions.

        Jobs that were dropped are left out. Other jobs that wait for a worker are assigned, too.
        """
        for job in [job for job in jobs if not job.dropped]:
            insort(self._waiting, [job], key=lambda jobs: jobs[0].number)
        return [*self.spawn_missing(), *self.give_waiting(now)] if self._waiting else []

    def at_work(self) -> list[tuple[int, J]]:
        """Return a pair (number, current job) for each worker that has started up and has a job."""
        return [
            (worker.number, worker.jobs[0])
            for worker in self._workers.values()
            if worker.jobs and worker.ready
        ]

    def late_at(self) -> float:
        """Return the time at which the next job will exceed its timeout, in seconds.

        Return infinity if no job runs, or if there is no timeout.
        """
        began = [worker.began for worker in self._workers.values() if worker.jobs and worker.ready]
        return min(began, default=float("inf")) + (
            float("inf") if self._timeout is None else self._timeout
        )

    def look(self, now: float) -> list[Action[J]]:
        if self._timeout is None:
            return []
        started = [
            worker
            for worker in self._workers.values()
            if worker.jobs and worker.ready and worker.late is None
        ]
        late = [worker for worker in started if now - worker.began > self._timeout]
        for worker in late:
            worker.late = worker.jobs[0]
        return [Kill(worker.number) for worker in late]
