"""Whatever happens to workers, in whatever order, the pool loses no job and has no job
done twice.
"""

from __future__ import annotations

import random

import pytest
from support.pool_world import PoolWorld

from headrace.loader.executors.jobs import Job
from headrace.loader.executors.pool import Give, Kill, Spawn, Warn, WorkerPool


def _play(seed: int) -> None:
    chance = random.Random(seed)
    world = PoolWorld(
        chance, chance.randint(1, 4), chance.choice([None, 1, 2, 3]), chance.choice([None, 2.0])
    )
    for _ in range(chance.randint(5, 60)):
        world.happen()
        if world.failed:
            return
    world.finish()


@pytest.mark.slow
def test_no_history_loses_a_job_or_has_it_done_twice():
    """Workers that begin, end, are lost, late, let go and speak after that, in 1,000 histories."""
    for seed in range(1000):
        _play(seed)


@pytest.mark.long
def test_no_history_of_very_many_does():
    """The same, 100,000 times."""
    for seed in range(1500, 101_500):
        _play(seed)


def test_a_node_may_take_a_worker_along_that_was_let_go():
    """It was let go while it began; its end is no news, and its place is not filled."""
    pool = WorkerPool(4, None, 2)
    assert pool.spawn_missing() == [Spawn(worker) for worker in range(4)]
    assert pool.resize(3) == [Kill(0)]
    assert pool.lost([0], "gone", 0.0) == []
    assert pool.lost([0, 1], "gone", 0.0) == [Warn("gone; its work is done again"), Spawn(4)]


def test_a_worker_that_was_to_go_stays_where_another_one_ended():
    """Without it, jobs would wait for a worker that nobody makes."""
    pool, jobs = WorkerPool(2, None), [Job(number, False, 1.0) for number in range(3)]
    pool.spawn_missing()
    for job in jobs[:2]:
        pool.assign([job], 0.0)
    assert (pool.resize(1), pool.let_go()) == ([], [])
    assert Give(1, [jobs[0]]) in pool.ended(0, "by a bug", 0.0)
    assert pool.assign(jobs[2:], 0.0) == [Give(1, [jobs[2]])]
