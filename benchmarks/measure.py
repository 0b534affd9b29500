"""Measure one turn of a contender: a fresh stream, its first batch, a warm-up, then batches against the clock.

It takes a loader, and returns a report of the turn. One-time costs (threads, first use of memory, the
tables of keys) are part of the first batch or the warm-up, for all contenders. Each batch is held
until the next one has come, as in a training loop. Its data is not read.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

WARM_UP_SECONDS, MOST_WARM_UP_SECONDS = 0.3, 2.0
MIN_BATCHES, WARM_BATCHES = 2, 32
"""In the warm-up, which is longer than its least time for the second number: enough to have touched all memory that a loader
alternates between. Processes that drift apart come to need some more of it late, and 77 MB can take 0.2 s the first time."""

KEPT_BYTES = 31 << 20


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
        next(batches)
        first_batch_seconds = time.perf_counter() - started
        _warm_up(batches, min(seconds, WARM_UP_SECONDS), min(seconds, MOST_WARM_UP_SECONDS))
        cpu_before = cpu_seconds()
        times = _clock_batches(batches, seconds)
        cpu_after = cpu_seconds()
    waits = np.diff(times)
    return Turn(len(waits) * batch_size, first_batch_seconds, cpu_after - cpu_before, waits)


def _warm_up(batches: Iterator[Any], least: float, most: float) -> None:
    """Take batches for `least` seconds, or until there were enough, but not for longer than `most`."""
    started, count, batch = time.perf_counter(), 0, None
    while time.perf_counter() - started < (least if count >= WARM_BATCHES else most) or count < MIN_BATCHES:
        batch = next(batches)
        count += 1
    del batch


def _clock_batches(batches: Iterator[Any], seconds: float) -> list[float]:
    """Take batches for `seconds`; the times before the first and after each."""
    clock, batch = time.perf_counter, None
    now = clock()
    times, end = [now], now + seconds
    while now < end:
        batch = next(batches)
        now = clock()
        times.append(now)
    del batch
    return times


def settle_allocator() -> None:
    """Have the C library keep freed pieces of memory of up to 31 MiB, in this process and in those that it starts.

    glibc gets pieces above a threshold from the system and gives them back when they are freed, so that each costs its
    first touch again. It raises the threshold, from 128 KiB to at most 32 MiB, to the size of a piece that was freed:
    whoever comes later finds another one. Without this, the same loop over the same images (with temporaries of 600 KB)
    was five times slower, or was not, depending on what had run before.
    """
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(KEPT_BYTES))
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2 * KEPT_BYTES))
    np.empty(KEPT_BYTES, np.uint8)


def keep_bytecode() -> None:
    """Have this process and those that it starts write the bytecode of what they import, and find it the next time.

    With PYTHONDONTWRITEBYTECODE set, as in many containers, and packages that were not compiled when they were installed, each
    new process compiles all that it imports: NumPy alone takes 0.3 s then, in place of 0.1.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Keep what is there already out of the garbage collector's sight, so that the turns pay for their own objects."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
