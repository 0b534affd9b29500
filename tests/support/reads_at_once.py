"""Limits and counts for tests of reads that run at the same time."""

from __future__ import annotations

import time

import numpy as np

from headrace import DataLoader, IndexSampler

LIMIT_SECONDS = 20
"""After which what should have come does not come. Never waited for where all is well."""


WHERE = {
    "inline": {},
    "threads": {"worker_count": 2, "worker_kind": "thread"},
    "processes": {"worker_count": 2},
}


def told(element):
    """What the records of an element tell: (process, most reads under way)."""
    return zip(np.ravel(element["process"]).tolist(), np.ravel(element["most"]).tolist())


def most_under_way(elements, least, workers=1):
    """The most reads under way in each process, once these are `least` everywhere; as they are
    after a long time.
    """
    most, until = {}, time.monotonic() + LIMIT_SECONDS
    with iter(elements) as iterator:
        for element in iterator:
            for process, number in told(element):
                most[process] = max(number, most.get(process, 0))
            if (len(most) == workers and min(most.values()) >= least) or time.monotonic() > until:
                break
    return sorted(most.values())


def endless(source, operations, **more):
    """A loader of an endless stream."""
    return DataLoader(
        data_source=source, sampler=IndexSampler(len(source)), operations=operations, **more
    )


BAD = 37
