"""Memory that worker processes share with the user's process: it is given back when batches are no
longer kept.
"""

from __future__ import annotations

import numpy as np

from headrace import Batch, load
from headrace.loader.work.slabs import FREE_BYTES

BYTES = FREE_BYTES // 4


def _large(number):
    return np.full(BYTES, number, np.uint8)


def test_memory_of_batches_that_nobody_keeps_any_more_is_given_back():
    """Once the user lets go of many batches, the process of the loop has about as much memory
    mapped as before.
    """
    loader = load(
        range(32),
        transformations=[_large, Batch(1)],
        num_epochs=1,
        worker_count=1,
        worker_kind="process",
    )
    with iter(loader) as iterator:
        held = [next(iterator) for _ in range(16)]
        most = iterator.stats().shared_bytes
        assert most >= 16 * BYTES
        held.clear()
        for _ in range(12):
            next(iterator)
        assert iterator.stats().shared_bytes <= most / 2
