"""Reference loops for loaders: what one thread of plain Python and NumPy achieves with the same work.

A loop takes a workload and its data, and returns an endless generator of batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from contender import SEED, Order, key_batches
from numpy.typing import NDArray
from workloads import Data, Workload

from headrace.common.generators.keyed_random import KeyedGenerator

Elements = Callable[[Iterable[Any], int], Iterator[Any]]
"""Takes the records of a batch and the position of the first; returns what the operation makes of each, lazily."""

Batches = Callable[[Workload, Data, Order], Iterator[Any]]


@dataclass(frozen=True)
class Loop:
    """A contender that is one generator function."""

    key: str
    label: str
    batches: Batches
    keyed_draws: bool = True
    worker_count: int = 0

    def loader(self, workload: Workload, data: Data, order: Order) -> Iterable[Any]:
        """Something whose `iter()` calls the generator function."""
        return _Fresh(self.batches, (workload, data, order))


@dataclass(frozen=True)
class _Fresh:
    batches: Batches
    arguments: tuple[Workload, Data, Order]

    def __iter__(self) -> Iterator[Any]:
        return self.batches(*self.arguments)


def bare(workload: Workload, data: Data, order: Order) -> Iterator[Any]:
    """What everybody writes: a list of elements, then `np.stack`."""
    elements_of = keyed_elements(workload)
    for position, keys in _positions_and_keys(workload, data, order):
        batch = stacked(list(elements_of(data.read(keys.tolist()), position)))
        yield workload.operation(batch) if workload.after_batch else batch


def limit(workload: Workload, data: Data, order: Order) -> Iterator[Any]:
    """As fast as one thread can be: no list, no stack, one piece of memory for all batches."""
    if workload.after_batch:
        return _limit_of_columns(workload, data, order)
    return _limit_of_rows(workload, data, order, keyed_elements(workload))


def limit_with_one_generator(workload: Workload, data: Data, order: Order) -> Iterator[Any]:
    """The limit loop with one generator for all records, whose numbers depend on what was drawn before."""
    return _limit_of_rows(workload, data, order, _elements_of_one_generator(workload))


def raw_read(workload: Workload, data: Data, order: Order) -> Iterator[Any]:
    """Nothing but reading."""
    for _, keys in _positions_and_keys(workload, data, order):
        yield data.read(keys.tolist())


LOOPS = (
    Loop("limit", "limit loop", limit),
    Loop("bare", "bare NumPy loop", bare),
    Loop("raw_read", "raw read", raw_read),
    Loop("one_generator", "limit loop, shared rng", limit_with_one_generator, keyed_draws=False),
)


def _positions_and_keys(workload: Workload, data: Data, order: Order) -> Iterator[tuple[int, NDArray[np.int64]]]:
    size = workload.batch_size
    return zip(itertools.count(0, size), key_batches(len(data.records), size, order))


def keyed_elements(workload: Workload) -> Elements:
    """The operation on each record; a random one gets the numbers that headrace would give it."""
    operation = workload.operation
    if workload.after_batch:
        return lambda records, position: iter(records)
    if not workload.random:
        return lambda records, position: map(operation, records)
    at = KeyedGenerator(operation=0).at
    return lambda records, position: map(operation, records, map(at, itertools.repeat(SEED), itertools.count(position)))


def _elements_of_one_generator(workload: Workload) -> Elements:
    operation, rng = workload.operation, np.random.default_rng(SEED)
    return lambda records, position: map(operation, records, itertools.repeat(rng))


def stacked(elements: list[Any]) -> Any:
    """Elements that are arrays, or dicts of arrays and numbers, as one batch."""
    if isinstance(elements[0], dict):
        return {name: stacked([element[name] for element in elements]) for name in elements[0]}
    return np.stack(elements) if isinstance(elements[0], np.ndarray) else np.array(elements)


def _limit_of_rows(workload: Workload, data: Data, order: Order, elements_of: Elements) -> Iterator[Any]:
    example = next(elements_of(data.read([0]), 0))
    batch = _empty_like(example, workload.batch_size)
    fill = _fill_images_and_labels if isinstance(batch, dict) else _fill_array
    for position, keys in _positions_and_keys(workload, data, order):
        fill(batch, elements_of(data.read(keys.tolist()), position))
        yield batch


def _empty_like(example: Any, size: int) -> Any:
    if isinstance(example, dict):
        return {name: _empty_like(leaf, size) for name, leaf in example.items()}
    array = np.asarray(example)
    return np.empty((size, *array.shape), array.dtype)


# Two ways to fill, so that neither pays for being general: what the limit loop does not save, nobody is asked to.
def _fill_array(batch: NDArray[Any], elements: Iterator[Any]) -> None:
    for row, element in enumerate(elements):
        batch[row] = element


def _fill_images_and_labels(batch: dict[str, NDArray[Any]], elements: Iterator[Any]) -> None:
    images, labels = batch["image"], batch["label"]
    for row, element in enumerate(elements):
        images[row] = element["image"]
        labels[row] = element["label"]


def _limit_of_columns(workload: Workload, data: Data, order: Order) -> Iterator[Any]:
    columns = data.columns or {}
    batch = {name: np.empty((workload.batch_size, *leaf.shape[1:]), leaf.dtype) for name, leaf in columns.items()}
    for _, keys in _positions_and_keys(workload, data, order):
        for name, column in columns.items():
            column.take(keys, axis=0, out=batch[name], mode="clip")  # "raise" would buffer
        yield workload.operation(batch)
