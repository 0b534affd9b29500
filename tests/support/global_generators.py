"""Operations that draw from the global generators of Python and NumPy."""

from __future__ import annotations

import random

import numpy as np

from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, RandomMapTransform

SEEN = "ignore:operation .* draws from the global generator"


def numpys(record):
    """NumPy's."""
    return np.random.rand()


def both(record):
    """Both, after the record."""
    return record, np.random.randint(1 << 60), random.getrandbits(60)


def of_batch(batch):
    """One number for a batch."""
    return batch, np.random.rand()


OPERATIONS = {
    "map, batch": [both, Batch(4)],
    "filter, batch": [Filter(lambda record: np.random.rand() < 0.5), both, Batch(4)],
    "of batches": [Batch(4), of_batch],
    "of batches of rows": [Filter(lambda record: record % 3), Batch(4), of_batch],
    "batch_fn": [Batch(4, batch_fn=lambda rows: (rows, np.random.rand()))],
    "flat map": [
        FlatMap(lambda record: [random.random() for _ in range(random.randint(0, 3))]),
        both,
        Batch(4),
    ],
    "lazy flat map": [FlatMap(lambda record: (np.random.rand() for _ in range(record % 3))), both],
    "random map": [
        RandomMapTransform(lambda record, rng: (record, np.random.rand(), rng.random()))
    ],
}


def seeded(operations, worker_count=0, **more):
    """Sixty shuffled records, with the global generators seeded."""
    sampler = IndexSampler(
        60, shuffle=True, seed=more.pop("seed", 1), num_epochs=more.pop("num_epochs", 1)
    )
    return DataLoader(
        data_source=range(60),
        sampler=sampler,
        operations=operations,
        worker_count=worker_count,
        seed_globals=True,
        **more,
    )
