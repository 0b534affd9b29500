"""Measure how much feeding a device slows a training loop, and how many of the host's batches per second a loop gets.

    python bench/speed.py device [--rounds 7] [--seconds 3]

The device is a CPU. XLA gets one core (NPROC=1), and the
other cores load data, as on a machine with an accelerator. The number of layers of a step is chosen so
that the step takes long enough.
"""

from __future__ import annotations

import argparse
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
from measuring import Samples, closing, frozen, keep_bytecode, settle_allocator, take_turn, turns
from tables import show

import headrace

BATCH = 128
SMALL = (8, 8, 1)
"""A batch of the training loop is float32[128, 8, 8, 1], 33 KB; that of the loop that only consumes the workload's `images`."""

BLOCK = 10
"""Steps that are timed together. So short that the machine is as fast for the resident batch as for the others."""

DEVICE = jax.devices()[0]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")


def main(options: argparse.Namespace) -> None:
    """Measure, and print the tables."""
    settle_allocator()
    keep_bytecode()
    rounds, seconds = options.rounds, options.seconds
    with frozen():
        tables = {
            f"step time / that on one resident batch, steps of {ms} ms": _steps(rounds, seconds, ms / 1e3)
            for ms in (14, 43)
        }
        tables["images only consumed, batches per second / the host iterator's"] = _consumed(rounds, seconds)
    show(tables)


# ---- A training loop whose step takes longer than loading


def _digits(shape: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"image": rng.random((4096, *shape), np.float32), "label": rng.integers(0, 10, 4096, np.int32)}


def _loader(records: dict[str, Any]) -> headrace.DataLoader:
    return headrace.load(records, shuffle=True, seed=0, batch_size=BATCH)


def _grain(records: dict[str, Any]) -> Iterable[Any]:
    source = [{name: column[key] for name, column in records.items()} for key in range(len(records["label"]))]
    dataset = grain.MapDataset.source(source).shuffle(seed=0).repeat().batch(BATCH).to_iter_dataset()
    return grain.experimental.device_put(dataset, DEVICE)


def _plain(loader: headrace.DataLoader) -> Iterator[Any]:
    for batch in loader:
        yield jax.device_put(batch, DEVICE)


def _resident(loader: headrace.DataLoader) -> Iterator[Any]:
    batch = jax.device_put(next(iter(loader)), DEVICE)
    while True:
        yield batch


@partial(jax.jit, static_argnums=2)
def _train(weights: Any, batch: Any, layers: int) -> Any:
    """A step in which the batch goes through so many layers."""
    hidden = batch["image"].reshape(BATCH, -1) @ weights[0]
    for _ in range(layers):
        hidden = jax.numpy.tanh(hidden @ weights[1])
    loss = (hidden.sum(axis=1) - batch["label"]).mean()
    return [weights[0] * (1 - 1e-9 * loss), weights[1]]


def _layers(seconds: float, batch: Any) -> int:
    """The number of layers that make a step of so many seconds."""
    layers = 4
    while True:
        _block(itertools.repeat(batch), layers)  # compiles
        took = _block(itertools.repeat(batch), layers) / BLOCK
        if took > seconds / 2:
            return max(1, round(layers * seconds / took))
        layers *= 2


def _block(iterator: Iterator[Any], layers: int) -> float:
    """Seconds that a block of steps takes."""
    weights = [jax.numpy.ones((64, 512)) / 64, jax.numpy.eye(512)]
    began = time.perf_counter()
    for _ in range(BLOCK):
        weights = jax.block_until_ready(_train(weights, next(iterator), layers))
    return time.perf_counter() - began


def _steps(rounds: int, seconds: float, step_seconds: float) -> Samples:
    """Step time of each way to get batches, over that of the resident batch measured right after; medians of turns."""
    records = _digits(SMALL)
    loader = _loader(records)
    layers = _layers(step_seconds, next(iter(_resident(loader))))

    def block(iterator: Iterator[Any]) -> float:
        return _block(iterator, layers)

    def ratio(make: Callable[[], Iterable[Any]]) -> Callable[[], list[float]]:
        def measure() -> list[float]:
            ratios, began = [], time.perf_counter()
            with closing(iter(make())) as own, closing(iter(_resident(loader))) as resident:
                while time.perf_counter() - began < seconds:
                    block(own)  # uses up what was made ready during the other's turn
                    ratios.append(block(own) / block(resident))
            return [float(np.median(ratios))]

        return measure

    def alone(batches: Iterable[Any]) -> float:
        with closing(iter(batches)) as iterator:
            block(iterator)
            return float(np.median([block(iterator) for _ in range(max(3, int(seconds / 3 / step_seconds / BLOCK)))]))

    def ratio_alone(make: Callable[[], Iterable[Any]]) -> Callable[[], list[float]]:
        """For what goes on working, far ahead, in the turn of the resident batch."""

        def measure() -> list[float]:
            before, own, after = alone(_resident(loader)), alone(make()), alone(_resident(loader))
            return [2 * own / (before + after)]

        return measure

    return turns(
        rounds,
        {
            "resident batch": ratio(lambda: _resident(loader)),
            "to_device": ratio(lambda: loader.to_device(DEVICE)),
            "grain.experimental.device_put": ratio_alone(lambda: _grain(records)),
            "jax.device_put in the loop": ratio(lambda: _plain(loader)),
        },
    )


# ---- A loop that only consumes


def _consumed(rounds: int, seconds: float) -> Samples:
    """Batches per second of each way, over those of the host iterator of as many workers, before and after."""

    def loader(workers: int) -> headrace.DataLoader:
        source, work = large_images(Path()).headrace, [normalise]
        return headrace.load(source, transformations=work, shuffle=True, seed=0, batch_size=BATCH, worker_count=workers)

    inline, workers = loader(0), loader(2)

    def rate(batches: Iterable[Any]) -> float:
        return take_turn(batches, BATCH, seconds / 3).rate

    def ratio(host: headrace.DataLoader, make: Callable[[], Iterable[Any]]) -> Callable[[], list[float]]:
        def measure() -> list[float]:
            before, own, after = rate(host), rate(make()), rate(host)
            return [2 * own / (before + after)]

        return measure

    return turns(
        rounds,
        {
            "host iterator": ratio(inline, lambda: inline),
            "to_device": ratio(inline, lambda: inline.to_device(DEVICE)),
            "host iterator, 2 workers": ratio(workers, lambda: workers),
            "to_device, 2 workers": ratio(workers, lambda: workers.to_device(DEVICE)),
        },
    )
