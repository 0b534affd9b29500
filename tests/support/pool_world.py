"""Plays workers that do what a pool decides, in any order that can happen, and sees that it makes
sense. No process.
"""

from __future__ import annotations

import random

from headrace.loader.executors.jobs import MAX_TRIES, Job
from headrace.loader.executors.pool import Divide, Fail, Give, GiveUp, Kill, Spawn, WorkerPool


class PoolWorld:
    """A pool, and workers that may be killed, lost, late or let go at any moment.

    Attributes:
        held: the messages of jobs of each worker that lives and that the pool has not let go.
        gone: workers that the pool let go. What they say, and that they end, may still be heard.
    """

    def __init__(
        self, chance: random.Random, workers: int, depth: int | None, timeout: float | None
    ) -> None:
        self.chance = chance
        self.most = self.wanted = workers
        self.depth, self.timeout = depth, timeout
        self.pool: WorkerPool[Job] = WorkerPool(workers, timeout, depth)
        self.held: dict[int, list[list[Job]]] = {}
        self.ready: set[int] = set()
        self.gone: set[int] = set()
        self.jobs: list[Job] = []
        self.settled: set[Job] = set()
        self.failed = False
        self.now = 0.0
        self.act(self.pool.spawn_missing())

    def act(self, actions) -> None:
        """Do what the pool has decided."""
        for action in actions:
            match action:
                case Spawn(worker):
                    assert worker not in self.held | dict.fromkeys(self.gone), (
                        "a number that was used before"
                    )
                    self.held[worker] = []
                case Give(worker, jobs):
                    self.give(worker, list(jobs))
                case Kill(worker) if worker not in self.pool.workers:
                    assert self.held.pop(worker) == [], "its jobs would be lost"
                    self.gone.add(worker)
                case Kill(worker):
                    assert self.timeout is not None, "nothing is late"
                    assert self.held[worker], "it has nothing to do"
                case Divide(job):
                    assert job.divisible
                    self.settle([job])
                case GiveUp(job, _):
                    assert job.tries == MAX_TRIES
                    self.settle([job])
                case Fail():
                    self.failed = True

    def give(self, worker: int, jobs: list[Job]) -> None:
        """A worker gets a message."""
        assert not any(job in self.settled or self.holder(job) is not None for job in jobs), (
            "done twice"
        )
        self.held[worker].append(jobs)
        if self.depth is not None:
            assert worker in self.ready, "it has not begun"
            assert len(self.held[worker]) <= self.depth, "too many messages"

    def holder(self, job: Job) -> int | None:
        """The worker that has a job."""
        return next(
            (worker for worker, all_ in self.held.items() for jobs in all_ if job in jobs), None
        )

    def settle(self, jobs: list[Job]) -> None:
        """Jobs are done, divided or given up."""
        assert not self.settled & set(jobs), "settled twice"
        self.settled.update(jobs)

    # What may happen

    def submit(self) -> None:
        """New jobs, in one message."""
        series = self.chance.choice([None, None, None, 5, 6])
        alone = self.chance.random() < 0.6
        for _ in range(count := 1 if alone or series is not None else self.chance.randint(2, 3)):
            number = len(self.jobs)
            self.jobs.append(
                Job(number, self.chance.random() < 0.2, self.chance.random() + 0.1, series)
            )
        self.act(self.pool.assign(self.jobs[-count:], self.now))

    def begin(self) -> None:
        """A worker says that it is ready; or one that was let go says so."""
        waiting = sorted((self.held.keys() | self.gone) - self.ready)
        if waiting:
            worker = self.chance.choice(waiting)
            self.ready.add(worker)
            self.pool.ready(worker, self.now)
            self.act(self.pool.give_waiting(self.now))

    def answer(self) -> None:
        """A worker that has begun answers a message."""
        ready = [
            worker for worker, messages in self.held.items() if messages and worker in self.ready
        ]
        if ready:
            worker = self.chance.choice(ready)
            message = self.held[worker].pop(0)
            assert self.pool.answered(worker, len(message), self.now) == message
            self.settle(message)
            self.act(self.pool.without_idle())
            self.act(self.pool.give_waiting(self.now))

    def end(self) -> None:
        """A worker ends; or the end of one that was let go is heard of."""
        worker = self.chance.choice(sorted(self.held.keys() | self.gone) or [99])
        alone = [job for job, *more in self.held.pop(worker, [])[:1] if not more]
        before = {job: job.tries for job in self.jobs}
        self.gone.discard(worker)
        self.act(self.pool.ended(worker, "by a bug", self.now))
        blamed = [job for job in self.jobs if job.tries > before[job]]
        assert blamed in ([], alone), "only what a worker was at alone is to blame"

    def lose(self) -> None:
        """Some workers are lost with their node; some of them were let go."""
        known = sorted(self.held.keys() | self.gone)
        lost = self.chance.sample(known, min(self.chance.randint(0, 3), len(known)))
        before = [job.tries for job in self.jobs]
        for worker in lost:
            self.held.pop(worker, None)
            self.gone.discard(worker)
        self.act(self.pool.lost(lost, self.chance.choice([None, "a node was lost"]), self.now))
        assert before == [job.tries for job in self.jobs], "no job is to blame"

    def all_end(self) -> None:
        """The process that makes the workers ends."""
        if self.depth is None:
            self.held.clear()
            self.act(self.pool.all_ended("was terminated", self.now))

    def resize(self) -> None:
        """Another number of workers; some executors let those go that are too many."""
        before = len(self.held)
        self.wanted = self.chance.randint(1, 5)
        self.act(self.pool.resize(self.wanted))
        if self.chance.random() < 0.5:
            self.act(self.pool.let_go())
        assert self.wanted <= len(self.held) <= max(before, self.wanted)

    def take_back(self) -> None:
        """Jobs cannot be sent, as what they need is gone; they are assigned again."""
        sent = [worker for worker, messages in self.held.items() if messages]
        if self.depth is not None and sent:
            worker = self.chance.choice(sent)
            message = self.held[worker].pop()
            self.pool.take_back(worker, message)
            self.act(self.pool.assign(message, self.now))

    def look(self) -> None:
        """Time goes by."""
        self.now += self.chance.random() * 3
        self.act(self.pool.look(self.now))

    def happen(self) -> None:
        """One of these."""
        most_often = [self.submit] * 4 + [self.begin] * 3 + [self.answer] * 4
        self.chance.choice(
            [*most_often, self.end, self.lose, self.all_end, self.resize, self.take_back, self.look]
        )()

    def finish(self) -> None:
        """Nothing bad happens any more: all that was asked for is done, with as many workers as
        were wanted.
        """
        if self.chance.random() < 0.5:
            self.submit()
            assert len(self.held) >= self.wanted, "too few workers"
        for _ in range(3 * len(self.jobs) + 20):
            if self.pool.is_idle:
                break
            self.begin()
            self.answer()
        while self.pool.ready_count < len(self.held):
            self.begin()
        while not self.pool.is_idle:
            left = len(self.settled)
            for _ in range(9):
                self.answer()
            assert len(self.settled) > left, "jobs wait, and nobody does them"
        assert self.settled == set(self.jobs), "jobs are lost"
