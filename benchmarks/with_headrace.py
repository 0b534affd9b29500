"""headrace as a contender of `compare.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from contender import SEED, Order
from workloads import COROUTINES, ROW, AsyncStore, Data, Workload, two_lists

import headrace

PARTS = 35


@dataclass(frozen=True)
class Headrace:
    """headrace at its defaults."""

    worker_count: int = 0
    key: str = "headrace"
    label: str = "headrace"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `DataLoader`."""
        operation = headrace.RandomMapTransform(workload.operation) if workload.random else workload.operation
        batch = headrace.Batch(workload.batch_size)
        return headrace.DataLoader(
            data_source=data.headrace,
            sampler=headrace.IndexSampler(
                len(data.records), shuffle=True, seed=SEED, algorithm="grain" if order == "shared" else "headrace"
            ),
            operations=[batch, operation] if workload.after_batch else [operation, batch],
            worker_count=self.worker_count,
        )


@dataclass(frozen=True)
class Asynchronous:
    """headrace with an asynchronous source, of which many reads are under way."""

    worker_count: int = 0
    key: str = "asynchronous"
    label: str = f"headrace, async, {COROUTINES} reads"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `DataLoader`."""
        return headrace.DataLoader(
            data_source=AsyncStore(),
            sampler=headrace.IndexSampler(
                len(data.records), shuffle=True, seed=SEED, algorithm="grain" if order == "shared" else "headrace"
            ),
            operations=[workload.operation, headrace.Batch(workload.batch_size)],
            worker_count=self.worker_count,
            read_options=headrace.ReadOptions(prefetch_buffer_size=COROUTINES),
        )


@dataclass(frozen=True)
class Chain:
    """headrace's `MapDataset`, with the methods that say the same."""

    worker_count: int = 0
    key: str = "chain"
    label: str = "headrace, chain"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        return _batches(_records(data, order).repeat(), workload).to_iter_dataset().mp_prefetch(self.worker_count)


@dataclass(frozen=True)
class Mix:
    """The same records as 35 datasets, each shuffled, in a mix of equal weights."""

    worker_count: int = 0
    key: str = "mix"
    label: str = f"headrace, mix of {PARTS}"
    keyed_draws: bool = True

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        parts = [headrace.MapDataset.source(data.records[part::PARTS]) for part in range(PARTS)]
        if order == "shared":
            mixed = headrace.MapDataset.select_from_datasets(parts, SharedOrder(len(data.records), PARTS)).repeat()
        else:
            mixed = headrace.MapDataset.mix([part.shuffle(SEED).repeat() for part in parts])
        return _batches(mixed, workload).to_iter_dataset().mp_prefetch(self.worker_count)


@dataclass(frozen=True)
class Packing:
    """Two lists of documents, mixed and packed by best fit."""

    worker_count: int = 0
    key: str = "packing"
    label: str = "headrace, packing"
    keyed_draws: bool = False

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """An `IterDataset`."""
        parts = [headrace.MapDataset.source(some).shuffle(SEED).repeat() for some in two_lists(data)]
        rows = headrace.MapDataset.mix(parts, [0.7, 0.3]).to_iter_dataset().pack(ROW, window=1000)
        return rows.batch(workload.batch_size).mp_prefetch(self.worker_count)


class SharedOrder:
    """Grain's order, as `select_from_datasets` takes it, of records that are dealt out to so many parts."""

    def __init__(self, records: int, parts: int = 1) -> None:
        self._sampler = headrace.IndexSampler(records, shuffle=True, seed=SEED, algorithm="grain")
        self._records = records
        self._parts = parts

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> tuple[int, int]:
        record, part = divmod(self._sampler[index].record_key or 0, self._parts)
        return part, record


def _records(data: Data, order: Order) -> headrace.MapDataset[Any]:
    source = headrace.MapDataset.source(data.headrace)
    if order == "own":
        return source.shuffle(SEED)
    return headrace.MapDataset.select_from_datasets([source], SharedOrder(len(data.records)))


def _batches(dataset: headrace.MapDataset[Any], workload: Workload) -> headrace.MapDataset[Any]:
    """The workload's operation and batches."""
    if workload.after_batch:
        dataset = dataset.batch(workload.batch_size)
    operation = workload.operation
    dataset = dataset.random_map(operation, seed=SEED) if workload.random else dataset.map(operation)
    return dataset if workload.after_batch else dataset.batch(workload.batch_size)
