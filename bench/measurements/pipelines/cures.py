"""Test the remedies that `headrace bench` suggests: run a program, apply the suggested option, and run it again.

    python bench/speed.py cures [--rounds 3] [TABLE …]

A table shows the finding, the predicted gain ("told") and the measured gain ("came"). The result depends on time, so this is a
command for a quiet machine, not a test.
"""

from __future__ import annotations

import asyncio
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from measurement import Table

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, ReadOptions, RecordMetadata

OPTIONS = {"rounds": 1}
RECORDS = 100_000


@dataclass(frozen=True)
class Program:
    """A program that is slow for one reason.

    Attributes:
        kind: of the finding.
        stage: of the finding.
        make: makes its loader.
        arguments: of `make`.
        cure: other arguments, where the cure is none that `headrace bench` names as an option.
        steps: how many steps show it.
        step_seconds: how long the user's step takes.
    """

    kind: str
    stage: str
    make: Callable[..., Any]
    arguments: dict[str, Any]
    cure: dict[str, Any] | None = None
    steps: int = 30
    step_seconds: float | None = None

    def diagnosed(self, cure: dict[str, Any]) -> Any:
        """The verdict on the program with other arguments."""
        loader = self.make(**self.arguments | cure)
        return headrace.diagnose(loader, steps=self.steps, step_seconds=self.step_seconds)


# Sources, samplers and operations that are slow


@functools.cache
def places(count):
    """Places for so many at once, of this process: connections, or with one place a lock."""
    return threading.Semaphore(count)


class Store:
    """Answers after some time, as a store does; after `slow` times as long for one record in 40; to so many at once."""

    def __init__(self, seconds=20e-3, slow=1, connections=10_000):
        self.seconds, self.slow, self.connections = seconds, slow, connections

    def __len__(self):
        return RECORDS

    def __getitem__(self, key):
        with places(self.connections):
            time.sleep(self.seconds * (self.slow if key % 40 == 7 else 1))
            return key


class Service(Store):
    """The same, for coroutines."""

    async def __getitem__(self, key):
        await asyncio.sleep(self.seconds)
        return key


class RateLimited(Store):
    """A service that answers 200 times in a second, however many ask."""

    lock, turn = threading.Lock(), 0.0

    def __getitem__(self, key):
        with RateLimited.lock:
            RateLimited.turn = max(RateLimited.turn + 1 / 200, time.monotonic())
            wait = RateLimited.turn - time.monotonic()
        time.sleep(max(wait, 0.0))
        return super().__getitem__(key)


class InPython(Store):
    """An order that is worked out in Python, record by record."""

    def __getitem__(self, index):
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return RecordMetadata(index, index * 7 % RECORDS)


def unlocked(record):
    """Waits."""
    time.sleep(4e-3)
    return record


def locked(record):
    """Waits with a lock, as many a client of a service does."""
    with places(1):
        return unlocked(record)


def slow(record):
    """Takes 2 ms."""
    time.sleep(2e-3)
    return record


def sometimes(record):
    """Takes far longer for one record in 20."""
    time.sleep(0.1 if record % 20 == 3 else 2e-3)
    return record


def one_in_a_hundred(record):
    """Whether to keep a record."""
    return record % 100 == 0


def loaded(source: Any = range(RECORDS), **options: Any) -> Any:
    """A loader."""
    return headrace.load(source, **options)


def stored(source: Any, batch_size: int, **options: Any) -> Any:
    """A loader of a source that waits, in random order."""
    return headrace.load(source, batch_size=batch_size, shuffle=True, seed=0, **options)


def composed(operations: list[Any], source: Any = range(RECORDS), sampler: Any = None) -> Any:
    """A loader of its parts."""
    sampler = sampler or IndexSampler(RECORDS, shuffle=True, seed=0)
    return DataLoader(data_source=source, sampler=sampler, operations=operations)


# The programs

NUMBERS = {"source": np.arange(1_000_000), "batch_size": 2}
ON_THREADS = {"batch_size": 8, "worker_count": 4, "worker_kind": "thread"}
WORK, KEPT = headrace.MapTransform(slow), Filter(one_in_a_hundred)
WAITS = ("waiting source", "reading", stored)
LIMITED = ("limited source", "reading", stored)


