"""Compare ArrayRecordDataSource in a DataLoader with raw batched reads of the library array_record.

    python benchmarks/array_record_reads.py [--batches 32,256,2048] [--workers 0,2] [--rounds 7]

There are 65,536 records of 200 words, with `group_size:1`, read in random order from the page cache,
compressed by zstd and uncompressed. The reference calls `ArrayRecordReader.read([key, …])` for each
batch, and holds a batch until the next one has come, as a training loop does. The loader has default
options and one operation, `Batch`. The two take turns. Each turn reads 16,384 records, after some
batches that are not counted. The printed rates are medians.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

import headrace

RECORDS, WORDS, TURN, WARM_UP = 65_536, 200, 16_384, 4
FORMATS = {"zstd": "group_size:1", "uncompressed": "group_size:1,uncompressed"}


def write(path: Path, options: str) -> None:
    """Records of random words."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(10_000)]
    writer = ArrayRecordWriter(str(path), options)
    for _ in range(RECORDS):
        writer.write(" ".join(rng.choices(words, k=WORDS)).encode())
    writer.close()


def raw(path: Path, batch_size: int) -> Callable[[], float]:
    """Turns of the reference."""
    reader = ArrayRecordReader(str(path), options="readahead_buffer_size:0")
    keys = random.Random(2).sample(range(RECORDS), RECORDS)

    def batches() -> Iterator[Any]:
        while True:
            for start in range(0, RECORDS, batch_size):
                yield reader.read(keys[start : start + batch_size])

    return lambda: seconds(batches(), batch_size)


def ours(path: Path, batch_size: int, workers: int) -> Callable[[], float]:
    """Turns of a loader with the defaults."""
    loader = headrace.DataLoader(
        data_source=headrace.ArrayRecordDataSource(path),
        sampler=headrace.IndexSampler(RECORDS, shuffle=True, seed=1),
        operations=[headrace.Batch(batch_size)],
        worker_count=workers,
    )

    def turn() -> float:
        with iter(loader) as batches:
            return seconds(batches, batch_size)

    return turn


def seconds(batches: Iterator[Any], batch_size: int) -> float:
    """Of a record, in one turn."""
    kept = deque(islice(batches, WARM_UP), maxlen=1)
    began, count = time.perf_counter(), max(TURN // batch_size, 1)
    kept.extend(islice(batches, count))
    took = time.perf_counter() - began
    return took / (count * batch_size)


def main(batch_sizes: list[int], workers: list[int], rounds: int) -> None:
    """Print a row of a table for each format and batch size."""
    print("| | raw reads/s |", *(f"{count} workers/s | × raw |" for count in workers))
    print("|---|---:|" + "---:|---:|" * len(workers))
    with tempfile.TemporaryDirectory() as folder:
        for name, options in FORMATS.items():
            write(path := Path(folder, f"{name}.array_record"), options)
            for size in batch_sizes:
                turns = {"raw": raw(path, size), **{str(count): ours(path, size, count) for count in workers}}
                times: dict[str, list[float]] = {who: [] for who in turns}
                for _ in range(rounds):
                    for who, turn in turns.items():
                        times[who].append(turn())
                each = {who: median(some) for who, some in times.items()}
                found = (f"{1 / each[str(count)]:,.0f} | {each['raw'] / each[str(count)]:.2f} |" for count in workers)
                print(f"| {name}, {size:,} | {1 / each['raw']:,.0f} |", *found, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", default="32,256,2048")
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    main(
        [int(size) for size in given.batches.split(",")],
        [int(count) for count in given.workers.split(",")],
        given.rounds,
    )
