"""Compare workers on Ray with worker processes and with Ray Data: decoding of JPEGs, and the cost of a task and its bytes.

    python bench/speed.py ray_workers [--images 4096] [--rounds 5]

All have two workers in a cluster on this machine, and take turns. Prints images per second (median of
the passes), and the time that a task takes besides its work, by the size of its batch in bytes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ray
from compare.workloads import WORKLOADS, decode_and_crop
from measuring import turns

import headrace

JPEG = next(workload for workload in WORKLOADS if workload.name == "jpeg")
SIZES = (1_000, 1_000_000, 10_000_000, 77_000_000)


def on_headrace(files: list[bytes], **workers: Any) -> Iterator[int]:
    """Number of images of each batch of one pass."""
    loader = headrace.DataLoader(
        data_source=files,
        sampler=headrace.IndexSampler(len(files), shuffle=True, seed=0, num_epochs=1),
        operations=[headrace.RandomMapTransform(JPEG.operation), headrace.Batch(JPEG.batch_size)],
        worker_count=2,
        **workers,
    )
    with iter(loader) as iterator:
        for batch in iterator:
            yield len(batch)


def on_ray_data(files: list[bytes]) -> Iterator[int]:
    """The same by Ray Data: blocks of rows are mapped by two tasks at a time, and batched here."""
    import ray.data

    def mapped(rows: dict[str, Any]) -> dict[str, Any]:
        images = [
            decode_and_crop(file, np.random.default_rng(int(key))) for file, key in zip(rows["file"], rows["key"])
        ]
        return {"image": np.stack(images)}

    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = [{"file": file, "key": key} for key, file in enumerate(files)]
    dataset = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // (2 * JPEG.batch_size)))
    decoded = dataset.map_batches(mapped, batch_size=JPEG.batch_size, compute=ray.data.TaskPoolStrategy(2))
    for batch in decoded.iter_batches(batch_size=JPEG.batch_size, prefetch_batches=2):
        yield len(batch["image"])


def rate(counts: Iterator[int]) -> float:
    """Images per second of a pass, from its first batch on: until then the workers start."""
    next(counts)
    began = time.perf_counter()
    return sum(counts) / (time.perf_counter() - began)


def cost_of_tasks(size: int, seconds: float = 1.0) -> float:
    """Seconds that a task of one worker takes that does nothing but give so many bytes."""
    batch = np.zeros(size, np.uint8)
    loader = headrace.DataLoader(
        data_source=range(1 << 20),
        sampler=headrace.IndexSampler(1 << 20),
        operations=[headrace.Batch(1), lambda _: batch],
        worker_count=1,
        worker_kind="ray",
        timeout=1e6,  # so that a task is one batch
    )
    with iter(loader) as iterator:
        for _ in range(3):
            next(iterator)
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            next(iterator)
            count += 1
        return (time.perf_counter() - began) / count


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--images", type=int, default=4096, help="of a pass")
    parser.add_argument("--rounds", type=int, default=5)


def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        ray.init("local", num_cpus=5, include_dashboard=False, logging_level="ERROR", object_store_memory=1 << 30)
        files = list(JPEG.make_data(Path(folder)).records)[: options.images]
        contenders = {
            "2 worker processes": lambda: rate(on_headrace(files)),
            "2 workers on Ray": lambda: rate(on_headrace(files, worker_kind="ray")),
            "Ray Data": lambda: rate(on_ray_data(files)),
        }
        turns(1, contenders)  # the first pass of each is not counted
        found = turns(options.rounds, contenders)
        for name, rates in found.items():
            print(f"{name:20} {statistics.median(rates):8,.0f} images/s")
        for other in ("2 worker processes", "Ray Data"):
            ratios = [one / two for one, two in zip(found["2 workers on Ray"], found[other])]
            print(
                f"2 workers on Ray / {other}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )
        for size in SIZES:
            print(f"a task of {size:11,} bytes: {cost_of_tasks(size) * 1e3:7.2f} ms")
        ray.shutdown()
