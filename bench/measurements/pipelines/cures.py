"""Test the remedies that `headrace bench` suggests: run a program, apply the suggested option, and run it again.

    python bench/speed.py cures [PROGRAM …] --times 3

The default is all programs. A line for each shows the finding, the predicted gain and the measured
gain. The result depends on time, so this is a command for a quiet machine, not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import re
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, ReadOptions, RecordMetadata


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


def options_of(what: str) -> dict[str, Any]:
    """The options that a change names: "worker_count=4", or "read_options=ReadOptions(num_threads=64), instead of 16"."""
    numbers = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", what)}
    reading = {name: numbers.pop(name) for name in ("num_threads", "prefetch_buffer_size") if name in numbers}
    options: dict[str, Any] = {"read_options": ReadOptions(**reading)} if reading else {}
    return options | {name: number for name, number in numbers.items() if name in ("worker_count", "batch_size")}


class Store:
    """Answers after some time, as a store does; after `slow` times as long for one record in 40."""

    def __init__(self, seconds=20e-3, slow=1):
        self.seconds = seconds
        self.slow = slow

    def __len__(self):
        return 100_000

    def __getitem__(self, key):
        time.sleep(self.seconds * (self.slow if key % 40 == 7 else 1))
        return key


class Service(Store):
    """The same, for coroutines."""

    async def __getitem__(self, key):
        await asyncio.sleep(self.seconds)
        return key


@functools.cache
def places(count):
    """Places for so many at once, of this process: connections, or with one place a lock."""
    return threading.Semaphore(count)


class FewConnections(Store):
    """A service with four connections."""

    def __getitem__(self, key):
        with places(4):
            return super().__getitem__(key)


class Turns:
    """When the next answer may come, of this process."""

    lock = threading.Lock()
    next = 0.0


class RateLimited(Store):
    """A service that answers 200 times in a second, however many ask."""

    def __getitem__(self, key):
        with Turns.lock:
            Turns.next = max(Turns.next + 1 / 200, time.monotonic())
            wait = Turns.next - time.monotonic()
        time.sleep(max(wait, 0.0))
        return super().__getitem__(key)


class InPython:
    """An order that is worked out in Python, record by record."""

    def __init__(self, seconds=1e-3):
        self.seconds = seconds

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return RecordMetadata(index, index * 7 % 100_000)


def locked(record):
    """Waits with a lock, as many a client of a service does."""
    with places(1):
        return unlocked(record)


def unlocked(record):
    """The same without the lock."""
    time.sleep(4e-3)
    return record


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


def loaded(source: Any = range(100_000), **options: Any) -> Any:
    """A loader."""
    return headrace.load(source, **options)


def stored(source: Any, batch_size: int, **options: Any) -> Any:
    """A loader of a source that waits, in random order."""
    return headrace.load(source, batch_size=batch_size, shuffle=True, seed=0, **options)


def composed(operations: list[Any], source: Any = range(100_000), sampler: Any = None, **options: Any) -> Any:
    """A loader of its parts."""
    sampler = sampler or IndexSampler(100_000, shuffle=True, seed=0)
    return DataLoader(data_source=source, sampler=sampler, operations=operations, **options)


NUMBERS = np.arange(1_000_000)
ON_THREADS = {"batch_size": 8, "worker_count": 4, "worker_kind": "thread"}
WORK, KEPT = headrace.MapTransform(slow), Filter(one_in_a_hundred)

TRIED = {
    **{
        f"a store, batches of {batch}, {workers} workers": Program(
            "waiting source",
            "reading",
            stored,
            {"source": Store(), "batch_size": batch, "worker_count": workers},
            steps=max(2000 // batch, 30) if batch < 512 else 12,
        )
        for batch in (1, 32, 512)
        for workers in (0, 2)
    },
    "an operation that waits, with a step": Program(
        "operation", "slow", loaded, {"transformations": [slow] * 3, "batch_size": 8}, steps=20, step_seconds=20e-3
    ),
    "a store, with a step": Program(
        "waiting source",
        "reading",
        stored,
        {"source": Store(), "batch_size": 32, "worker_count": 1},
        steps=60,
        step_seconds=15e-3,
    ),
    "a service, on an event loop": Program(
        "waiting source",
        "reading",
        stored,
        {"source": Service(), "batch_size": 32, "read_options": ReadOptions(prefetch_buffer_size=20)},
    ),
    "few connections": Program(
        "limited source",
        "reading",
        stored,
        {"source": FewConnections(10e-3), "batch_size": 16},
        {"source": Store(10e-3)},
    ),
    "a rate limit": Program(
        "limited source", "reading", stored, {"source": RateLimited(), "batch_size": 16}, {"source": Store()}
    ),
    "some records of a store": Program(
        "slow record",
        "reading",
        stored,
        {"source": Store(5e-3, slow=50), "batch_size": 16},
        {"source": Store(5e-3)},
        steps=60,
    ),
    "a sampler in Python": Program(
        "sampler",
        "sampler",
        composed,
        {"operations": [Batch(16)], "source": Store(1e-4), "sampler": InPython()},
        {"sampler": InPython(0.0)},
    ),
    "a lock among threads": Program(
        "turns", "locked", loaded, {"transformations": [locked], **ON_THREADS}, {"transformations": [unlocked]}
    ),
    "slow records": Program(
        "slow record",
        "sometimes",
        loaded,
        {"transformations": [sometimes], "batch_size": 4, "worker_count": 2},
        {"transformations": [slow]},
        steps=200,
    ),
    "small batches": Program(
        "small batches",
        "hand-over",
        loaded,
        {"source": NUMBERS, "batch_size": 2, "worker_count": 1},
        {"batch_size": 16},
        steps=3000,
    ),
    "small batches, without workers": Program(
        "small batches",
        "between operations",
        loaded,
        {"source": NUMBERS, "batch_size": 2},
        {"batch_size": 16},
        steps=3000,
    ),
    "a filter after the work": Program(
        "filter",
        "one_in_a_hundred",
        composed,
        {"operations": [WORK, KEPT, Batch(2)]},
        {"operations": [KEPT, WORK, Batch(2)]},
        steps=6,
    ),
}


def diagnosed(program: Program, **cure: Any) -> Any:
    """The verdict on a program with other arguments."""
    loader = program.make(**program.arguments | cure)
    return headrace.diagnose(loader, steps=program.steps, step_seconds=program.step_seconds)


def gains(program: Program, first: Any) -> tuple[float, float]:
    """How many times as fast its first change should make a program; how many times it did."""
    change = first.changes[0]
    then = diagnosed(program, **(options_of(change.what) if program.cure is None else program.cure)).measured
    told = first.measured.elapsed / change.seconds
    came = first.measured.elapsed / first.measured.batch * then.batch / then.elapsed
    return told, came


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", help="parts of the names of programs")
    parser.add_argument("--times", type=int, default=1, help="how often each is tried")


def main(options: argparse.Namespace) -> None:
    """Print the table."""
    print(f"{'program':38} {'finding':15} {'':5} {'told':>6} {'came':>6} {'came/told':>9}")
    for name, program in TRIED.items():
        if options.names and not any(part in name for part in options.names):
            continue
        ratios = []
        for _ in range(options.times):
            first = diagnosed(program)
            if not first.changes:
                print(f"{name:38} {first.finding.kind:15} without a change; expected {program.kind}", flush=True)
                continue
            told, came = gains(program, first)
            ratios.append(came / told)
            kind, bound = first.finding.kind, "up to" if first.changes[0].at_most else ""
            wrong = "" if (kind, first.finding.stage) == (program.kind, program.stage) else f"  expected {program.kind}"
            print(f"{name:38} {kind:15} {bound:5} {told:6.2f} {came:6.2f} {came / told:9.2f}{wrong}", flush=True)
        if len(ratios) > 1:
            print(f"{'':38} median {statistics.median(ratios):51.2f}", flush=True)
