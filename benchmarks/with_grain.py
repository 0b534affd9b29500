"""Grain as a contender of `compare.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grain
import numpy as np
from absl import flags
from contender import SEED, Order
from workloads import ROW, Data, Workload, two_lists

# Grain's workers read flags, which a program that is no `absl.app` has not parsed.
flags.FLAGS.mark_as_parsed()


class FunctionMap(grain.transforms.Map):
    """A function as Grain wants it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def map(self, element: Any) -> Any:
        """What the function returns."""
        return self._function(element)


class RandomFunctionMap(grain.transforms.RandomMap):
    """A function of an element and a generator as Grain wants it."""

    def __init__(self, function: Callable[[Any, np.random.Generator], Any]) -> None:
        self._function = function

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """What the function returns."""
        return self._function(element, rng)


@dataclass(frozen=True)
class Grain:
    """Grain's `DataLoader`.

    Attributes:
        num_threads: reading threads; None is Grain's default, 0 reads on the calling thread.
    """

    worker_count: int = 0
    num_threads: int | None = None
    keyed_draws: bool = False

    @property
    def key(self) -> str:
        """`grain`, or `grain_inline` without threads."""
        return "grain" if self.num_threads is None else "grain_inline"

    @property
    def label(self) -> str:
        """The name, with the setting that is not a default."""
        return "Grain" if self.num_threads is None else f"Grain, num_threads={self.num_threads}"

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `grain.DataLoader`, whose order is always its own."""
        operation = (RandomFunctionMap if workload.random else FunctionMap)(workload.operation)
        batch = grain.transforms.Batch(workload.batch_size)
        return grain.DataLoader(
            data_source=data.records,
            sampler=grain.samplers.IndexSampler(len(data.records), shuffle=True, seed=SEED),
            operations=[batch, operation] if workload.after_batch else [operation, batch],
            worker_count=self.worker_count,
            read_options=None if self.num_threads is None else grain.ReadOptions(num_threads=self.num_threads),
        )


@dataclass(frozen=True)
class Chain:
    """Grain's `MapDataset`. Attributes as of `Grain`."""

    worker_count: int = 0
    num_threads: int | None = None
    keyed_draws: bool = False

    @property
    def key(self) -> str:
        """`grain_chain`, or `grain_chain_inline` without threads."""
        return "grain_chain" if self.num_threads is None else "grain_chain_inline"

    @property
    def label(self) -> str:
        """The name, with the setting that is not a default."""
        return "Grain, chain" if self.num_threads is None else f"Grain, chain, num_threads={self.num_threads}"

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `grain.IterDataset`, whose order is always its own."""
        dataset = grain.MapDataset.source(data.records).shuffle(SEED).repeat()
        if workload.after_batch:
            dataset = dataset.batch(workload.batch_size)
        dataset = (
            dataset.random_map(workload.operation, seed=SEED) if workload.random else dataset.map(workload.operation)
        )
        if not workload.after_batch:
            dataset = dataset.batch(workload.batch_size)
        options = None if self.num_threads is None else grain.ReadOptions(num_threads=self.num_threads)
        stream = dataset.to_iter_dataset(options)
        return stream.mp_prefetch(grain.MultiprocessingOptions(self.worker_count)) if self.worker_count else stream


@dataclass(frozen=True)
class Packing:
    """Grain's best fit, which holds 64 rows open. Attributes as of `Grain`."""

    worker_count: int = 0
    num_threads: int | None = None
    keyed_draws: bool = False

    @property
    def key(self) -> str:
        """`grain_packing`, or `grain_packing_inline` without threads."""
        return "grain_packing" if self.num_threads is None else "grain_packing_inline"

    @property
    def label(self) -> str:
        """The name, with the setting that is not a default."""
        return "Grain, packing" if self.num_threads is None else f"Grain, packing, num_threads={self.num_threads}"

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `grain.IterDataset`."""
        parts = [grain.MapDataset.source(some).shuffle(SEED).repeat() for some in two_lists(data)]
        options = None if self.num_threads is None else grain.ReadOptions(num_threads=self.num_threads)
        stream = grain.MapDataset.mix(parts, weights=[0.7, 0.3]).to_iter_dataset(options)
        packed = grain.experimental.BestFitPackIterDataset(stream, length_struct={"tokens": ROW}, num_packing_bins=64)
        batches = packed.batch(workload.batch_size)
        return batches.mp_prefetch(grain.MultiprocessingOptions(self.worker_count)) if self.worker_count else batches
