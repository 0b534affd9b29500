"""Measure what worker processes take besides their work: start, transfer of batches, memory; and pipelines that drop records.

python bench/speed.py workers [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from compare.workloads import digits, large_images, normalise
from measuring import Samples, closing, frozen, keep_bytecode, settle_allocator, take_turn, turns
from processes import memory
from tables import show

import headrace
from headrace.common.system import TRANSPORT

SMALL, LARGE = (2,), (224, 224, 3)
"""Shapes of float32 rows, 128 of which are a batch of 1 KB or of 77 MB."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--rounds", type=int, default=7)


def main(options: argparse.Namespace) -> None:
    """Measure, and print the tables."""
    settle_allocator()
    keep_bytecode()
    records, rounds = digits(Path()).headrace, options.rounds
    with frozen():
        tables = {
            "first batch, from iter(), with a source of 50 MB (ms)": _first_batches(rounds),
            "next() on a finished batch, the step before took long (µs)": _finished_batches(rounds),
            "records read per second, 2 workers (thousands)": _ragged(records, rounds),
            "records per second on the portable transport, 2 workers (thousands)": _transports(records, rounds),
            "memory of all processes with a source of 50 MB, proportional (MB)": _memory(rounds),
        }
    show(tables)


def _first_batches(rounds: int) -> Samples:
    source = {"x": np.ones((12_500, 1_000), np.float32)}

    def first(workers: int) -> list[float]:
        loader = headrace.load(source, batch_size=128, worker_count=workers)
        began = time.perf_counter()
        with closing(iter(loader)) as batches:
            next(batches)
            return [1e3 * (time.perf_counter() - began)]

    return turns(rounds, {f"{count} workers": lambda count=count: first(count) for count in (1, 2, 16)})  # type: ignore[misc]


def _finished_batches(rounds: int) -> Samples:
    def waits(shape: tuple[int, ...], pause: float) -> list[float]:
        row = np.zeros(shape, np.float32)
        loader = headrace.load(range(1000), transformations=[lambda key: row], batch_size=128, worker_count=2)
        times = []
        with closing(iter(loader)) as batches:
            for _ in range(8):
                batch = next(batches)
            for _ in range(100):
                del batch  # to drop a batch is no part of `next`
                time.sleep(pause)
                began = time.perf_counter()
                batch = next(batches)
                times.append(1e6 * (time.perf_counter() - began))
            del batch
        return times

    return turns(rounds, {"batches of 1 KB": lambda: waits(SMALL, 0.02), "batches of 77 MB": lambda: waits(LARGE, 0.1)})


def _ragged(records: list[Any], rounds: int) -> Samples:
    def rate(operations: list[Any], read_per_batch: int) -> list[float]:
        sampler = headrace.IndexSampler(len(records), shuffle=True, seed=0)
        loader = headrace.DataLoader(data_source=records, sampler=sampler, operations=operations, worker_count=2)
        return [take_turn(loader, read_per_batch, 1.5).rate / 1e3]

    half = headrace.Filter(lambda element: element["label"] < 5)
    return turns(
        rounds,
        {
            "aligned: map, Batch(128)": lambda: rate([normalise, headrace.Batch(128)], 128),
            "ragged: map, Filter keeping a half, Batch(128)": lambda: rate([normalise, half, headrace.Batch(128)], 256),
        },
    )


def _transports(records: list[Any], rounds: int) -> Samples:
    images = large_images(Path()).headrace

    def rate(name: str, source: list[Any]) -> list[float]:
        with patch.dict(os.environ, {TRANSPORT: name}):
            loader = headrace.load(source, transformations=[normalise], batch_size=128, worker_count=2, seed=0)
            return [take_turn(loader, 128, 1.5).rate / 1e3]

    sources, kinds = {"mnist": records, "images": images}, {"Linux": "", "portable": "portable"}
    cases = product(sources.items(), kinds.items())
    return turns(rounds, {f"{what}, {kind}": partial(rate, name, source) for (what, source), (kind, name) in cases})


def _memory(rounds: int) -> Samples:
    source = {"x": np.ones((12_500, 1_000), np.float32)}

    def used(workers: int) -> list[float]:
        with closing(iter(headrace.load(source, batch_size=32, worker_count=workers))) as batches:
            for _ in range(4 * workers):
                next(batches)
            return [memory(os.getpid()) / 1e6]

    return turns(rounds, {f"{count} workers": lambda count=count: used(count) for count in (1, 2, 5)})  # type: ignore[misc]
