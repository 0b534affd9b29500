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
from compare.work import LATENCY_SECONDS, READERS, Work
from numpy.typing import NDArray

from headrace.common.generators.keyed_random import KeyedGenerator

Elements = Callable[[Iterable[Any], int], Iterator[Any]]
"""Takes the records of a batch and the position of the first; returns what the operation makes of
each, lazily.
"""

LOOK_SECONDS = 1e-3
"""Between two looks at what loops side by side have made: to be told of each batch would cost them
something.
"""

STRIDE = 8
"""Counters of 64 bits, each on a cache line of its own."""


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
    elements_of, workload = keyed_elements(work), work.workload
    for position, keys in work.positions_and_keys():
        batch = stacked(list(elements_of(work.data.read(keys.tolist()), position)))
        yield workload.operation(batch) if workload.after_batch else batch


@loop
def limit(work: Work, workers: int) -> Iterator[Any]:
    """As fast as one thread can be: no list, no stack, one piece of memory for all batches."""
    return limit_batches(work)


def limit_batches(work: Work) -> Iterator[Any]:
    """The batches of the limit loop."""
    return (
        _limit_of_columns(work)
        if work.workload.after_batch
        else _limit_of_rows(work, keyed_elements(work))
    )


@loop
def limit_with_one_generator(work: Work, workers: int) -> Iterator[Any]:
    """The limit loop with one random generator for all records: the numbers of a record depend on
    the records before it.
    """
    operation, rng = work.workload.operation, np.random.default_rng(work.seed)
    return _limit_of_rows(
        work, lambda records, position: map(operation, records, itertools.repeat(rng))
    )


@loop
def raw_read(work: Work, workers: int) -> Iterator[Any]:
    """Nothing but reading."""
    for _, keys in work.positions_and_keys():
        yield work.data.read(keys.tolist())


@loop
def ideal(work: Work, workers: int) -> Iterator[Any]:
    """Yield each batch when the reads of a slow source could have ended at the earliest. The
    records are read from memory.
    """
    each = work.workload.batch_size * LATENCY_SECONDS / (READERS * max(workers, 1))
    due = time.perf_counter()
    for _, keys in work.positions_and_keys():
        due += each
        time.sleep(max(due - time.perf_counter(), 0))
        yield np.stack(list(work.data.read(keys.tolist())))


@loop
def side_by_side(work: Work, workers: int) -> Iterator[Any]:
    """As many limit loops at once as there are workers, without transfer of batches: the limit of
    the machine.

    It yields None for each batch that one of them has made; in the shared order, the batches of one
    loop.
    """
    return limit_batches(work) if work.shared_order else _counted(work, workers)


def _counted(work: Work, workers: int) -> Iterator[None]:
    forks = multiprocessing.get_context("fork")
    made = np.frombuffer(forks.RawArray("q", workers * STRIDE), np.int64)[::STRIDE]

    def count(index: int) -> None:
        for _ in limit_batches(work):
            made[index] += 1

    processes = [
        forks.Process(target=count, args=(index,), daemon=True) for index in range(workers)
    ]
    try:
        for process in processes:
            process.start()
        delivered = 0
        while True:
            while delivered >= made.sum():
                time.sleep(LOOK_SECONDS)
            delivered += 1
            yield None
    finally:
        for process in processes:
            process.kill()
            process.join()


def keyed_elements(work: Work) -> Elements:
    """The operation on each record; a random one gets the numbers that headrace would give it."""
    operation, seed = work.workload.operation, work.seed
    if work.workload.after_batch:
        return lambda records, position: iter(records)
    if not work.workload.random:
        return lambda records, position: map(operation, records)
    at = KeyedGenerator(operation=0).at
    return lambda records, position: map(
        operation, records, map(at, itertools.repeat(seed), itertools.count(position))
    )


def stacked(elements: list[Any]) -> Any:
    """Elements that are arrays, or dicts of arrays and numbers, as one batch."""
    if isinstance(elements[0], dict):
        return {name: stacked([element[name] for element in elements]) for name in elements[0]}
    return np.stack(elements) if isinstance(elements[0], np.ndarray) else np.array(elements)


def _limit_of_rows(work: Work, elements_of: Elements) -> Iterator[Any]:
    read = work.data.read
    batch = _empty_like(next(elements_of(read([0]), 0)), work.workload.batch_size)
    fill = _fill_images_and_labels if isinstance(batch, dict) else _fill_array
    for position, keys in work.positions_and_keys():
        fill(batch, elements_of(read(keys.tolist()), position))
        yield batch


def _empty_like(example: Any, size: int) -> Any:
    if isinstance(example, dict):
        return {name: _empty_like(leaf, size) for name, leaf in example.items()}
    array = np.asarray(example)
    return np.empty((size, *array.shape), array.dtype)


# Arrays and dicts have a function each, so that the limit loop does not spend time on a choice for
# each record.
def _fill_array(batch: NDArray[Any], elements: Iterator[Any]) -> None:
    for row, element in enumerate(elements):
        batch[row] = element


def _fill_images_and_labels(batch: dict[str, NDArray[Any]], elements: Iterator[Any]) -> None:
    images, labels = batch["image"], batch["label"]
    for row, element in enumerate(elements):
        images[row] = element["image"]
        labels[row] = element["label"]


def _limit_of_columns(work: Work) -> Iterator[Any]:
    columns = work.data.columns or {}
    batch = _empty_like(
        {name: column[0] for name, column in columns.items()}, work.workload.batch_size
    )
    for _, keys in work.positions_and_keys():
        for name, column in columns.items():
            column.take(keys, axis=0, out=batch[name], mode="clip")  # "raise" would buffer
        yield work.workload.operation(batch)
