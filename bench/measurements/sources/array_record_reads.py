"""Compare ArrayRecordDataSource in a DataLoader with raw batched reads of the library array_record.

    python bench/speed.py array_record_reads [--batches 32,256,2048] [--workers 0,2] [--rounds 7]

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
from typing import Any

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from measuring import medians

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


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--batches", default="32,256,2048")
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--rounds", type=int, default=7)


def main(options: argparse.Namespace) -> None:
    """Print a row of a table for each format and batch size."""
    workers = [int(count) for count in options.workers.split(",")]
    print("| | raw reads/s |", *(f"{count} workers/s | × raw |" for count in workers))
    print("|---|---:|" + "---:|---:|" * len(workers))
    with tempfile.TemporaryDirectory() as folder:
        for name, written in FORMATS.items():
            write(path := Path(folder, f"{name}.array_record"), written)
            for size in map(int, options.batches.split(",")):
                each = medians(options.rounds, {-1: raw(path, size), **{n: ours(path, size, n) for n in workers}})
                found = (f"{1 / each[count]:,.0f} | {each[-1] / each[count]:.2f} |" for count in workers)
                print(f"| {name}, {size:,} | {1 / each[-1]:,.0f} |", *found, flush=True)
