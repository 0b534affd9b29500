"""Grain's helper functions for datasets: batches, index shuffles, device transfer, options.

In: datasets, elements, indices. Out: batches, indices, options.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import Generator

from ...errors import StructureError
from ...loader import device_put as our_device_put
from ...operations.padding import filled_up
from ...operations.stacking import stacked
from ...operations.trees import flatten
from ...samplers.grain.grain_order import ROUNDS, shuffled_one
from .chains.iter_dataset import IterDataset
from .chains.iterators import DatasetIterator
from .generators import OfDataset
from .options import MultiprocessingOptions, ReadOptions
from .wording import reword

MOST_ROUNDS = 1024


def index_shuffle(index: int, max_index: int, seed: int, rounds: int = ROUNDS) -> int:
    """Return the place of an index in Grain's permutation of `[0, max_index]`.

    Args:
        index: in `[0, max_index]`.
        max_index: the largest index.
        seed: in `[0, 2^32)`.
        rounds: number of rounds of the cipher, even, 4 to 1024. Grain's datasets use 4 (default).

    Raises:
        ValueError: if `rounds` or `index` is outside its range.

    >>> [index_shuffle(index, max_index=9, seed=42, rounds=4) for index in range(4)]
    [8, 6, 7, 9]
    """
    if rounds not in range(ROUNDS, MOST_ROUNDS + 1, 2):
        raise ValueError(
            f"rounds must be an even integer between {ROUNDS} and {MOST_ROUNDS}, but got rounds = "
            f"{rounds}. Pass {ROUNDS}."
        )
    if not 0 <= index <= max_index:
        raise ValueError(
            f"index must be in [0, max_index]: {index} is not in [0, {max_index}]. Pass an index "
            "in this range, and a max_index of 0 or more."
        )
    return shuffled_one(index, max_index, seed, rounds)


def batch_and_pad(values: Sequence[Any], *, batch_size: int, pad_value: Any = 0) -> Any:
    """Stack elements into a batch and fill it up to `batch_size` rows with `pad_value`.

    Lists of numbers are trees: they are stacked item by item.

    Raises:
        ValueError: if there are more than `batch_size` elements, or none.
        StructureError: if their structures differ.

    >>> batch_and_pad([1, 2], batch_size=3).tolist()
    [1, 2, 0]
    """
    return filled_up(values, batch_size, pad_value, make_batch)


def make_batch(values: Sequence[Any], *, output_to_shared_memory: bool = False) -> Any:
    """Stack elements into a batch, as `Batch` does.

    Args:
        values: the elements.
        output_to_shared_memory: no effect, since batches from workers arrive in shared memory
            anyway.

    Raises:
        ValueError: if there are no elements, or their structures differ.

    >>> make_batch([{"x": [1, 2]}, {"x": [3, 4]}])
    {'x': [array([1, 3]), array([2, 4])]}
    """
    if not len(values):
        raise ValueError("Cannot batch 0 values. Pass at least one value.")
    try:
        return stacked(values, lists_are_trees=True)
    except StructureError as error:
        reword(error)
        raise


def device_put(
    ds: Any, device: Any, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2
) -> IterDataset[Any]:
    """Put the elements of a stream on devices, ahead of the consumer.

    Operations after it run in the process that iterates.

    Args:
        ds: a stream.
        device: a device or sharding, as for `jax.device_put`.
        cpu_buffer_size: number of elements that may wait in host memory.
        device_buffer_size: number of elements that may wait on the devices.

    Returns:
        the stream of the elements, in which leaves that jax cannot hold stay as they are.
    """
    return OnDevice(ds, device, cpu_buffer_size, device_buffer_size)


class OnDevice(IterDataset[Any]):
    """A stream whose elements are on devices.

    Args:
        parent: a stream.
        device: a device or sharding, as for `jax.device_put`.
        host_buffer: number of elements that may wait in host memory.
        device_buffer: number of elements that may wait on the devices.
    """

    def __init__(self, parent: Any, device: Any, host_buffer: int, device_buffer: int) -> None:
        super().__init__(parent)
        self.device, self.buffers = device, (host_buffer, device_buffer)

    def __iter__(self) -> Any:
        source, (host, device) = iter(self._parent), self.buffers
        loader = our_device_put(
            source,
            self.device,
            cpu_buffer_size=host,
            device_buffer_size=device,
            on_unsupported="keep",
        )
        return _Follower(iter(loader), source)


class _Follower(DatasetIterator[Any]):
    """An iterator that returns the elements of another one unchanged, and saves its state.

    Args:
        leader: that iterator.
        parent: the iterator below, which is closed with this one.
    """

    def __init__(self, leader: Any, parent: Any) -> None:
        super().__init__(parent)
        self._leader = leader

    def __next__(self) -> Any:
        return next(self._leader)

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._leader.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self._leader.set_state(state)

    def close(self) -> None:
        self._leader.close()
        super().close()


class ThreadPrefetchDatasetIterator(_Follower):
    """An iterator that returns the elements of `parent`, another iterator, unchanged.

    It reads nothing ahead itself, since headrace does so anyway; `prefetch_buffer_size` has no
    effect.
    """

    def __init__(self, parent: Any, prefetch_buffer_size: int) -> None:
        super().__init__(parent, parent)


class RngPool:
    """Grain's random generators for the elements of a random map.

    Args:
        seed: an int, 0 or more.

    >>> pool = RngPool(7)
    >>> pool.acquire_rng(3).random() == pool.acquire_rng(3).random()
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def acquire_rng(self, index: int, *, op_seed: int = 0) -> Generator:
        """Return a generator for an index, in its start state.

        `op_seed` gives each operation other numbers.
        """
        return OfDataset(self.seed).at(index, op_seed)

    def release_rng(self, rng: Generator) -> None:
        """Do nothing; Grain's programs call it when they have used a generator."""


