"""Work that all contenders do: a workload, its data, and an order; and the contenders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from libraries import SETTINGS, Setting, adapter_of
from numpy.typing import NDArray

from headrace import IndexSampler

SEED = 1


class DifferentWorkError(Exception):
    """Two contenders do not do the same work."""


@dataclass(frozen=True)
class Data:
    """The records of a workload.

    Attributes:
        headrace: the `data_source` for headrace.
        records: the same with random access by key, for Grain and PyTorch.
        read: many records in one call, for the plain loops; lazily where they are in memory.
        columns: the same as arrays with one leading axis, where the workload is columnar.
        asynchronous: the same as a source whose reads are coroutines, where they wait.
    """

    headrace: Any
    records: Sequence[Any]
    read: Callable[[list[int]], Iterable[Any]]
    columns: dict[str, NDArray[Any]] | None = None
    asynchronous: Any = None


ALL = ("limit", "headrace", "bare", "grain", "grain_inline", "torch", "torch_stack", "limits")


@dataclass(frozen=True)
class Workload:
    """One kind of work.

    Attributes:
        name: the name for `--workloads`.
        about: a line for the tables.
        make_data: writes or makes the records; called once a run, with a folder.
        operation: takes a record; if it is `random`, a generator, too; with `after_batch` a batch.
        after_batch: the operation works on whole batches.
        settled: of a workload with random draws: takes a batch and its records and returns what
            draws cannot have changed, as contenders draw other numbers.
        contenders: keys of those that take part.
        batch_size: records in a batch.
    """

    name: str
    about: str
    make_data: Callable[[Path], Data]
    operation: Callable[..., Any]
    after_batch: bool = False
    settled: Callable[[Any, Iterable[Any]], Any] | None = None
    contenders: tuple[str, ...] = ALL
    batch_size: int = 128

    @property
    def random(self) -> bool:
        """Whether the operation draws random numbers."""
        return self.settled is not None


@dataclass(frozen=True)
class Work:
    """A workload with its data.

    Attributes:
        shared_order: whether records come in Grain's order, which all contenders can produce, so
            that their batches can be compared; else in the contender's usual shuffle, which is
            measured.
    """

    workload: Workload
    data: Data
    shared_order: bool = False
    seed: int = SEED

    def epochs(self) -> Iterator[NDArray[np.int64]]:
        """The record keys of one epoch after the other, for contenders without a sampler."""
        count = len(self.data.records)
        if self.shared_order:
            sampler = IndexSampler(count, shuffle=True, seed=self.seed, algorithm="grain")
            for start in itertools.count(0, count):
                yield sampler.record_keys(np.arange(start, start + count))
        rng = np.random.default_rng(self.seed)
        while True:
            yield rng.permutation(count)

    def key_batches(self) -> Iterator[NDArray[np.int64]]:
        """The record keys of each batch, which may reach over the end of an epoch."""
        left, size = np.empty(0, dtype=np.int64), self.workload.batch_size
        for epoch in self.epochs():
            keys = np.concatenate([left, epoch])
            full = len(keys) - len(keys) % size
            for start in range(0, full, size):
                yield keys[start : start + size]
            left = keys[full:]

    def positions_and_keys(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The same, each with the position of its first record."""
        return zip(itertools.count(0, self.workload.batch_size), self.key_batches())


@dataclass(frozen=True)
class Contender:
    """A setting with a number of workers; 0 works in the calling process."""

    key: str
    worker_count: int = 0

    @property
    def setting(self) -> Setting:
        """Its entry in the roster."""
        return SETTINGS[self.key]

    @property
    def name(self) -> str:
        """The key, with the worker count if it has workers; unique in a run."""
        return self.key + (f"@{self.worker_count}" if self.worker_count else "")

    @property
    def label(self) -> str:
        """The name in the tables."""
        count = self.worker_count
        return self.setting.label + (f", {count} worker{'s' if count > 1 else ''}" if count else "")

    def loader(self, work: Work) -> Iterable[Any]:
        """Make everything short of `iter()`, which is timed: each is a fresh endless stream."""
        return adapter_of(self.setting.loader)(work, self.worker_count, **self.setting.options)


def contenders_for(
    workload: Workload, keys: Collection[str], worker_counts: Sequence[int]
) -> list[Contender]:
    """The contenders of a workload in the order of their turns."""
    return [
        Contender(key, count)
        for key, setting in SETTINGS.items()
        if key in keys and key in workload.contenders
        for count in (worker_counts if setting.workers else [0])
        if count or setting.alone
    ]
