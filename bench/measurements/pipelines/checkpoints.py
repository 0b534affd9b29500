"""Measure the time of taking a state, of restoring one, and of resuming on another number of shards.

python bench/speed.py checkpoints [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from measuring import Samples, closing, keep_bytecode, settle_allocator, turns
from tables import show

import headrace
from headrace.checkpoint import CheckpointSave, StateFile
from headrace.loader.state.schema import CHECKSUM, sealed

SHARDS = 4096
STEP_SECONDS = 5e-3


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--rounds", type=int, default=5)


def main(options: argparse.Namespace) -> None:
    """Measure, and print the tables."""
    settle_allocator()
    keep_bytecode()
    show(
        {
            "a state (µs; bytes in the last row)": _states(options.rounds),
            f"resuming {SHARDS} shards on {SHARDS // 2 + 1}": _elastic(options.rounds),
            "first batch after a restore (ms)": _first_batches(options.rounds),
            "a loop of steps of 5 ms (ms for a step)": _saving(options.rounds),
        }
    )


def _loader(**more: Any) -> headrace.DataLoader:
    return headrace.load(headrace.RangeDataSource(0, 10**12, 1), shuffle=True, seed=1, batch_size=128, **more)


def changed(state: bytes, **values: Any) -> bytes:
    """A state with other values, and with the checksum of these."""
    content = {name: value for name, value in json.loads(state).items() if name != CHECKSUM}
    return sealed(json.dumps(content | values, sort_keys=True, separators=(",", ":")).encode())


def state_at(step: int) -> bytes:
    """The state of a step far away."""
    return changed(iter(_loader()).get_state(), step=step, cursor=[[128 * step], [0]])


def _timed(work: Callable[[], Any], times: int, unit: float) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) / unit)
    return found


def _states(rounds: int) -> Samples:
    far = state_at(10**9)
    iterator = iter(_loader())
    iterator.set_state(far)
    next(iterator)
    return {
        **turns(
            rounds,
            {
                "get_state, step 10^9": lambda: _timed(iterator.get_state, 100, 1e-6),
                "set_state, step 10^9": lambda: _timed(lambda: iterator.set_state(far), 100, 1e-6),
            },
        ),
        "bytes of it": [float(len(far))],
    }


def _elastic(rounds: int) -> Samples:
    random = np.random.default_rng(0)
    shards = [iter(_loader(shard_options=headrace.ShardOptions(shard, SHARDS))) for shard in range(SHARDS)]
    states = []
    for iterator in shards:
        steps = 10**6 + int(random.integers(20))
        states.append(changed(iterator.get_state(), step=steps, cursor=[[128 * steps], [0]]))
    one = iter(_loader(shard_options=headrace.ShardOptions(3, SHARDS // 2 + 1)))
    return turns(rounds, {"set_states (ms)": lambda: _timed(lambda: one.set_states(states), 1, 1e-3)})


def _first_batches(rounds: int) -> Samples:
    def first(step: int | None, workers: int) -> list[float]:
        began = time.perf_counter()
        with closing(iter(_loader(worker_count=workers))) as iterator:
            if step is not None:
                iterator.set_state(state_at(step))
            next(iterator)
            return [(time.perf_counter() - began) / 1e-3]

    return turns(
        rounds,
        {
            f"{'no restore' if step is None else f'at step {step:,}'}, {workers} workers": (
                lambda step=step, workers=workers: first(step, workers)
            )
            for workers in (0, 2)
            for step in (None, 1000, 10**9)
        },
    )


def _saving(rounds: int) -> Samples:
    def loop(save: Callable[[Any, int], Any]) -> list[float]:
        times = []
        with closing(iter(_loader(worker_count=1))) as iterator:
            next(iterator)
            for step in range(200):
                began = time.perf_counter()
                next(iterator)
                while time.perf_counter() - began < STEP_SECONDS:
                    pass
                save(iterator, step)
                times.append((time.perf_counter() - began) / 1e-3)
        return [float(np.mean(times))]

    with tempfile.TemporaryDirectory() as folder:
        managers = iter(range(10**6))

        def with_orbax() -> list[float]:
            options = ocp.CheckpointManagerOptions(max_to_keep=2)
            with ocp.CheckpointManager(Path(folder, str(next(managers))), options=options) as manager:
                return loop(lambda it, step: manager.save(step, args=ocp.args.Composite(loader=CheckpointSave(it))))

        state_file = StateFile(Path(folder, "loader.json"))
        return turns(
            rounds,
            {
                "no save": lambda: loop(lambda iterator, step: None),
                "get_state at every step": lambda: loop(lambda iterator, step: iterator.get_state()),
                "saved to a StateFile": lambda: loop(lambda iterator, step: state_file.save(iterator)),
                "Orbax's manager, asynchronous": with_orbax,
            },
        )
