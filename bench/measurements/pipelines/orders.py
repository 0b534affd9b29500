"""Measure weighted orders, omitted records and windows. Each row is a function.

python bench/speed.py orders [ROW …]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from tables import Row, print_rows

import headrace

RECORDS, DRAWS = 10**7, 10**6
EPISODE, FRAMES, WINDOW = 400, 20_000, 32


def _seconds(work: Callable[[], object], times: int = 3) -> float:
    """The median of some runs, in seconds of the processor: other programs may use it, too."""
    took = []
    for _ in range(times):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


def _weights() -> np.ndarray:
    return np.random.default_rng(0).lognormal(0, 2, RECORDS)


def _first_order(sampler: headrace.WeightedSampler) -> None:
    sampler.record_keys(np.arange(1))


def weighted_table() -> Row:
    """Seconds to make the tables of 10^7 weights."""
    weights = _weights()
    with_replacement = _seconds(lambda: headrace.WeightedSampler(weights))
    without = _seconds(lambda: _first_order(headrace.WeightedSampler(weights, replacement=False)))
    return max(with_replacement, without), f"{with_replacement:.2f} with, {without:.2f} without replacement"


def weighted() -> Row:
    """Microseconds a position, of 10^7 weights."""
    weights, positions, found = _weights(), np.arange(DRAWS), {}
    for replacement in (True, False):
        sampler = headrace.WeightedSampler(weights, replacement=replacement)
        _first_order(sampler)
        found[replacement] = _seconds(lambda sampler=sampler: sampler.record_keys(positions)) / DRAWS * 1e6
    return max(found.values()), f"{found[True]:.3f} with, {found[False]:.3f} without replacement"


def weighted_memory() -> Row:
    """Bytes a record that the sampler keeps, and the most while it is made, beside the weights that the user has."""
    weights, found = _weights(), {}
    for replacement in (True, False):
        tracemalloc.start()
        sampler = headrace.WeightedSampler(weights, replacement=replacement)
        kept, most = (size / RECORDS for size in tracemalloc.get_traced_memory())
        tracemalloc.stop()
        tables = 0 if replacement else 2 * 4  # of two epochs, in shared memory
        own = 0 if replacement else 8  # the weights, which are those of the user
        found[replacement] = kept + tables + own, most
        del sampler
    told = ", ".join(f"{kept:.0f} kept, {most:.0f} at most" for kept, most in found.values())
    return max(kept for kept, _ in found.values()), f"with: {told.replace('most,', 'most; without:')}"


def _omitting(omit: object) -> headrace.DataLoader:
    records = headrace.RangeDataSource(10 * RECORDS)
    return headrace.load(
        records, transformations=[_labelled], batch_size=1024, shuffle=True, seed=0, num_epochs=1, omit=omit
    )


def _labelled(key: int) -> dict[str, int]:
    return {"key": key, "label": key % 10}


def _omitted() -> np.ndarray:
    return np.random.default_rng(0).choice(10 * RECORDS, RECORDS // 10, replace=False)


def omitted() -> Row:
    """Time of a loader's batches where 10^6 of 10^8 records are left out, beside that where none are; a map makes dicts."""
    batches = DRAWS // 1024
    plain, without = iter(_omitting(None)), iter(_omitting(_omitted()))
    began = time.process_time()
    next(plain), next(without)
    first = time.process_time() - began
    took = []
    for _ in range(7):  # in turn
        for iterator in (plain, without):
            took.append(_seconds(lambda it=iterator: [next(it) for _ in range(batches)], 1))
    plain.close(), without.close()
    ratio = statistics.median(after / before for before, after in zip(took[::2], took[1::2]))
    plain_ns, ns = (statistics.median(took[start::2]) / (batches * 1024) * 1e9 for start in (0, 1))
    return (
        ratio,
        f"{ns - plain_ns:.0f} ns more than {plain_ns:.0f} a record; {first:.1f} s to the first batches",
    )


def omitted_memory() -> Row:
    """Bytes an omitted key that a loader keeps while it runs, and the most at a time, beside the keys that the user has."""
    keys = _omitted()
    with contextlib.closing(iter(_omitting(None))) as plain:
        next(plain)  # what it imports
    tracemalloc.start()
    with contextlib.closing(iter(_omitting(keys))) as batches:
        for _ in range(100):
            next(batches)
        kept, most = (size / len(keys) for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    return kept, f"{most:.0f} at most"


def windows() -> Row:
    """Time to read 32 frames of 64 × 64 × 3, beside that of a copy of one contiguous slice."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (FRAMES, 64, 64, 3), dtype=np.uint8)
    source = headrace.Windows({"frame": frames}, WINDOW, 1, episodes=np.arange(FRAMES) // EPISODE)
    keys = rng.integers(0, len(source), 200)
    firsts, out = source.first_frames(keys).tolist(), np.empty((len(keys), WINDOW, 64, 64, 3), np.uint8)

    def contiguous() -> None:
        for row, first in zip(out, firsts):
            row[...] = frames[first : first + WINDOW]

    def read() -> None:
        for row, window in zip(out, source.__getitems__(keys)):
            row[...] = window["frame"]

    contiguous()
    ratios = [_seconds(read, 1) / _seconds(contiguous, 1) for _ in range(15)]
    return statistics.median(ratios), "of a columnar source"


ROWS = {
    "weighted_table": weighted_table,
    "weighted": weighted,
    "weighted_memory": weighted_memory,
    "omitted": omitted,
    "omitted_memory": omitted_memory,
    "windows": windows,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], metavar="ROW")


def main(options: argparse.Namespace) -> None:
    """Print the rows that are named, or all."""
    print_rows(ROWS, options.rows)
