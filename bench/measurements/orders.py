"""Measure weighted orders, omitted records and windows, in seconds of the processor: other programs
may use it, too.

    python bench/speed.py orders [--rounds 7] [--records 10000000] [TABLE …]
"""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from measurement import Table
from measuring import seconds_of

import headrace

OPTIONS = {"rounds": 7, "records": 10**7}
BATCH = 1024
EPISODE, FRAMES, WINDOW = 400, 20_000, 32
KINDS = {"with replacement": True, "without": False}


def processor(act: Callable[[], object], per: float = 1.0) -> Callable[[], float]:
    """A contender: seconds of the processor that a call takes, over a number."""
    return lambda: seconds_of(act, clock=time.process_time) / per


def _sampler(weights: np.ndarray, replacement: bool) -> headrace.WeightedSampler:
    sampler = headrace.WeightedSampler(weights, replacement=replacement)
    sampler.record_keys(np.arange(1))  # without replacement, makes the order
    return sampler


def weighted(options: Any) -> Iterator[Table]:
    """How long the tables of a WeightedSampler take to make, and how long a position takes."""
    count = options.records // 10
    make = partial(_sampler, np.random.default_rng(0).lognormal(0, 2, options.records))
    made = {kind: processor(partial(make, replacement)) for kind, replacement in KINDS.items()}
    yield Table(f"tables of {options.records:,} weights (s)", made)
    draws = {kind: make(replacement).record_keys for kind, replacement in KINDS.items()}
    keys = np.arange(count)
    drawn = {kind: processor(partial(draw, keys), count / 1e6) for kind, draw in draws.items()}
    yield Table("a position (µs)", drawn)


def weighted_memory(options: Any) -> Iterator[Table]:
    """What the sampler keeps, and the most while it is made, beside the weights of the user."""
    weights, found = np.random.default_rng(0).lognormal(0, 2, options.records), {}
    for kind, replacement in KINDS.items():
        tracemalloc.start()
        sampler = headrace.WeightedSampler(weights, replacement=replacement)
        kept, most = (size / options.records for size in tracemalloc.get_traced_memory())
        tracemalloc.stop()
        # without replacement, tables of two epochs in shared memory, and the weights themselves
        kept += 0 if replacement else 2 * 4 + 8
        found |= {f"{kind}, kept": kept, f"{kind}, at most": most}
        del sampler
    yield Table("memory of a sampler (bytes for each record)", found)


def _omitting(options: Any, omit: object) -> Any:
    """Batches of ten times as many records, of which some are left out."""
    work = {"transformations": [lambda key: {"key": key, "label": key % 10}], "batch_size": BATCH}
    order = {"shuffle": True, "seed": 0, "num_epochs": 1}
    records = headrace.RangeDataSource(10 * options.records)
    return contextlib.closing(iter(headrace.load(records, omit=omit, **work, **order)))


def _omitted(options: Any) -> np.ndarray:
    all_, some = 10 * options.records, options.records // 10
    return np.random.default_rng(0).choice(all_, some, replace=False)


def omitted(options: Any) -> Iterator[Table]:
    """Batches of a loader that leaves records out, beside one that does not."""
    count = max(options.records // 10 // BATCH, 1)
    with _omitting(options, None) as plain, _omitting(options, _omitted(options)) as omitting:
        first = seconds_of(lambda: (next(plain), next(omitting)), clock=time.process_time)
        ways = {"no record omitted": plain, "one in a hundred omitted": omitting}
        contenders = {
            label: processor(lambda each=each: [*islice(each, count)], count * BATCH / 1e9)
            for label, each in ways.items()
        }
        yield Table("a record (ns)", contenders, "less")
    yield Table("the first batches of both (s)", {"": first})


def omitted_memory(options: Any) -> Iterator[Table]:
    """What a loader keeps while it runs, and the most at a time, beside the keys of the user."""
    keys = _omitted(options)
    with _omitting(options, None) as plain:
        next(plain)  # what it imports
    tracemalloc.start()
    with _omitting(options, keys) as batches:
        for _ in islice(batches, 100):
            pass
        kept, most = (size / len(keys) for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    yield Table("memory of omitted keys (bytes for each)", {"kept": kept, "at most": most})


def windows(options: Any) -> Iterator[Table]:
    """Windows of 32 frames of 64 × 64 × 3, beside a copy of one contiguous slice of each."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (FRAMES, 64, 64, 3), dtype=np.uint8)
    source = headrace.Windows({"frame": frames}, WINDOW, 1, episodes=np.arange(FRAMES) // EPISODE)
    keys = rng.integers(0, len(source), 200)
    firsts, out = source.first_frames(keys).tolist(), np.empty((200, WINDOW, 64, 64, 3), np.uint8)

    def contiguous() -> None:
        for row, first in zip(out, firsts):
            row[...] = frames[first : first + WINDOW]

    def read() -> None:
        for row, window in zip(out, source.__getitems__(keys)):
            row[...] = window["frame"]

    contiguous()
    contenders = {"slices": processor(contiguous), "windows": processor(read)}
    yield Table("200 windows (s)", contenders, "less")


ALL = (weighted, weighted_memory, omitted, omitted_memory, windows)
TABLES = {each.__name__: each for each in ALL}
