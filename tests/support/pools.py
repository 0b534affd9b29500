"""Pools of workers without processes, and their jobs."""

from __future__ import annotations

from headrace.loader.executors.jobs import Job
from headrace.loader.executors.pool import WorkerPool


def new_pool(workers=1, timeout=None):
    """A pool that has asked for its workers."""
    pool = WorkerPool(workers, timeout)
    pool.spawn_missing()
    for worker in range(workers):
        pool.ready(worker, 0.0)
    return pool


def pool_jobs(count, divisible=False, cost=1.0):
    """Jobs with the numbers from 0."""
    return [Job(number, divisible, cost) for number in range(count)]
