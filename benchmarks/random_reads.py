"""Compare TFRecordDataSource with raw reads at known offsets, from the page cache: CPU time, in turns, on one thread.

    python benchmarks/random_reads.py [--rounds 7]

The reference reads the bytes of each record by `os.pread`, and checks nothing. The source finds places
in its index, and checks the checksum of each record. Both read batches of 128 keys in random order.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from headrace import TFRecordDataSource
from headrace.formats.tfrecord import FRAME_BYTES, HEADER_BYTES, framed

SIZES = {100: 200_000, 1_000: 100_000, 10_000: 20_000, 100_000: 3_000}
BATCH = 128

Read = Callable[[np.ndarray], list[bytes]]


def cpu() -> float:
    """Seconds of user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def write(path: Path, size: int, count: int) -> np.ndarray:
    """Records of one size; their offsets."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for _ in range(count):
            file.write(framed(rng.bytes(size)))
    return np.arange(count) * (size + FRAME_BYTES)


def raw_reads(path: Path, offsets: np.ndarray, size: int) -> Read:
    """A loop over places that are known."""
    descriptor = os.open(path, os.O_RDONLY)

    def read(keys: np.ndarray) -> list[bytes]:
        return [os.pread(descriptor, size, offset) for offset in (offsets[keys] + HEADER_BYTES).tolist()]

    return read


def seconds(read: Read, keys: np.ndarray) -> float:
    """Of one record."""
    began = cpu()
    for start in range(0, len(keys), BATCH):
        read(keys[start : start + BATCH])
    return (cpu() - began) / len(keys)


def main(rounds: int) -> None:
    """Prints a line for each size of records."""
    for size, count in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.tfrecord")
            offsets = write(path, size, count)
            began = cpu()
            source = TFRecordDataSource(path)
            indexing = cpu() - began
            keys = np.random.default_rng(1).permutation(count)
            readers = {"raw": raw_reads(path, offsets, size), "source": source.__getitems__}
            assert readers["raw"](keys[:BATCH]) == readers["source"](keys[:BATCH])
            times: dict[str, list[float]] = {name: [] for name in readers}
            for _ in range(rounds):
                for name, read in readers.items():
                    times[name].append(seconds(read, keys))
            raw, ours = median(times["raw"]), median(times["source"])
            print(
                f"{size:>7,} bytes: raw {1 / raw:>9,.0f}/s, source {1 / ours:>9,.0f}/s, {raw / ours:.2f} ×; "
                f"index {count / indexing:,.0f} records/s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    main(parser.parse_args().rounds)
