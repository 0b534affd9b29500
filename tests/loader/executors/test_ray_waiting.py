"""Sources that wait, in actors of a Ray cluster: as many reads under way in each as it may have."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict

import numpy as np
import pytest

from headrace import Batch, DataLoader, Filter, IndexSampler, ReadOptions

ON_RAY = {"worker_count": 2, "worker_kind": "ray"}
PATIENCE = 120
"""Seconds until so many reads are under way, at most."""
MANY = 200
"""Of an asynchronous source."""


class UnderWay:
    """How many reads of this process are under way, and were at most."""

    def __init__(self):
        self._now = self._most = 0
        self._lock = threading.Lock()

    def __enter__(self):
        with self._lock:
            self._now += 1
            self._most = max(self._most, self._now)

    def __exit__(self, *_):
        with self._lock:
            self._now -= 1

    def told(self):
        """A record: the process, and what was under way in it."""
        return np.array([os.getpid(), self._most])


_READS = UnderWay()


class Waits:
    """A source whose records are waited for."""

    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        with _READS:
            time.sleep(0.02)
        return _READS.told()


class Awaits(Waits):
    """The same, asynchronous, and slow until there are many: a busy machine sends tasks slowly."""

    async def __getitem__(self, key):
        with _READS:
            await asyncio.sleep(0.5 if _READS.told()[1] >= MANY else 1)
        return _READS.told()


def _most_under_way(wanted, source, *operations, **options):
    """What each of two processes had under way at most, as soon as that is what is wanted."""
    found = defaultdict(int)
    sampler = IndexSampler(len(source), num_epochs=None)
    loader = DataLoader(
        data_source=source, sampler=sampler, operations=operations, **{**ON_RAY, **options}
    )
    until = time.monotonic() + PATIENCE
    with iter(loader) as iterator:
        while (len(found) < 2 or min(found.values()) < wanted) and time.monotonic() < until:
            for process, most in next(iterator).reshape(-1, 2).tolist():
                found[process] = max(found[process], most)
    return sorted(found.values())


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.parametrize("timeout", [None, 100.0])
@pytest.mark.parametrize(
    "operations",
    [[], [Batch(1)], [Batch(32)], [Batch(512)], [Filter(lambda row: True), Batch(7)]],
    ids=["records", "1", "32", "512", "ragged"],
)
def test_each_actor_has_as_many_reads_under_way_as_threads(operations, timeout):
    """However its records are batched. With a timeout, tasks are as short as they can be."""
    assert _most_under_way(16, Waits(), *operations, timeout=timeout) == [16, 16]


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.parametrize("size", [1, 32, 512])
def test_each_actor_awaits_hundreds_of_records(size):
    """Of an asynchronous source, in an event loop of its own, whatever the number of threads."""
    reading = ReadOptions(num_threads=4, prefetch_buffer_size=300)
    one, other = _most_under_way(MANY, Awaits(), Batch(size), read_options=reading)
    assert (one >= MANY, other >= MANY) == (True, True)
