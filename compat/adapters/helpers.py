"""Functions of Grain's around datasets.

In: datasets, elements, indices. Out: specs, batches, indices, options.
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
from ...samplers.grain_order import ROUNDS, shuffled_one
from .chains.iter_dataset import IterDataset
from .chains.iterators import DatasetIterator
from .generators import OfDataset
from .options import MultiprocessingOptions, ReadOptions
from .wording import reword

MOST_ROUNDS = 1024


def index_shuffle(index: int, max_index: int, seed: int, rounds: int = ROUNDS) -> int:
    """Permute an index by Grain's permutation of `[0, max_index]`; datasets use four rounds.

    Raises:
        ValueError: the rounds are not an even number from 4 to 1024, or the index is outside.

    >>> [index_shuffle(index, max_index=9, seed=42, rounds=4) for index in range(4)]
    [8, 6, 7, 9]
    """
    if rounds not in range(ROUNDS, MOST_ROUNDS + 1, 2):
        raise ValueError(
            f"rounds must be an even integer between {ROUNDS} and {MOST_ROUNDS}, but got rounds = {rounds}."
        )
    if not 0 <= index <= max_index:
        raise ValueError(f"index must be in [0, max_index]: {index} is not in [0, {max_index}].")
    return shuffled_one(index, max_index, seed, rounds)


def batch_and_pad(values: Sequence[Any], *, batch_size: int, pad_value: Any = 0) -> Any:
    """A batch of these elements, filled up to a size. Lists are trees, as in `Batch`.

    Raises:
        ValueError: there are more, or none.

    >>> batch_and_pad([1, 2], batch_size=3).tolist()
    [1, 2, 0]
    """
    return filled_up(values, batch_size, pad_value, make_batch)


def make_batch(values: Sequence[Any], *, output_to_shared_memory: bool = False) -> Any:
    """A batch of these elements, as `Batch` makes it; from workers it comes in shared memory by itself.

    Raises:
        ValueError: there are none, or they differ in structure.

    >>> make_batch([{"x": [1, 2]}, {"x": [3, 4]}])
    {'x': [array([1, 3]), array([2, 4])]}
    """
    if not len(values):
        raise ValueError("Cannot batch 0 values; pass at least one.")
    try:
        return stacked(values, lists_are_trees=True)
    except StructureError as error:
        reword(error)
        raise


def device_put(ds: Any, device: Any, *, cpu_buffer_size: int = 4, device_buffer_size: int = 2) -> IterDataset[Any]:
    """The elements of a stream on devices, ahead of the user. What comes after it is done in the user's process.

    Args:
        ds: a stream.
        device: as of `jax.device_put`.
        cpu_buffer_size: elements that may wait on the host.
        device_buffer_size: elements that may wait on the devices.
    """
    return OnDevice(ds, device, cpu_buffer_size, device_buffer_size)


class OnDevice(IterDataset[Any]):
    """A stream on devices. Arguments as of `device_put`."""

    def __init__(self, parent: Any, device: Any, host_buffer: int, device_buffer: int) -> None:
        super().__init__(parent)
        self.device, self.buffers = device, (host_buffer, device_buffer)

    def __iter__(self) -> Any:
        source, (host, device) = iter(self._parent), self.buffers
        loader = our_device_put(
            source, self.device, cpu_buffer_size=host, device_buffer_size=device, on_unsupported="keep"
        )
        return _Follower(iter(loader), source)


class _Follower(DatasetIterator[Any]):
    """The elements of another iterator, the leader, whose state is its own."""

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
    """The elements of another iterator, as they come: the engine reads ahead by itself."""

    def __init__(self, parent: Any, prefetch_buffer_size: int) -> None:
        super().__init__(parent, parent)


class RngPool:
    """Grain's generators of a random map.

    >>> pool = RngPool(7)
    >>> pool.acquire_rng(3).random() == pool.acquire_rng(3).random()
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def acquire_rng(self, index: int, *, op_seed: int = 0) -> Generator:
        """The generator of an index."""
        return OfDataset(self.seed).at(index, op_seed)

    def release_rng(self, rng: Generator) -> None:
        """Does nothing."""


@dataclass(slots=True)
class PerformanceConfig:
    """Options that fit a dataset."""

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
    """Options by the size of the first elements.

    Args:
        ds: a stream.
        ram_budget_mb: for the elements in workers; None: no limit.
        max_workers: None: one for each CPU.
        max_buffer_size: elements read ahead; None: 1,000.
        samples_to_check: elements that are looked at.
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
    """Check that a dataset goes on from the state of every step, and that states keep one structure.

    Raises:
        AssertionError: it does not, or they do not; or it is empty.
    """
    iterator, states, elements = iter(ds), list[Any](), list[Any]()
    structure = _structure_of(iterator.get_state())
    while True:
        state = iterator.get_state()
        assert _structure_of(state) == structure, f"the state of step {len(states)} has another structure: {state}"
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
