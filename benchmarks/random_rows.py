"""Compare ParquetDataSource with pyarrow's own read of a row group: CPU time of one random row, in turns, on one thread.

    python benchmarks/random_rows.py [--rounds 9]

The references open the file once (`ParquetFile`), and read a whole row group for each random row. The
first one returns an Arrow table of one row, the second one a dict. The source has no cache of row
groups here, as if the data were larger than a cache. The same holds for the loader (shuffled, batches
of 32, no workers), whose time is divided by the number of rows.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace
from headrace import ParquetDataSource

SHAPES = [(1000, 20, 100), (800, 57, 200), (150, 29, 2000)]
"""Row groups, columns, rows of a row group."""

TURN = 64
"""Rows of a turn."""


def column(number: int, count: int) -> Any:
    """Two of five columns are integers, two are floats, one is text."""
    rng = np.random.default_rng(number)
    if number % 5 < 2:
        return rng.integers(0, 1000, count)
    return rng.random(count).astype(np.float32) if number % 5 < 4 else [f"text {row % 977}" for row in range(count)]


def write(path: Path, groups: int, columns: int, rows: int) -> None:
    """One file with row groups of one size."""
    pq.write_table(
        pa.table({f"c{number}": column(number, groups * rows) for number in range(columns)}), path, row_group_size=rows
    )


def seconds(read: Callable[[int], object], keys: list[int]) -> float:
    """CPU time of one row."""
    began = time.process_time()
    for key in keys:
        read(key)
    return (time.process_time() - began) / len(keys)


def contenders(path: Path, rows: int) -> dict[str, Callable[[int], object]]:
    """What reads a row of a key."""
    file, source = pq.ParquetFile(path), ParquetDataSource(path, cache_bytes=0)

    def group(key: int) -> Any:
        return file.read_row_group(key // rows, use_threads=False).slice(key % rows, 1)

    return {
        "group": group,
        "dict": lambda key: group(key).to_pylist()[0],
        "source": source.__getitem__,
    }


def from_loader(path: Path) -> float:
    """CPU time of one row of batches, which are read ahead: so it is that of many of them."""
    source = ParquetDataSource(path, cache_bytes=0)
    with iter(headrace.load(source, shuffle=True, seed=0, batch_size=32, worker_count=0)) as batches:
        began, count = time.process_time(), 0
        for _ in itertools.islice(batches, 300):
            count += 32
        return (time.process_time() - began) / count


def main(rounds: int) -> None:
    """Prints a line for each shape."""
    for groups, columns, rows in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.parquet")
            write(path, groups, columns, rows)
            readers = contenders(path, rows)
            keys = functools.partial(np.random.default_rng(1).integers, 0, groups * rows, TURN)
            times: dict[str, list[float]] = {name: [] for name in readers}
            for turn in range(rounds * len(readers)):
                for name in [*readers, *readers][turn % len(readers) :][: len(readers)]:
                    times[name].append(seconds(readers[name], keys().tolist()))
            found = {name: median(took) * 1e3 for name, took in times.items()}
            found["loader"] = from_loader(path) * 1e3
            told = ", ".join(
                f"{name} {took:.2f} ms ({took / found['group']:.2f} ×, {took / found['dict']:.2f} ×)"
                for name, took in found.items()
            )
            print(f"{groups:>5,} row groups of {rows:>5,} rows, {columns} columns: {told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
