"""millrace as a contender."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from contender import SEED, Order
from workloads import Data, Workload

import millrace


@dataclass(frozen=True)
class Millrace:
    """millrace at its defaults."""

    worker_count: int = 0
    key: str = "millrace"
    label: str = "millrace"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `DataLoader`."""
        operation = millrace.RandomMapTransform(workload.operation) if workload.random else workload.operation
        batch = millrace.Batch(workload.batch_size)
        return millrace.DataLoader(
            data_source=data.millrace,
            sampler=millrace.IndexSampler(
                len(data.records), shuffle=True, seed=SEED, algorithm="grain" if order == "shared" else "millrace"
            ),
            operations=[batch, operation] if workload.after_batch else [operation, batch],
            worker_count=self.worker_count,
        )
