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
    return lambda: seconds_of(act, clock=time.process_time)[0] / per


def _weights(options: Any) -> np.ndarray:
    return np.random.default_rng(0).lognormal(0, 2, options.records)


def weighted(options: Any) -> Iterator[Table]:
    """Measure how long the tables of a WeightedSampler take to make, and how long a
    position takes.
    """
    weights, positions = _weights(options), np.arange(options.records // 10)

    def make(replacement: bool) -> headrace.WeightedSampler:
        sampler = headrace.WeightedSampler(weights, replacement=replacement)
        sampler.record_keys(np.arange(1))  # without replacement, makes the order
        return sampler

    made = {kind: processor(partial(make, replacement)) for kind, replacement in KINDS.items()}
    yield Table(f"tables of {options.records:,} weights (s)", made)
    drawn = {
        kind: processor(partial(make(replacement).record_keys, positions), len(positions) / 1e6)
        for kind, replacement in KINDS.items()
    }
    yield Table("a position (µs)", drawn)


def weighted_memory(options: Any) -> Iterator[Table]:
    """What the sampler keeps, and the most while it is made, beside the weights that
    the user has.
    """
    weights, found = _weights(options), {}
    for kind, replacement in KINDS.items():
        tracemalloc.start()
        sampler = headrace.WeightedSampler(weights, replacement=replacement)
        kept, most = (size / options.records for size in tracemalloc.get_traced_memory())
        tracemalloc.stop()
        tables = 0 if replacement else 2 * 4  # of two epochs, in shared memory
        own = 0 if replacement else 8  # the weights, which are those of the user
        found |= {f"{kind}, kept": kept + tables + own, f"{kind}, at most": most}
        del sampler
    yield Table("memory of a sampler (bytes for each record)", found)


def _omitting(options: Any, omit: object) -> Any:
    """Batches of ten times as many records, of which some are left out."""
    records, work = (
        headrace.RangeDataSource(10 * options.records),
        [lambda key: {"key": key, "label": key % 10}],
    )
    settings = {"batch_size": BATCH, "shuffle": True, "seed": 0, "num_epochs": 1}
    return iter(headrace.load(records, transformations=work, omit=omit, **settings))


def _omitted(options: Any) -> np.ndarray:
    return np.random.default_rng(0).choice(
        10 * options.records, options.records // 10, replace=False
    )


def omitted(options: Any) -> Iterator[Table]:
    """Batches of a loader that leaves records out, beside one that does not."""
    count = max(options.records // 10 // BATCH, 1)
    plain, omitting = _omitting(options, None), _omitting(options, _omitted(options))
    with contextlib.closing(plain), contextlib.closing(omitting):
        first = seconds_of(lambda: (next(plain), next(omitting)), clock=time.process_time)
        contenders = {
            "no record omitted": processor(lambda: [*islice(plain, count)], count * BATCH / 1e9),
            "one in a hundred omitted": processor(
                lambda: [*islice(omitting, count)], count * BATCH / 1e9
            ),
        }
        yield Table("a record (ns)", contenders, "less")
    yield Table("the first batches of both (s)", {"": first})


def omitted_memory(options: Any) -> Iterator[Table]:
    """What a loader keeps while it runs, and the most at a time, beside the keys that
    the user has.
    """
    keys = _omitted(options)
    with contextlib.closing(_omitting(options, None)) as plain:
        next(plain)  # what it imports
    tracemalloc.start()
    with contextlib.closing(_omitting(options, keys)) as batches:
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
    firsts, out = (
        source.first_frames(keys).tolist(),
        np.empty((len(keys), WINDOW, 64, 64, 3), np.uint8),
    )

    def contiguous() -> None:
        for row, first in zip(out, firsts):
            row[...] = frames[first : first + WINDOW]

    def read() -> None:
        for row, window in zip(out, source.__getitems__(keys)):
            row[...] = window["frame"]

    contiguous()
    yield Table(
        "200 windows (s)", {"slices": processor(contiguous), "windows": processor(read)}, "less"
    )


TABLES = {
    each.__name__: each for each in (weighted, weighted_memory, omitted, omitted_memory, windows)
}
