"""Run as many limit loops at once as there are workers, without transfer of batches: the limit of the machine.

It takes a workload and its data. It yields None for each batch that one of the loops has made; in the
common order of all contenders, it yields the batches of one loop.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from contender import Order
from loops import limit
from workloads import Data, Workload

LOOK_SECONDS = 1e-3
"""Between two looks at what the loops have made: to be told of each batch would cost them something."""

STRIDE = 8
"""Counters of 64 bits, each on a cache line of its own."""


@dataclass(frozen=True)
class SideBySide:
    """Limit loops in processes of their own."""

    worker_count: int
    key: str = "limits"
    label: str = "limit loops side by side"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> _Loops:
        """Something whose `iter()` starts them."""
        return _Loops(self.worker_count, workload, data, order)


@dataclass(frozen=True)
class _Loops:
    count: int
    workload: Workload
    data: Data
    order: Order

    def __iter__(self) -> Iterator[Any]:
        return limit(self.workload, self.data, self.order) if self.order == "shared" else self._counted()

    def _counted(self) -> Iterator[None]:
        forks = multiprocessing.get_context("fork")
        made = np.frombuffer(forks.RawArray("q", self.count * STRIDE), np.int64)[::STRIDE]
        processes = [forks.Process(target=self._loop, args=(made, index), daemon=True) for index in range(self.count)]
        try:
            for process in processes:
                process.start()
            delivered = 0
            while True:
                while delivered >= made.sum():
                    time.sleep(LOOK_SECONDS)
                delivered += 1
                yield None
        finally:
            for process in processes:
                process.kill()
                process.join()

    def _loop(self, made: Any, index: int) -> None:
        for _ in limit(self.workload, self.data, self.order):
            made[index] += 1
