"""Measure how much feeding a device slows a training loop, and how many of the host's batches per
second a loop gets.

    python bench/speed.py device [--rounds 7] [--seconds 1.5] [TABLE …]

The device is a CPU. XLA gets one core (NPROC=1), and the other cores load data, as on a machine
with an accelerator. The number of layers of a step is chosen so that it takes long enough.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["NPROC"] = "1"  # read by XLA, which would divide a step between all cores

import grain
import jax
import numpy as np
from compare.workloads import large_images, normalise
from measurement import Table
from measuring import closing, take_turn

import headrace

OPTIONS = {"rounds": 7, "seconds": 1.5}
BATCH, BLOCK = 128, 10
"""Records of a batch, and steps that are timed together."""

DEVICE = jax.devices()[0]


def _grain(records: dict[str, Any]) -> Iterable[Any]:
    source = [dict(zip(records, row)) for row in zip(*records.values())]
    dataset = grain.MapDataset.source(source).shuffle(seed=0).repeat().batch(BATCH)
    return grain.experimental.device_put(dataset.to_iter_dataset(), DEVICE)


@partial(jax.jit, static_argnums=2)
def _train(weights: Any, batch: Any, layers: int) -> Any:
    """Run a training step of a network with this number of layers."""
    hidden = batch["image"].reshape(BATCH, -1) @ weights[0]
    for _ in range(layers):
        hidden = jax.numpy.tanh(hidden @ weights[1])
    loss = (hidden.sum(axis=1) - batch["label"]).mean()
    return [weights[0] * (1 - 1e-9 * loss), weights[1]]


def _step_seconds(iterator: Iterator[Any], layers: int) -> float:
    """Seconds of a step, of a block of them."""
    weights = [jax.numpy.ones((64, 512)) / 64, jax.numpy.eye(512)]
    began = time.perf_counter()
    for _ in range(BLOCK):
        weights = jax.block_until_ready(_train(weights, next(iterator), layers))
    return (time.perf_counter() - began) / BLOCK


def _layers(seconds: float, batch: Any) -> int:
    """Return the number of layers with which a step takes this many seconds."""
    layers = 4
    while True:
        _step_seconds(itertools.repeat(batch), layers)  # compiles
        took = _step_seconds(itertools.repeat(batch), layers)
        if took > seconds / 2:
            return max(1, round(layers * seconds / took))
        layers *= 2


def steps(step_seconds: float, options: Any) -> Iterator[Table]:
    """A training loop whose step takes longer than loading, with each way to get its batches."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((4096, 8, 8, 1), np.float32), rng.integers(0, 10, 4096, np.int32)
    records = {"image": images, "label": labels}  # a batch has 33 KB
    loader = headrace.load(records, shuffle=True, seed=0, batch_size=BATCH)
    resident = jax.device_put(next(iter(loader)), DEVICE)
    layers = _layers(step_seconds, resident)

    def turn(make: Callable[[], Iterable[Any]]) -> float:
        with closing(iter(make())) as batches:
            _step_seconds(batches, layers)  # begins
            until, times = time.perf_counter() + options.seconds, []
            while not times or time.perf_counter() < until:
                times.append(_step_seconds(batches, layers))
        return 1e3 * float(np.median(times))

    ways = {
        "one batch that stays on the device": lambda: itertools.repeat(resident),
        "loader.to_device": lambda: loader.to_device(DEVICE),
        "jax.device_put in the loop": lambda: (jax.device_put(batch, DEVICE) for batch in loader),
        "grain.experimental.device_put": lambda: _grain(records),
    }
    contenders = {label: partial(turn, make) for label, make in ways.items()}
    yield Table(f"a step of {1e3 * step_seconds:.0f} ms (ms)", contenders, "less")


def consumed(workers: int, options: Any) -> Iterator[Table]:
    """A loop that does nothing with its batches, of 77 MB, from host and feeder."""
    settings = {"transformations": [normalise], "shuffle": True, "seed": 0, "batch_size": BATCH}
    loader = headrace.load(large_images(Path()).headrace, worker_count=workers, **settings)
    ways = {"host iterator": lambda: loader, "loader.to_device": lambda: loader.to_device(DEVICE)}

    def rate(make: Callable[[], Any]) -> float:
        return take_turn(make(), BATCH, options.seconds).rate

    rates = {label: partial(rate, make) for label, make in ways.items()}
    yield Table(f"images only consumed, {workers} workers (records/s)", rates, "more")


TABLES = {f"steps_{ms}": partial(steps, ms / 1e3) for ms in (14, 43)}
TABLES |= {f"consumed_{workers}": partial(consumed, workers) for workers in (0, 2)}
