"""One contender's turn: a fresh stream, its first batch, a warm-up, then batches against the clock.

In: a loader. Out: what was seen. One-time costs (threads, first touch of memory, the key tables) fall into the first
batch or the warm-up, for all contenders alike; batches are held until the next one has come, as a training loop does,
and nobody looks at their data.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

WARM_UP_SECONDS, WARM_UP_BATCHES = 0.3, 4
MIN_BATCHES = 2


@dataclass(frozen=True)
class Turn:
    """What was seen in one turn.

    Attributes:
        records: delivered in the measured time.
        first_batch_seconds: from `iter()` until the first batch was there.
        cpu_seconds: of this process, all threads, and of its children, in the measured time.
        waits: `float64[batches]`, seconds spent in each `next()` in the measured time.
    """

    records: int
    first_batch_seconds: float
    cpu_seconds: float
    waits: NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """The measured time."""
        return float(self.waits.sum())

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def take_turn(loader: Iterable[Any], batch_size: int, seconds: float) -> Turn:
    """Measure a loader whose stream does not end."""
    gc.collect()
    started = time.perf_counter()
    with closing(iter(loader)) as batches:
        batch = next(batches)
        first_batch_seconds = time.perf_counter() - started
        batch = _warm_up(batches, batch)
        cpu_before = cpu_seconds()
        times = _clock_batches(batches, batch, seconds)
        cpu_after = cpu_seconds()
    waits = np.diff(times)
    return Turn(len(waits) * batch_size, first_batch_seconds, cpu_after - cpu_before, waits)


def _warm_up(batches: Iterator[Any], batch: Any) -> Any:
    """Take batches for a while; the last one."""
    end = time.perf_counter() + WARM_UP_SECONDS
    for count, batch in enumerate(batches, start=1):
        if count >= WARM_UP_BATCHES and time.perf_counter() >= end:
            break
    return batch


def _clock_batches(batches: Iterator[Any], batch: Any, seconds: float) -> list[float]:
    """Take batches for `seconds`; the times before the first and after each. `batch` is the one in the user's hands."""
    clock = time.perf_counter
    now = clock()
    times, end = [now], now + seconds
    while now < end or len(times) <= MIN_BATCHES:
        batch = next(batches)
        now = clock()
        times.append(now)
    del batch
    return times


@contextlib.contextmanager
def closing(iterator: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Close an iterator if it knows how, and drop what is left of it."""
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
        del iterator, close
        gc.collect()


def cpu_seconds() -> float:
    """CPU time so far of this process and its children, the living and the dead."""
    dead = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + dead.ru_utime + dead.ru_stime
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = child.cpu_times()
            total += spent.user + spent.system
    return total
