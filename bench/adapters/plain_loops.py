"""Loops without a library: what plain Python and NumPy achieve with the same work, in one thread or
side by side.

Each function takes a work and a number of workers, and returns something whose `iter()` is a fresh
endless stream of batches.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from compare.work import Work
from numpy.typing import NDArray

from headrace.common.generators.keyed_random import KeyedGenerator

LOOK_SECONDS = 1e-3  # between two looks at the counters: messages would cost the loops something
STRIDE = 8  # counters of 64 bits are on cache lines of their own


class Loop:
    """A loader of a generator function."""

    def __init__(self, batches: Callable[..., Iterator[Any]], *arguments: Any) -> None:
        self._batches, self._arguments = batches, arguments

    def __iter__(self) -> Iterator[Any]:
        return self._batches(*self._arguments)


def loop(batches: Callable[[Work, int], Iterator[Any]]) -> Callable[[Work, int], Loop]:
    """A generator function as a loader."""
    return functools.wraps(batches)(lambda work, workers: Loop(batches, work, workers))


@loop
def bare(work: Work, workers: int) -> Iterator[Any]:
    """The usual loop: a list of elements, then `np.stack`."""
    for position, keys in work.positions_and_keys():
        batch = stacked(list(elements(work, position, keys)))
        yield work.workload.operation(batch) if work.workload.after_batch else batch


@loop
def limit(work: Work, workers: int) -> Iterator[Any]:
    """As fast as one thread can be: no list, no stack, one piece of memory for all batches."""
    return _limit_of_columns(work) if work.workload.after_batch else _limit_of_rows(work)


@loop
def side_by_side(work: Work, workers: int) -> Iterator[Any]:
    """As many limit loops at once as there are workers, without transfer of batches: the limit of
    the machine.

    It yields None for each batch that one of them has made; in the shared order, the batches of one
    loop.
    """
    return iter(limit(work, 0)) if work.shared_order else _counted(work, workers)


def _counted(work: Work, workers: int) -> Iterator[None]:
    forks = multiprocessing.get_context("fork")
    made = np.frombuffer(forks.RawArray("q", workers * STRIDE), np.int64)[::STRIDE]

    def count(index: int) -> None:
        for _ in limit(work, 0):
            made[index] += 1

    processes = [forks.Process(target=count, args=(one,), daemon=True) for one in range(workers)]
    try:
        for process in processes:
            process.start()
        for delivered in itertools.count():
            while delivered >= made.sum():
                time.sleep(LOOK_SECONDS)
            yield None
    finally:
        for process in processes:
            process.kill()
            process.join()


def elements(work: Work, position: int, keys: NDArray[np.int64]) -> Iterable[Any]:
    """Return an iterator over the operation's result for each record.

    Random operations draw the same numbers as in headrace.
    """
    records, operation = work.data.read(keys.tolist()), work.workload.operation
    if work.workload.after_batch:
        return records
    if not work.workload.random:
        return map(operation, records)
    at = KeyedGenerator(operation=0).at
    generators = map(at, itertools.repeat(work.seed), itertools.count(position))
    return map(operation, records, generators)


def stacked(elements: list[Any]) -> Any:
    """Elements that are arrays, or dicts of arrays and numbers, as one batch."""
    if isinstance(elements[0], dict):
        return {name: stacked([element[name] for element in elements]) for name in elements[0]}
    return np.stack(elements) if isinstance(elements[0], np.ndarray) else np.array(elements)


def _limit_of_rows(work: Work) -> Iterator[Any]:
    (example,) = elements(work, 0, np.zeros(1, np.int64))
    batch = _empty_like(example, work.workload.batch_size)
    fill = _fill_images_and_labels if isinstance(batch, dict) else _fill_array
    for position, keys in work.positions_and_keys():
        fill(batch, elements(work, position, keys))
        yield batch


def _empty_like(example: Any, size: int) -> Any:
    if isinstance(example, dict):
        return {name: _empty_like(leaf, size) for name, leaf in example.items()}
    array = np.asarray(example)
    return np.empty((size, *array.shape), array.dtype)


# Arrays and dicts have a function each, so that the limit loop does not spend time on a choice for
# each record.
def _fill_array(batch: NDArray[Any], elements: Iterable[Any]) -> None:
    for row, element in enumerate(elements):
        batch[row] = element


def _fill_images_and_labels(batch: dict[str, NDArray[Any]], elements: Iterable[Any]) -> None:
    images, labels = batch["image"], batch["label"]
    for row, element in enumerate(elements):
        images[row] = element["image"]
        labels[row] = element["label"]


def _limit_of_columns(work: Work) -> Iterator[Any]:
    columns = work.data.columns or {}
    first = {name: column[0] for name, column in columns.items()}
    batch = _empty_like(first, work.workload.batch_size)
    for _, keys in work.positions_and_keys():
        for name, column in columns.items():
            column.take(keys, axis=0, out=batch[name], mode="clip")  # "raise" would buffer
        yield work.workload.operation(batch)
