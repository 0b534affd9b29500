"""Upper limit of the rate if reading is mostly waiting: all readers read all the time, and nothing else takes time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from contender import Order, key_batches
from workloads import LATENCY_SECONDS, READERS, Data, Workload


@dataclass(frozen=True)
class Ideal:
    """Batches that come when so many reads could have ended, made without reading."""

    worker_count: int = 0
    key: str = "ideal"
    label: str = f"ideal: {READERS} reads at a time"
    keyed_draws: bool = False

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """As of a contender."""
        return _Batches(self, workload, data, order)


@dataclass(frozen=True)
class _Batches:
    ideal: Ideal
    workload: Workload
    data: Data
    order: Order

    def __iter__(self) -> Iterator[Any]:
        size = self.workload.batch_size
        each = size * LATENCY_SECONDS / (READERS * max(self.ideal.worker_count, 1))
        due = time.perf_counter()
        for keys in key_batches(len(self.data.records), size, self.order):
            due += each
            time.sleep(max(due - time.perf_counter(), 0))
            yield np.stack(list(self.data.read(keys.tolist())))
