"""Measure what worker processes take besides their work: start, transfer of batches, memory; and
pipelines that drop records.

    python bench/speed.py workers [--rounds 7] [--seconds 1.5] [TABLE …]
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from compare.workloads import digits, large_images, normalise
from measurement import Table
from measuring import closing, take_turn
from processes import memory

import headrace
from headrace.common.system import TRANSPORT

OPTIONS = {"rounds": 7, "seconds": 1.5}
SOURCE = {"x": np.ones((12_500, 1_000), np.float32)}
"""50 MB."""


def first_batches(options: Any) -> Iterator[Table]:
    """The time from `iter()` to the first batch, by the number of workers."""

    def first(workers: int) -> float:
        began = time.perf_counter()
        with closing(iter(headrace.load(SOURCE, batch_size=128, worker_count=workers))) as batches:
            next(batches)
            return 1e3 * (time.perf_counter() - began)

    counts = {f"{count} workers": partial(first, count) for count in (1, 2, 16)}
    yield Table("first batch, from iter(), with a source of 50 MB (ms)", counts)


def finished_batches(options: Any) -> Iterator[Table]:
    """The time of `next()` on a batch that is there, as the step before took long."""

    def waits(shape: tuple[int, ...], pause: float) -> list[float]:
        row, work = np.zeros(shape, np.float32), {"batch_size": 128, "worker_count": 2}
        loader = headrace.load(range(1000), transformations=[lambda key: row], **work)
        with closing(iter(loader)) as batches:
            for _ in range(8):
                next(batches)
            times = []
            for _ in range(100):
                time.sleep(pause)
                began = time.perf_counter()
                batch = next(batches)
                times.append(1e6 * (time.perf_counter() - began))
                del batch  # to drop a batch is no part of `next`
        return times

    small, large = partial(waits, (2,), 0.02), partial(waits, (224, 224, 3), 0.1)
    sizes = {"batches of 1 KB": small, "batches of 77 MB": large}
    yield Table("next() on a finished batch (µs)", sizes)


def dropped_records(options: Any) -> Iterator[Table]:
    """Records that are read in a second, with a filter and without."""
    records = digits(Path()).headrace
    half = headrace.Filter(lambda element: element["label"] < 5)

    def rate(operations: list[Any], read_per_batch: int) -> float:
        work = {"transformations": operations, "batch_size": 128, "worker_count": 2}
        loader = headrace.load(records, shuffle=True, seed=0, **work)
        return take_turn(loader, read_per_batch, options.seconds).rate / 1e3

    contenders = {
        "aligned: map, Batch(128)": partial(rate, [normalise], 128),
        "ragged: map, Filter keeping a half, Batch(128)": partial(rate, [normalise, half], 256),
    }
    yield Table("records read per second, 2 workers (thousands)", contenders, "more")


def transports(options: Any) -> Iterator[Table]:
    """Records in a second, on Linux's transport and on the portable one."""
    work = {"transformations": [normalise], "batch_size": 128, "worker_count": 2, "seed": 0}

    def rate(name: str, source: list[Any]) -> float:
        with patch.dict(os.environ, {TRANSPORT: name}):
            return take_turn(headrace.load(source, **work), 128, options.seconds).rate / 1e3

    for what, make in {"mnist": digits, "images": large_images}.items():
        source = make(Path()).headrace
        kinds = {"Linux": partial(rate, "", source), "portable": partial(rate, "portable", source)}
        title = f"{what}: records per second by transport, 2 workers (thousands)"
        yield Table(title, kinds, "more")


def memory_of_workers(options: Any) -> Iterator[Table]:
    """The memory of all processes; what several share counts in proportion."""

    def used(workers: int) -> float:
        with closing(iter(headrace.load(SOURCE, batch_size=32, worker_count=workers))) as batches:
            for _ in range(4 * workers):
                next(batches)
            return memory(os.getpid()) / 1e6

    counts = {f"{count} workers": partial(used, count) for count in (1, 2, 5)}
    yield Table("memory of all processes with a source of 50 MB, proportional (MB)", counts)


ALL = (first_batches, finished_batches, dropped_records, transports, memory_of_workers)
TABLES = {each.__name__: each for each in ALL}
