"""PyTorch's DataLoader as a contender of `compare.py`."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from contender import SEED, Order, epochs
from loops import stacked
from torch import from_numpy
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate
from workloads import Data, Workload

# Records are read-only; nobody writes to the tensors that look at them for a moment.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

Collate = Callable[[list[Any]], Any]


class Mapped(Dataset[Any]):
    """The workload's operation over its records; many at once where the records can be read so."""

    def __init__(self, workload: Workload, data: Data) -> None:
        self._records = data.records
        self._operation = (lambda record: record) if workload.after_batch else workload.operation
        self._arguments = (itertools.repeat(np.random.default_rng(SEED)),) if workload.random else ()

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, key: int) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: list[int]) -> list[Any]:
        """The elements of a batch; PyTorch's DataLoader calls this."""
        many = getattr(self._records, "__getitems__", None)
        records = many(keys) if many else map(self._records.__getitem__, keys)
        return list(map(self._operation, records, *self._arguments))


class Endless(Sampler[int]):
    """One shuffled epoch after the other."""

    def __init__(self, num_records: int, order: Order) -> None:
        self._num_records, self._order = num_records, order

    def __iter__(self) -> Iterator[int]:
        for keys in epochs(self._num_records, self._order):
            yield from keys.tolist()


def stack_collate(elements: list[Any]) -> Any:
    """`np.stack`, then tensors on the same memory: faster than `default_collate` for small arrays."""
    return _tensors(stacked(elements))


def _tensors(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: from_numpy(leaf) for name, leaf in batch.items()}
    return from_numpy(batch)


def collate_and_operate(collate: Collate, operation: Callable[[Any], Any], elements: list[Any]) -> Any:
    """A batch as arrays on the tensors' memory, run through an operation, as tensors."""
    batch = collate(elements)
    return _tensors(operation({name: leaf.numpy() for name, leaf in batch.items()}))


@dataclass(frozen=True)
class Torch:
    """PyTorch's `DataLoader`.

    Attributes:
        stack: whether batches are made by `np.stack` and not by PyTorch's default collate function.
    """

    worker_count: int = 0
    stack: bool = False
    keyed_draws: bool = False

    @property
    def key(self) -> str:
        """`torch`, or `torch_stack` with `np.stack`."""
        return "torch_stack" if self.stack else "torch"

    @property
    def label(self) -> str:
        """The name, with the collate function if it is not the default one."""
        return "PyTorch, np.stack" if self.stack else "PyTorch"

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """A `torch.utils.data.DataLoader`."""
        collate = stack_collate if self.stack else default_collate
        if workload.after_batch:
            collate = functools.partial(collate_and_operate, collate, workload.operation)
        return DataLoader(
            Mapped(workload, data),
            batch_size=workload.batch_size,
            sampler=Endless(len(data.records), order),
            collate_fn=collate,
            num_workers=self.worker_count,
        )