def _of_store(batch: int, workers: int) -> Program:
    steps = max(2000 // batch, 30) if batch < 512 else 12
    return Program(*WAITS, {"source": Store(), "batch_size": batch, "worker_count": workers}, steps=steps)


PROGRAMS = {
    **{f"store_{batch}_{workers}": _of_store(batch, workers) for batch in (1, 32, 512) for workers in (0, 2)},
    "operation_with_step": Program(
        "operation", "slow", loaded, {"transformations": [slow] * 3, "batch_size": 8}, steps=20, step_seconds=20e-3
    ),
    "store_with_step": Program(
        *WAITS, {"source": Store(), "batch_size": 32, "worker_count": 1}, steps=60, step_seconds=15e-3
    ),
    "event_loop": Program(
        *WAITS, {"source": Service(), "batch_size": 32, "read_options": ReadOptions(prefetch_buffer_size=20)}
    ),
    "few_connections": Program(
        *LIMITED, {"source": Store(10e-3, connections=4), "batch_size": 16}, {"source": Store(10e-3)}
    ),
    "rate_limit": Program(*LIMITED, {"source": RateLimited(), "batch_size": 16}, {"source": Store()}),
    "slow_reads": Program(
        "slow record", "reading", stored, {"source": Store(5e-3, 50), "batch_size": 16}, {"source": Store(5e-3)}, 60
    ),
    "sampler_in_python": Program(
        "sampler",
        "sampler",
        composed,
        {"operations": [Batch(16)], "source": Store(1e-4), "sampler": InPython(1e-3)},
        {"sampler": InPython(0.0)},
    ),
    "lock": Program(
        "turns", "locked", loaded, {"transformations": [locked], **ON_THREADS}, {"transformations": [unlocked]}
    ),
    "slow_records": Program(
        "slow record",
        "sometimes",
        loaded,
        {"transformations": [sometimes], "batch_size": 4, "worker_count": 2},
        {"transformations": [slow]},
        200,
    ),
    "small_batches": Program(
        "small batches", "hand-over", loaded, {**NUMBERS, "worker_count": 1}, {"batch_size": 16}, 3000
    ),
    "small_batches_no_workers": Program(
        "small batches", "between operations", loaded, NUMBERS, {"batch_size": 16}, 3000
    ),
    "late_filter": Program(
        "filter",
        "one_in_a_hundred",
        composed,
        {"operations": [WORK, KEPT, Batch(2)]},
        {"operations": [KEPT, WORK, Batch(2)]},
        6,
    ),
}


def options_of(what: str) -> dict[str, Any]:
    """The options that a change names: "worker_count=4", or "read_options=ReadOptions(num_threads=64), instead of 16"."""
    numbers = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", what)}
    reading = {name: numbers.pop(name) for name in ("num_threads", "prefetch_buffer_size") if name in numbers}
    options: dict[str, Any] = {"read_options": ReadOptions(**reading)} if reading else {}
    return options | {name: number for name, number in numbers.items() if name in ("worker_count", "batch_size")}


def cure(name: str, options: Any) -> Iterator[Table]:
    """How many times as fast its first change should make a program; how many times it did."""
    program = PROGRAMS[name]
    for _ in range(options.rounds):
        first = program.diagnosed({})
        found = f"{name}: {first.finding.kind}, in {first.finding.stage}"
        if (first.finding.kind, first.finding.stage) != (program.kind, program.stage):
            found += f"; expected: {program.kind}, in {program.stage}"
        if not first.changes:
            yield Table(f"{found}, without a change", {"told": np.nan})
            continue
        change, before = first.changes[0], first.measured
        then = program.diagnosed(options_of(change.what) if program.cure is None else program.cure).measured
        told, came = before.elapsed / change.seconds, before.elapsed / before.batch * then.batch / then.elapsed
        yield Table(found, {"told, at most" if change.at_most else "told": told, "came": came}, "more")


TABLES = {name: functools.partial(cure, name) for name in PROGRAMS}