@dataclass(slots=True)
class PerformanceConfig:
    """Worker and read options picked for a dataset.

    Attributes:
        multiprocessing_options: number of worker processes; None for none.
        read_options: how records are read ahead; None for the defaults.
    """

    multiprocessing_options: MultiprocessingOptions | None = None
    read_options: ReadOptions | None = None


def pick_performance_config(
    ds: Any,
    *,
    ram_budget_mb: int | None,
    max_workers: int | None,
    max_buffer_size: int | None,
    samples_to_check: int = 5,
) -> PerformanceConfig:
    """Pick the number of workers and of elements read ahead from the size of the first elements.

    The first elements are read for this.

    Args:
        ds: a stream.
        ram_budget_mb: memory in MiB for the elements in workers; None for no limit.
        max_workers: maximal number of workers; None for one per CPU.
        max_buffer_size: maximal number of elements read ahead; None for 1,000.
        samples_to_check: number of elements whose size is measured.

    Returns:
        the largest numbers that fit into the memory; they may be 0.
    """
    leaves = [flatten(element)[0] for element in islice(ds, samples_to_check)]
    sizes = [sum(int(np.asarray(leaf).nbytes) for leaf in each) for each in leaves]
    total = sum(sizes)
    most = max_workers if max_workers is not None else os.cpu_count() or 1
    buffer = max_buffer_size if max_buffer_size is not None else 1000
    if ram_budget_mb is not None and total:
        fitting = int(ram_budget_mb * (1 << 20) * len(sizes) / total)
        most, buffer = min(most, fitting), min(buffer, fitting)
    return PerformanceConfig(MultiprocessingOptions(most), ReadOptions(min(16, buffer), buffer))


def assert_equal_output_after_checkpoint(ds: Any) -> None:
    """Check that a dataset resumes correctly from the state of every step.

    All states must also have the same structure.

    Raises:
        AssertionError: if elements after a restored state differ, if the structure of states
            changes, or if the dataset is empty.
    """
    iterator, states, elements = iter(ds), list[Any](), list[Any]()
    structure = _structure_of(iterator.get_state())
    while True:
        state = iterator.get_state()
        assert _structure_of(state) == structure, (
            f"the state of step {len(states)} has another structure: {state}"
        )
        element = next(iterator, None)
        if element is None:
            break
        states.append(state)
        elements.append(element)
    assert elements, "the dataset has no elements."
    for step, state in enumerate(states):
        again = iter(ds)
        again.set_state(state)
        np.testing.assert_equal(again.get_state(), state, f"the state of step {step}")
        np.testing.assert_equal(list(again), elements[step:], f"the elements after step {step}")


def _structure_of(state: Any) -> Any:
    leaves, structure = flatten(state)
    return structure, [(type(leaf), np.shape(leaf)) for leaf in leaves]
