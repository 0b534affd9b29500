"""Contenders of a comparison, and the order of records that all of them can produce.

A contender takes a workload and its data, and returns an endless iterator of batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from workloads import Data, Workload

from headrace import IndexSampler

SEED = 1

Order = Literal["own", "shared"]
"""`own`: the contender's usual shuffle; measured. `shared`: Grain's order, which all can produce; outputs are compared."""


class Contender(Protocol):
    """A way to make a workload's batches.

    Attributes:
        key: what `--contenders` and goals call it.
        label: what the tables call it.
        worker_count: its worker processes; 0 works in the calling one.
        keyed_draws: whether its random numbers are headrace's, so that its batches must equal headrace's bit for bit.
    """

    key: str
    label: str
    worker_count: int
    keyed_draws: bool

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """Everything short of `iter()`, which is timed. Each `iter()` of it is a fresh endless stream of batches."""
        ...


def name_of(contender: Contender) -> str:
    """The contender's key, with its worker count if it has workers; unique in a run."""
    return contender.key + (f"@{contender.worker_count}" if contender.worker_count else "")


def label_of(contender: Contender) -> str:
    """The contender's label, with its worker count if it has workers."""
    count = contender.worker_count
    return contender.label + (f", {count} worker{'s' if count > 1 else ''}" if count else "")


def epochs(num_records: int, order: Order) -> Iterator[NDArray[np.int64]]:
    """The record keys of one epoch after the other, without end, for contenders that have no sampler of their own."""
    if order == "shared":
        sampler = IndexSampler(num_records, shuffle=True, seed=SEED, algorithm="grain")
        for start in itertools.count(0, num_records):
            yield sampler.record_keys(np.arange(start, start + num_records))
    rng = np.random.default_rng(SEED)
    while True:
        yield rng.permutation(num_records)


def key_batches(num_records: int, batch_size: int, order: Order) -> Iterator[NDArray[np.int64]]:
    """The record keys of one batch after the other; a batch may reach over the end of an epoch."""
    left = np.empty(0, dtype=np.int64)
    for epoch in epochs(num_records, order):
        keys = np.concatenate([left, epoch])
        full = len(keys) - len(keys) % batch_size
        for start in range(0, full, batch_size):
            yield keys[start : start + batch_size]
        left = keys[full:]
