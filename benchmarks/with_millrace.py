"""millrace as a contender."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from contender import SEED, Order
from workloads import ROW, Data, Workload, two_lists

import millrace

PARTS = 35


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


@dataclass(frozen=True)
class Chain:
    """millrace's `MapDataset`, with the methods that say the same."""

    worker_count: int = 0
    key: str = "chain"
    label: str = "millrace, chain"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        return _batches(_records(data, order).repeat(), workload).to_iter_dataset().mp_prefetch(self.worker_count)


@dataclass(frozen=True)
class Mix:
    """The same records as 35 datasets, each shuffled, in a mix of equal weights."""

    worker_count: int = 0
    key: str = "mix"
    label: str = f"millrace, mix of {PARTS}"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        parts = [millrace.MapDataset.source(data.records[part::PARTS]) for part in range(PARTS)]
        if order == "shared":
            mixed = millrace.MapDataset.select_from_datasets(parts, SharedOrder(len(data.records), PARTS)).repeat()
        else:
            mixed = millrace.MapDataset.mix([part.shuffle(SEED).repeat() for part in parts])
        return _batches(mixed, workload).to_iter_dataset().mp_prefetch(self.worker_count)


@dataclass(frozen=True)
class Packing:
    """Two lists of documents, mixed and packed by best fit."""

    worker_count: int = 0
    key: str = "packing"
    label: str = "millrace, packing"
    keyed_draws: bool = False

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        parts = [millrace.MapDataset.source(some).shuffle(SEED).repeat() for some in two_lists(data)]
        rows = millrace.MapDataset.mix(parts, [0.7, 0.3]).to_iter_dataset().pack(ROW, window=1000)
        return rows.batch(workload.batch_size).mp_prefetch(self.worker_count)


class SharedOrder:
    """Grain's order, as `select_from_datasets` takes it, of records that are dealt out to so many parts."""

    def __init__(self, records: int, parts: int = 1) -> None:
        self._sampler = millrace.IndexSampler(records, shuffle=True, seed=SEED, algorithm="grain")
        self._records = records
        self._parts = parts

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> tuple[int, int]:
        record, part = divmod(self._sampler[index].record_key or 0, self._parts)
        return part, record


def _records(data: Data, order: Order) -> millrace.MapDataset[Any]:
    source = millrace.MapDataset.source(data.millrace)
    if order == "own":
        return source.shuffle(SEED)
    return millrace.MapDataset.select_from_datasets([source], SharedOrder(len(data.records)))


def _batches(dataset: millrace.MapDataset[Any], workload: Workload) -> millrace.MapDataset[Any]:
    """The workload's operation and batches."""
    if workload.after_batch:
        dataset = dataset.batch(workload.batch_size)
    operation = workload.operation
    dataset = dataset.random_map(operation, seed=SEED) if workload.random else dataset.map(operation)
    return dataset if workload.after_batch else dataset.batch(workload.batch_size)
