"""Compare ArrayRecordDataSource in a DataLoader with raw batched reads of the library array_record.

    python bench/speed.py array_record_reads [--batches 32,256,2048] [--workers 0,2] [--rounds 7]

There are 65,536 records of 200 words, with `group_size:1`, read in random order from the page cache,
compressed by zstd and uncompressed. The reference calls `ArrayRecordReader.read([key, …])` for each
batch. The loader has default options and one operation, `Batch`. The two take turns. The printed rates are medians.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from measuring import medians, take_turn

import headrace

RECORDS, WORDS = 65_536, 200
FORMATS = {"zstd": "group_size:1", "uncompressed": "group_size:1,uncompressed"}


def write(path: Path, options: str) -> None:
    """Records of random words."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 10))) for _ in range(10_000)]
    writer = ArrayRecordWriter(str(path), options)
    for _ in range(RECORDS):
        writer.write(" ".join(rng.choices(words, k=WORDS)).encode())
    writer.close()


class RawReads:
    """Batches of the reference, in one random order again and again."""

    def __init__(self, path: Path, batch_size: int) -> None:
        self._reader = ArrayRecordReader(str(path), options="readahead_buffer_size:0")
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Any]:
        keys = random.Random(2).sample(range(RECORDS), RECORDS)
        while True:
            for start in range(0, RECORDS, self._batch_size):
                yield self._reader.read(keys[start : start + self._batch_size])


def ours(path: Path, batch_size: int, workers: int) -> headrace.DataLoader:
    """A loader with the defaults."""
    return headrace.DataLoader(
        data_source=headrace.ArrayRecordDataSource(path),
        sampler=headrace.IndexSampler(RECORDS, shuffle=True, seed=1),
        operations=[headrace.Batch(batch_size)],
        worker_count=workers,
    )


def rates(rounds: int, size: int, seconds: float, loaders: dict[int, Any]) -> dict[int, float]:
    """Records per second of each loader."""
    return medians(rounds, {key: lambda one=one: take_turn(one, size, seconds).rate for key, one in loaders.items()})


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--batches", default="32,256,2048")
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured seconds of a turn")


def main(options: argparse.Namespace) -> None:
    """Print a row of a table for each format and batch size."""
    workers = [int(count) for count in options.workers.split(",")]
    print("| | raw reads/s |", *(f"{count} workers/s | × raw |" for count in workers))
    print("|---|---:|" + "---:|---:|" * len(workers))
    with tempfile.TemporaryDirectory() as folder:
        for name, written in FORMATS.items():
            write(path := Path(folder, f"{name}.array_record"), written)
            for size in map(int, options.batches.split(",")):
                loaders = {-1: RawReads(path, size), **{count: ours(path, size, count) for count in workers}}
                each = rates(options.rounds, size, options.seconds, loaders)
                found = (f"{each[count]:,.0f} | {each[count] / each[-1]:.2f} |" for count in workers)
                print(f"| {name}, {size:,} | {each[-1]:,.0f} |", *found, flush=True)
