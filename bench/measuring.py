"""The measuring loop: the first batch of a fresh stream, a warm-up, then batches against the clock;
and turns of contenders.

One-time costs (threads, first use of memory, the tables of keys) are part of the first batch or the
warm-up, for all contenders. Each batch is held until the next one has come, as in a training loop.
Needs nothing but Python and NumPy, as it runs in the environment of each library.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from processes import processor_seconds

WARM_UP_SECONDS, MOST_WARM_UP_SECONDS, WARM_BATCHES = 0.3, 2.0, 32
"""The warm-up takes the longer time if there were fewer batches: enough to have touched all memory
that a loader alternates between. Processes that drift apart come to need some more of it late, and
77 MB can take 0.2 s the first time.
"""

KEPT_BYTES = 31 << 20

Count = Callable[[Any], int]
"""Returns the number of records in a batch."""


@dataclass(frozen=True)
class Turn:
    """The figures of one turn."""

    records: int
    seconds: float
    first_batch_seconds: float  # from `iter()`
    cpu_seconds: float  # of this process and its children, in the measured seconds

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def take_turn(loader: Iterable[Any], batch_size: int, seconds: float) -> Turn:
    """Measure a loader whose stream does not end, and whose batches are all as large."""
    gc.collect()
    began = time.perf_counter()
    processor = partial(processor_seconds, os.getpid())
    with closing(iter(loader)) as batches:
        return measure(batches, seconds, lambda batch: batch_size, processor, began)


def measure(
    batches: Any, seconds: float, count: Count, processor: Callable[[], float], began: float
) -> Turn:
    """Measure a fresh stream.

    Args:
        batches: the stream.
        seconds: the measured time.
        count: is called for each batch.
        processor: returns seconds of the processor so far; called at the beginning and at the end
            of the measured time.
        began: when the stream was made.
    """
    count(next(batches))
    first_batch_seconds = time.perf_counter() - began
    _take(batches, count, min(seconds, WARM_UP_SECONDS), min(seconds, MOST_WARM_UP_SECONDS))
    before = processor()
    records, took = _take(batches, count, seconds, seconds)
    return Turn(records, took, first_batch_seconds, processor() - before)


def _take(batches: Any, count: Count, seconds: float, most: float) -> tuple[int, float]:
    """Take batches for `seconds`, or for `most` while they are few; their records, and the time."""
    began, records, number, batch = time.perf_counter(), 0, 0, None
    while (took := time.perf_counter() - began) < (most if number < WARM_BATCHES else seconds):
        batch = next(batches)
        records += count(batch)
        number += 1
    return records, took


def turns(rounds: int, contenders: dict[Any, Callable[[], Any]]) -> dict[Any, list[Any]]:
    """The samples of each contender, which returns one or a list; who begins a round changes."""
    samples: dict[Any, list[Any]] = {name: [] for name in contenders}
    gc.collect()
    # so that the turns pay for their own objects, and not for those that are there already
    gc.freeze()
    for number in range(rounds):
        start = number % max(len(contenders), 1)
        for name in [*contenders][start:] + [*contenders][:start]:
            gc.collect()
            sample = contenders[name]()
            samples[name] += sample if isinstance(sample, list) else [sample]
    gc.unfreeze()
    return samples


def seconds_of(act: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call."""
    began = clock()
    act()
    return clock() - began


def processor_rate(act: Callable[[Any], object], items: Iterable[Any]) -> float:
    """Items for each second of the processor, user and system, in all threads of this process."""
    began, number = time.process_time(), 0
    for item in items:
        act(item)
        number += 1
    return number / (time.process_time() - began)


def settle_process() -> None:
    """Have the C library keep freed memory, and Python its bytecode, here and in child processes.

    glibc gives freed pieces of memory above a threshold back to the system, so that each costs its
    first touch again, and raises the threshold to the size of pieces that were freed: the same loop
    over the same images was five times slower, or was not, depending on what had run before. With
    PYTHONDONTWRITEBYTECODE set, as in many containers, each new process compiles NumPy.
    """
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(KEPT_BYTES))
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2 * KEPT_BYTES))
    np.empty(KEPT_BYTES, np.uint8)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@contextlib.contextmanager
def closing(iterator: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Close an iterator if it knows how, and drop what is left of it."""
    try:
        yield iterator
    finally:
        getattr(iterator, "close", lambda: None)()
        del iterator
        gc.collect()
