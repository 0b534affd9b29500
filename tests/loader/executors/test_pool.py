"""What the pool of worker processes decides, without a process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pools import new_pool, pool_jobs

from headrace.loader.executors.jobs import MAX_TRIES, Job
from headrace.loader.executors.pool import (
    Divide,
    Fail,
    Give,
    GiveUp,
    Kill,
    Restart,
    Spawn,
    Warn,
    WorkerPool,
)

STOPPED = Warn("a worker was stopped after timeout=5 s; its work is done again")
CRASHED = Warn("a worker was terminated unexpectedly by a bug; its work is done again")


def test_all_workers_are_made_at_the_start_and_once():
    """A pool makes as many workers as it may have, and none that it has."""
    pool = WorkerPool(3, None)
    assert pool.spawn_missing() == [Spawn(0), Spawn(1), Spawn(2)]
    assert pool.spawn_missing() == []


def test_a_job_goes_to_the_worker_with_the_least_to_do():
    """Jobs are given by what they cost, not by their number; what was answered costs nothing any
    more.
    """
    pool, jobs = new_pool(2), [Job(0, False, 3.0), *pool_jobs(4)[1:]]
    assert [pool.assign([job], 0.0) for job in jobs[:3]] == [
        [Give(w, [j])] for w, j in zip([0, 1, 1], jobs)
    ]
    assert pool.answered(0, 1, 1.0) == jobs[:1]
    assert pool.assign([jobs[3]], 1.0) == [Give(0, [jobs[3]])]


def test_jobs_of_a_series_go_to_one_worker_while_it_is_there():
    """Though others have less to do; and another series to another worker."""
    pool, jobs = (
        new_pool(2),
        [Job(number, False, 1.0, series) for number, series in enumerate([7, 8, 7, 7, 8, 7])],
    )
    assert [pool.assign([job], 0.0) for job in jobs[:5]] == [
        [Give(w, [j])] for w, j in zip([0, 1, 0, 0, 1], jobs)
    ]
    assert pool.ended(0, "by a bug", 0.0)[2:] == [
        Give(2, [job]) for job in (jobs[0], jobs[2], jobs[3])
    ]
    assert pool.assign(jobs[5:], 0.0) == [Give(2, jobs[5:])]


def test_jobs_that_come_together_go_to_one_worker_in_one_message():
    """Groups that were gathered stay together."""
    pool, jobs = new_pool(2), pool_jobs(3)
    assert pool.assign(jobs, 0.0) == [Give(0, jobs)]
    assert pool.answered(0, 3, 1.0) == jobs


def test_what_a_worker_had_not_answered_goes_to_others_one_by_one():
    """When a worker ends, its answers count and the rest of its jobs are given again, each alone,
    in their order.
    """
    pool, jobs = new_pool(), pool_jobs(3)
    pool.assign(jobs, 0.0)
    assert pool.answered(0, 1, 0.0) == jobs[:1]
    assert pool.ended(0, "by a bug", 0.0) == [
        CRASHED,
        Spawn(1),
        Give(1, jobs[1:2]),
        Give(1, jobs[2:]),
    ]


def test_a_worker_that_ends_without_work_is_made_again_for_the_next_job():
    """The user is told; nothing else has to be done before there is work."""
    pool, jobs = new_pool(), pool_jobs(1)
    assert pool.ended(0, "by a bug", 0.0) == [
        Warn("worker 0 was terminated unexpectedly by a bug while it was idle")
    ]
    assert pool.assign(jobs, 0.0) == [Spawn(1), Give(1, jobs)]


def test_jobs_that_are_dropped_are_not_given_again():
    """Those that wait are forgotten; one at which its worker ends, and those after it, are neither
    tried again nor to blame.
    """
    for ends in (
        lambda pool: pool.ended(0, "x", 1.0),
        lambda pool: pool.all_ended("x", 1.0),
        lambda p: p.lost([0], "x", 1.0),
    ):
        pool, (divisible, *others) = new_pool(1), [Job(0, True, 1.0), *pool_jobs(3)[1:]]
        for job in (divisible, others[0]):
            pool.assign([job], 0.0)
        assert pool.drop_jobs(2.0)
        assert not any(isinstance(action, (Give, Divide, GiveUp)) for action in ends(pool))
        assert [action for action in pool.assign([others[1]], 2.0) if isinstance(action, Give)] == [
            Give(1, [others[1]])
        ]
    pool = new_pool(1)
    pool.assign([Job(0, False, 3.0)], 0.0)
    assert not pool.drop_jobs(2.9)


def test_a_job_with_parts_is_divided_when_its_worker_ends():
    """Any part may be at fault, so that none of them counts a try."""
    pool, jobs = new_pool(), pool_jobs(2, divisible=True)
    for job in jobs:
        pool.assign([job], 0.0)
    assert pool.ended(0, "by a bug", 0.0) == [Divide(jobs[0]), CRASHED, Spawn(1), Give(1, jobs[1:])]


def test_a_job_without_parts_is_given_up_after_some_tries():
    """The job that the worker was at counts tries, those after it do not."""
    pool, jobs = new_pool(), pool_jobs(2)
    for job in jobs:
        pool.assign([job], 0.0)
    for worker in range(MAX_TRIES - 1):
        again = [CRASHED, Spawn(worker + 1), Give(worker + 1, jobs[:1]), Give(worker + 1, jobs[1:])]
        assert pool.ended(worker, "by a bug", 0.0) == again
    reason = f"was terminated unexpectedly by a bug, {MAX_TRIES} times"
    assert pool.ended(2, "by a bug", 0.0) == [GiveUp(jobs[0], reason), Spawn(3), Give(3, jobs[1:])]
    assert [job.tries for job in jobs] == [MAX_TRIES, 0]


def test_of_jobs_in_one_message_none_is_blamed():
    """Of several jobs that went together any may have ended the worker: each is tried alone before
    one counts a try.
    """
    pool, jobs = new_pool(), pool_jobs(2)
    pool.assign(jobs, 0.0)
    pool.ended(0, "by a bug", 0.0)
    assert [job.tries for job in jobs] == [0, 0]
    pool.ended(1, "by a bug", 0.0)
    assert [job.tries for job in jobs] == [1, 0]


def test_a_job_that_takes_too_long_has_its_worker_killed_once():
    """The time counts from when the job was begun; the kill is asked for once, and the job counts a
    try.
    """
    pool, jobs = new_pool(timeout=5), pool_jobs(2)
    for job in jobs:
        pool.assign([job], 1.0)
    assert pool.late_at() == 6.0
    assert (pool.look(6.0), pool.look(6.1), pool.look(9.0)) == ([], [Kill(0)], [])
    assert pool.ended(0, "by us", 9.0) == [STOPPED, Spawn(1), Give(1, jobs[:1]), Give(1, jobs[1:])]
    assert [job.tries for job in jobs] == [1, 0]


def test_the_time_of_a_job_begins_with_the_answer_before_it():
    """A job that waited for another one is not late for that."""
    pool, jobs = new_pool(timeout=5), pool_jobs(2)
    for job in jobs:
        pool.assign([job], 0.0)
    pool.answered(0, 1, 4.0)
    assert (pool.late_at(), pool.look(8.0), pool.look(9.1)) == (9.0, [], [Kill(0)])


def test_a_worker_that_is_being_made_is_not_late():
    """The time of a first job begins when its worker is ready."""
    pool, jobs = WorkerPool(1, 5), pool_jobs(1)
    pool.assign(jobs, 0.0)
    assert (pool.late_at(), pool.look(100.0)) == (float("inf"), [])
    pool.ready(0, 100.0)
    assert (pool.look(104.0), pool.look(105.1)) == ([], [Kill(0)])


def test_without_a_timeout_nothing_is_late():
    """A pool without a timeout kills nobody."""
    pool = new_pool()
    pool.assign(pool_jobs(1), 0.0)
    assert (pool.late_at(), pool.look(1e9)) == (float("inf"), [])


def test_an_answer_that_comes_with_the_kill_blames_no_other_job():
    """A late job may be answered before its worker is killed: the next job, which ends with the
    worker, counts no try.
    """
    pool, jobs = new_pool(timeout=5), pool_jobs(2)
    for job in jobs:
        pool.assign([job], 0.0)
    assert pool.look(6.0) == [Kill(0)]
    assert pool.answered(0, 1, 6.0) == jobs[:1]
    assert pool.ended(0, "by us", 6.0) == [STOPPED, Spawn(1), Give(1, jobs[1:])]
    assert jobs[1].tries == 0


def test_when_all_end_all_is_given_again_in_order():
    """The end of the process that makes workers is no job's fault; what was not answered is done by
    new workers.
    """
    pool, jobs = new_pool(2), pool_jobs(4)
    for job in jobs:
        pool.assign([job], 0.0)
    pool.answered(0, 1, 0.0)
    again = Warn("the process that makes the workers was terminated; it is started again")
    gives = [Give(2, jobs[1:2]), Give(3, jobs[2:3]), Give(2, jobs[3:])]
    assert pool.all_ended("was terminated", 0.0) == [again, Restart(), Spawn(2), Spawn(3), *gives]
    assert [job.tries for job in jobs] == [0] * 4


def test_a_job_that_was_late_when_all_ended_can_be_late_again():
    """A job whose worker was to be killed has the whole time again with a new worker,
    and no more.
    """
    pool, jobs = new_pool(timeout=5), pool_jobs(1)
    pool.assign(jobs, 0.0)
    assert pool.look(6.0) == [Kill(0)]
    pool.all_ended("was terminated", 7.0)
    pool.ready(1, 8.0)
    assert (pool.look(12.0), pool.look(13.1)) == ([], [Kill(1)])


@pytest.mark.parametrize("answers_between", [False, True])
def test_a_start_that_fails_again_and_again_ends_the_run(answers_between):
    """Without a result in between, the third time is the last; with one, the count begins again."""
    pool, jobs = new_pool(), pool_jobs(2)
    for job in jobs:
        pool.assign([job], 0.0)
    for _ in range(MAX_TRIES - 1):
        assert Restart() in pool.all_ended("was terminated", 0.0)
    if answers_between:
        pool.answered(MAX_TRIES - 1, 1, 0.0)
        assert Restart() in pool.all_ended("was terminated", 0.0)
    else:
        text = "the process that makes the workers was terminated, 3 times"
        assert pool.all_ended("was terminated", 0.0) == [
            Fail(f"{text} without a result in between.")
        ]


class _World:
    """Does what a pool decides, with workers that are lists, and sees that it makes sense."""

    def __init__(self, workers, timeout):
        self.most = workers
        self.pool = WorkerPool(workers, timeout)
        self.workers = {}
        self.settled = set()
        self.submitted = 0
        self.failed = False
        self.now = 0.0
        self.act(self.pool.spawn_missing())

    def act(self, actions):
        for action in actions:
            match action:
                case Spawn(worker):
                    self.workers[worker] = []
                    assert len(self.workers) <= self.most
                case Give(worker, jobs):
                    held = [job for jobs in self.workers.values() for job in jobs]
                    assert not any(job in held or job.number in self.settled for job in jobs), (
                        "done twice"
                    )
                    self.workers[worker] += jobs
                case Kill(worker) if worker not in self.pool.workers:  # it was let go
                    assert self.workers.pop(worker) == [], "its jobs would be lost"
                case Divide(job) | GiveUp(job, _):
                    self.settle([job])
                case Fail():
                    self.failed = True

    def settle(self, jobs):
        numbers = {job.number for job in jobs}
        assert not numbers & self.settled
        self.settled |= numbers

    def submit(self, count, divisible):
        self.act(
            self.pool.assign(
                [Job(self.submitted + n, divisible, n + 0.5) for n in range(count)], self.now
            )
        )
        self.submitted += count

    def answer(self, worker, count):
        done, self.workers[worker] = self.workers[worker][:count], self.workers[worker][count:]
        assert self.pool.answered(worker, len(done), self.now) == done
        self.settle(done)
        self.act(self.pool.without_idle())

    def end(self, worker):
        del self.workers[worker]
        self.act(self.pool.ended(worker, "by a bug", self.now))

    def end_all(self):
        self.workers.clear()
        self.act(self.pool.all_ended("was terminated", self.now))

    def happen(self, kind, number, count):
        """One event; `number` chooses the worker."""
        self.now += count
        worker = sorted(self.workers)[number % len(self.workers)] if self.workers else None
        if kind == "all end":
            self.end_all()
        elif worker is None or kind.startswith("submit"):
            self.submit(count, kind == "submit one with parts")
        elif kind == "look":
            self.act(self.pool.look(self.now))
        elif kind == "ready":
            self.pool.ready(worker, self.now)
        elif kind == "answer":
            self.answer(worker, count)
        elif kind == "end":
            self.end(worker)
        elif kind == "resize":
            self.act(self.pool.resize(min(count, self.most)))
            self.act(self.pool.let_go())


KINDS = ["submit", "submit one with parts", "answer", "end", "all end", "ready", "look", "resize"]
EVENTS = st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.integers(1, 3))


@pytest.mark.slow
@given(
    workers=st.integers(1, 3),
    timeout=st.sampled_from([None, 2.0]),
    events=st.lists(EVENTS, max_size=40),
)
def test_no_job_is_lost_or_done_twice_whatever_happens(workers, timeout, events):
    """After any events, each job is settled or with one worker, and there are never too many
    workers.
    """
    world = _World(workers, timeout)
    for event in events:
        world.happen(*event)
        if world.failed:
            return
        held = [job.number for jobs in world.workers.values() for job in jobs]
        assert sorted([*held, *world.settled]) == list(range(world.submitted))


def _deep(workers, depth):
    pool = WorkerPool(workers, None, depth)
    pool.spawn_missing()
    return pool


def test_with_a_depth_jobs_wait_for_workers_that_have_begun():
    """One that is never made holds nothing back; each has at most so many messages, and jobs are
    given in their order.
    """
    pool, jobs = _deep(2, 1), pool_jobs(3)
    assert [pool.assign([job], 0.0) for job in reversed(jobs)] == [[], [], []]
    pool.ready(1, 1.0)
    assert pool.give_waiting(1.0) == [Give(1, [jobs[0]])]
    assert pool.answered(1, 1, 2.0) == [jobs[0]]
    assert pool.give_waiting(2.0) == [Give(1, [jobs[1]])]


def test_workers_that_are_lost_are_no_fault_of_their_jobs():
    """No try is counted, nothing divided, and the user is told once."""
    pool = _deep(2, 2)
    pool.ready(0, 0.0)
    (job,) = jobs = pool_jobs(1, divisible=True)
    assert pool.assign(jobs, 0.0) == [Give(0, jobs)]
    assert pool.lost([0], "a node was lost", 1.0) == [
        Warn("a node was lost; its work is done again"),
        Spawn(2),
    ]
    assert job.tries == 0
    assert pool.lost([1], None, 1.0) == [Spawn(3)]
    pool.ready(2, 2.0)
    assert pool.give_waiting(2.0) == [Give(2, jobs)]


def test_who_may_have_waited_for_what_was_lost_has_the_whole_time_again():
    """The others are not late for what a node took along."""
    pool, jobs = WorkerPool(3, 5, 1), pool_jobs(3)
    pool.spawn_missing()
    for worker in range(3):
        pool.ready(worker, 0.0)
    for job in jobs:
        pool.assign([job], float(job.number))
    assert pool.look(5.5) == [Kill(0)]
    pool.lost([0, 1], "a node was lost", 5.5)
    assert (pool.late_at(), pool.look(10.4), pool.look(10.6)) == (10.5, [], [Kill(2)])
    assert [job.tries for job in jobs] == [0] * 3


def test_workers_that_end_before_they_begin_end_the_run():
    """With a depth no job is to blame; three times in a row are too many."""
    pool = _deep(1, 2)
    assert pool.ended(0, "by a bug", 0.0) == [
        Warn("a worker was terminated unexpectedly by a bug before it began; another one is made"),
        Spawn(1),
    ]
    pool.ended(1, "by a bug", 0.0)
    (failed,) = pool.ended(2, "by a bug", 0.0)
    assert isinstance(failed, Fail)
    assert "before it began, 3 times" in failed.text


def test_a_pool_grows_and_shrinks():
    """Workers that have not begun go first; those that have are left to end by themselves."""
    pool = _deep(1, 2)
    pool.ready(0, 0.0)
    assert pool.resize(3) == [Spawn(1), Spawn(2)]
    assert pool.ready_count == 1
    assert pool.resize(1) == [Kill(1), Kill(2)]
    assert pool.resize(1) == []


def test_a_job_that_was_taken_back_is_given_again():
    """It leaves room for another one until then. Jobs that were given after it stay."""
    pool, jobs = _deep(1, 2), pool_jobs(3)
    pool.ready(0, 0.0)
    assert pool.assign(jobs[:1], 0.0) == [Give(0, jobs[:1])]
    assert pool.assign(jobs[1:2], 0.0) == [Give(0, jobs[1:2])]
    pool.take_back(0, jobs[:1])
    assert pool.assign(jobs[2:], 0.0) == [Give(0, jobs[2:])]
    assert pool.assign(jobs[:1], 0.0) == []
    assert pool.answered(0, 1, 0.0) == jobs[1:2]
    assert pool.give_waiting(0.0) == [Give(0, jobs[:1])]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("deadly", range(6))
def test_with_a_depth_only_the_job_that_ends_workers_is_given_up(deadly, workers):
    """Though each worker ends before anybody has heard of what it did just before: jobs are tried
    again by themselves.
    """
    pool, jobs = _deep(workers, 3), pool_jobs(6)
    actions = pool.resize(workers)
    held, given_up = {worker: [] for worker in range(workers)}, []
    for worker in held:
        pool.ready(worker, 0.0)
    for job in jobs:
        actions += pool.assign([job], 0.0)
    while actions or not pool.is_idle:
        for action in actions:
            match action:
                case Spawn(worker):
                    held[worker] = []
                    pool.ready(worker, 0.0)
                case Give(worker, given):
                    held[worker] += given
                case GiveUp(job, _):
                    given_up.append(job.number)
        worker = max(held, key=lambda one: (jobs[deadly] in held[one], len(held[one])), default=-1)
        doing, actions = held.pop(worker, []), []
        if jobs[deadly] in doing:
            actions = pool.ended(worker, "by a bug", 0.0)
        elif worker >= 0:
            held[worker] = []
            assert [pool.answered(worker, 1, 0.0) for _ in doing] == [[job] for job in doing]
        actions += pool.give_waiting(0.0)
    assert given_up == [deadly]
