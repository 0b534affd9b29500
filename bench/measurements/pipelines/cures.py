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
    """Makes a loader with options; what it waits for; how many steps tell that; and a loader after a cure that is no option."""

    make: Callable[..., Any]
    kind: str
    stage: str
    steps: int = 30
    cured: Callable[..., Any] | None = None
    step_seconds: float | None = None


def options_of(what: str) -> dict[str, Any]:
    """The options that a change names: "worker_count=4", or "read_options=ReadOptions(num_threads=64), instead of 16"."""
    numbers = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", what)}
    reading = {name: numbers.pop(name) for name in ("num_threads", "prefetch_buffer_size") if name in numbers}
    options: dict[str, Any] = {"read_options": ReadOptions(**reading)} if reading else {}
    return options | {name: number for name, number in numbers.items() if name in ("worker_count", "batch_size")}


class Store:
    """Answers after some time, as a store does."""

    def __init__(self, seconds=20e-3, count=100_000):
        self.seconds = seconds
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        time.sleep(self.seconds)
        return key


class Service(Store):
    """The same, for coroutines."""

    async def __getitem__(self, key):
        await asyncio.sleep(self.seconds)
        return key


@functools.cache
def places(count):
    """Connections of this process."""
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


class SomeSlow(Store):
    """One record in 40 takes fifty times as long."""

    repaired = False

    def __getitem__(self, key):
        time.sleep(self.seconds * (50 if key % 40 == 7 and not self.repaired else 1))
        return key


class Repaired(SomeSlow):
    """None does."""

    repaired = True


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


@functools.cache
def one_at_a_time():
    """A lock of this process."""
    return threading.Lock()


def locked(record):
    """Waits with a lock, as many a client of a service does."""
    with one_at_a_time():
        time.sleep(4e-3)
    return record


def unlocked(record):
    """The same without the lock."""
    time.sleep(4e-3)
    return record


def slow(record):
    """Takes 2 ms."""
    time.sleep(2e-3)
    return record


def sometimes(record, every=20, seconds=0.1):
    """Takes far longer for a few records."""
    time.sleep(seconds if record % every == 3 else 2e-3)
    return record


def one_in_a_hundred(record):
    """Whether to keep a record."""
    return record % 100 == 0


def waiting(source, batch, **options):
    """A loader of a source that waits."""
    return headrace.load(source, batch_size=batch, shuffle=True, seed=0, **options)


def _filtered(operations, **options):
    sampler = IndexSampler(100_000, shuffle=True, seed=0)
    return DataLoader(data_source=range(100_000), sampler=sampler, operations=operations, **options)


def _sampled(sampler, **options):
    return DataLoader(data_source=Store(1e-4), sampler=sampler, operations=[Batch(16)], **options)


def _small(batch_size=2, **options):
    return headrace.load(np.arange(1_000_000), batch_size=batch_size, **options)


TRIED = {
    **{
        f"a store, batches of {batch}, {workers} workers": Program(
            functools.partial(waiting, Store(), batch, worker_count=workers),
            "waiting source",
            "reading",
            max(2000 // batch, 30) if batch < 512 else 12,
        )
        for batch in (1, 32, 512)
        for workers in (0, 2)
    },
    "an operation that waits, with a step": Program(
        functools.partial(headrace.load, range(100_000), transformations=[slow] * 3, batch_size=8),
        "operation",
        "slow",
        20,
        step_seconds=20e-3,
    ),
    "a store, with a step": Program(
        functools.partial(waiting, Store(), 32, worker_count=1), "waiting source", "reading", 60, step_seconds=15e-3
    ),
    "a service, on an event loop": Program(
        functools.partial(waiting, Service(), 32, read_options=ReadOptions(prefetch_buffer_size=20)),
        "waiting source",
        "reading",
    ),
    "few connections": Program(
        functools.partial(waiting, FewConnections(10e-3), 16),
        "limited source",
        "reading",
        cured=functools.partial(waiting, Store(10e-3), 16),
    ),
    "a rate limit": Program(
        functools.partial(waiting, RateLimited(20e-3), 16),
        "limited source",
        "reading",
        cured=functools.partial(waiting, Store(20e-3), 16),
    ),
    "some records of a store": Program(
        functools.partial(waiting, SomeSlow(5e-3), 16),
        "slow record",
        "reading",
        60,
        functools.partial(waiting, Repaired(5e-3), 16),
    ),
    "a sampler in Python": Program(
        lambda **options: _sampled(InPython(), **options),
        "sampler",
        "sampler",
        cured=lambda **options: _sampled(InPython(0.0), **options),
    ),
    "a lock among threads": Program(
        functools.partial(
            headrace.load, range(100_000), transformations=[locked], batch_size=8, worker_count=4, worker_kind="thread"
        ),
        "turns",
        "locked",
        cured=functools.partial(
            headrace.load,
            range(100_000),
            transformations=[unlocked],
            batch_size=8,
            worker_count=4,
            worker_kind="thread",
        ),
    ),
    "slow records": Program(
        functools.partial(headrace.load, range(100_000), transformations=[sometimes], batch_size=4, worker_count=2),
        "slow record",
        "sometimes",
        200,
        functools.partial(headrace.load, range(100_000), transformations=[slow], batch_size=4, worker_count=2),
    ),
    "small batches": Program(
        functools.partial(_small, worker_count=1),
        "small batches",
        "hand-over",
        3000,
        functools.partial(_small, 16, worker_count=1),
    ),
    "small batches, without workers": Program(
        _small, "small batches", "between operations", 3000, functools.partial(_small, 16)
    ),
    "a filter after the work": Program(
        functools.partial(_filtered, [headrace.MapTransform(slow), Filter(one_in_a_hundred), Batch(2)]),
        "filter",
        "one_in_a_hundred",
        6,
        functools.partial(_filtered, [Filter(one_in_a_hundred), headrace.MapTransform(slow), Batch(2)]),
    ),
}


def tried(program: Program) -> tuple[Any, float, float]:
    """The verdict on a program; how many times as fast its first change should make it; how many times it did."""
    first = headrace.diagnose(program.make(), steps=program.steps, step_seconds=program.step_seconds)
    change = first.changes[0]
    loader = (program.cured or program.make)(**({} if program.cured else options_of(change.what)))
    then = headrace.diagnose(loader, steps=program.steps, step_seconds=program.step_seconds).measured
    told = first.measured.elapsed / change.seconds
    came = first.measured.elapsed / first.measured.batch * then.batch / then.elapsed
    return first, told, came


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
            first, told, came = tried(program)
            ratios.append(came / told)
            kind, bound = first.finding.kind, "up to" if first.changes[0].at_most else ""
            wrong = "" if (kind, first.finding.stage) == (program.kind, program.stage) else f"  expected {program.kind}"
            print(f"{name:38} {kind:15} {bound:5} {told:6.2f} {came:6.2f} {came / told:9.2f}{wrong}", flush=True)
        if options.times > 1:
            print(f"{'':38} median {statistics.median(ratios):51.2f}", flush=True)
