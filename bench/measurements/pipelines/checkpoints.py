"""Measure the time of taking a state, of restoring one, and of resuming on another number of shards.

python bench/speed.py checkpoints [--rounds 5] [TABLE …]
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from measurement import Table
from measuring import closing, seconds_of

import headrace
from headrace.checkpoint import CheckpointSave, StateFile
from headrace.loader.state.schema import CHECKSUM, sealed

OPTIONS = {"rounds": 5, "shards": 4096}
STEP_SECONDS, STEPS, BATCH = 5e-3, 200, 128


def _loader(**more: Any) -> headrace.DataLoader:
    return headrace.load(headrace.RangeDataSource(0, 10**12, 1), shuffle=True, seed=1, batch_size=BATCH, **more)


def moved(state: bytes, step: int) -> bytes:
    """A state at another step, with the checksum of what it has now."""
    content = {name: value for name, value in json.loads(state).items() if name != CHECKSUM}
    content |= {"step": step, "cursor": [[BATCH * step], [0]]}
    return sealed(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def state_at(step: int) -> bytes:
    """The state of a step far away."""
    return moved(iter(_loader()).get_state(), step)


def states(options: Any) -> Iterator[Table]:
    """A state of a far step."""
    far, iterator = state_at(10**9), iter(_loader())
    iterator.set_state(far)
    next(iterator)
    acts = {"get_state": iterator.get_state, "set_state": lambda: iterator.set_state(far)}
    times = {name: lambda act=act: [1e6 * each for each in seconds_of(act, 100)] for name, act in acts.items()}
    yield Table("a state at step 10^9 (µs)", times)
    yield Table("its size (bytes)", {"": len(far)})


def other_shards(options: Any) -> Iterator[Table]:
    """The states of shards that stopped at different steps, on half as many and one more."""
    random, count = np.random.default_rng(0), options.shards
    shards = [iter(_loader(shard_options=headrace.ShardOptions(shard, count))) for shard in range(count)]
    kept = [moved(iterator.get_state(), 10**6 + int(random.integers(20))) for iterator in shards]
    one = iter(_loader(shard_options=headrace.ShardOptions(min(3, count // 2), count // 2 + 1)))
    resume = {"set_states": lambda: seconds_of(lambda: one.set_states(kept))}
    yield Table(f"resuming {count} shards on {count // 2 + 1} (s)", resume)


def first_batches(options: Any) -> Iterator[Table]:
    """The first batch after a restore, beside one without."""

    def first(step: int, workers: int) -> float:
        began = time.perf_counter()
        with closing(iter(_loader(worker_count=workers))) as iterator:
            if step:
                iterator.set_state(state_at(step))
            next(iterator)
            return 1e3 * (time.perf_counter() - began)

    for workers in (0, 2):
        steps = {"no restore": 0, "at step 1,000": 1000, "at step 10^9": 10**9}
        contenders = {told: partial(first, step, workers) for told, step in steps.items()}
        yield Table(f"first batch, {workers} workers (ms)", contenders)


def saving(options: Any) -> Iterator[Table]:
    """A loop of steps of 5 ms that saves at every step."""

    def loop(save: Callable[[Any, int], Any]) -> float:
        def step(number: int) -> None:
            until = time.perf_counter() + STEP_SECONDS
            next(iterator)
            while time.perf_counter() < until:
                pass
            save(iterator, number)

        with closing(iter(_loader(worker_count=1))) as iterator:
            next(iterator)
            numbers = itertools.count()
            return 1e3 * float(np.mean(seconds_of(lambda: step(next(numbers)), STEPS)))

    with tempfile.TemporaryDirectory() as folder:
        state_file, numbers = StateFile(Path(folder, "loader.json")), itertools.count()

        def with_orbax() -> float:
            kept = ocp.CheckpointManagerOptions(max_to_keep=2)
            with ocp.CheckpointManager(Path(folder, str(next(numbers))), options=kept) as manager:
                return loop(lambda it, step: manager.save(step, args=ocp.args.Composite(loader=CheckpointSave(it))))

        contenders = {
            "no save": lambda: loop(lambda iterator, step: None),
            "get_state at every step": lambda: loop(lambda iterator, step: iterator.get_state()),
            "saved to a StateFile": lambda: loop(lambda iterator, step: state_file.save(iterator)),
            "Orbax's manager, asynchronous": with_orbax,
        }
        yield Table("a step (ms)", contenders, "less")


TABLES = {each.__name__: each for each in (states, other_shards, first_batches, saving)}
