"""What this package writes, of every kind: `python former_things.py FOLDER` has it written by the package of now.

`tests/former/` was written so while the package had its former name, and is never written again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.experimental import v1
from pipelines import PIPELINES, loader

import headrace
import headrace.compat.grain as grain
from headrace import DataLoader, IndexSampler, MapDataset, MixSampler, SequentialSampler, ShardOptions
from headrace.checkpoint import CheckpointSave, StateFile
from headrace.errors import HeadraceError
from headrace.loader.epochs import Epochs

STEP = 2
SHARED = ("batch", "flat map, batch", "filter, batch")
CHANGED = 1_700_000_000 * 10**9
"""When the files were changed that have an index, in ns."""


class Ordered(headrace.MapTransform):
    """An operation that holds an order, and is told by what is in it."""

    def __init__(self) -> None:
        self.sampler = IndexSampler(40, shuffle=True, seed=1)

    def map(self, element: Any) -> Any:
        return int(self.sampler.record_keys(np.array([element]))[0])


def _with_closure() -> Callable[[Any], Any]:
    order, error = IndexSampler(40, shuffle=True, seed=1), HeadraceError
    return lambda x: (order[x].record_key, error.__mro__[1].__name__)


def _chain() -> Any:
    return MapDataset.range(40).shuffle(seed=1).map(lambda x: x * 2).batch(3)


def _mix() -> Any:
    return MapDataset.mix([MapDataset.range(30).shuffle(seed=1), MapDataset.range(100, 120)], [0.5, 0.5])


def _parts() -> Any:
    parts = {"web": list(range(30)), "books": list(range(100, 120))}
    orders = {name: IndexSampler(len(part), shuffle=True, seed=4) for name, part in parts.items()}
    return DataLoader(data_source=parts, sampler=MixSampler(orders, {"web": 0.7, "books": 0.3}))


class _Drawn(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: Any) -> Any:
        return element + rng.integers(1000)


def _of_grain() -> Any:
    """A loader that can only be run through: it draws after a batch."""
    sampler = IndexSampler(40, shuffle=True, seed=3, num_epochs=1)
    return grain.DataLoader(data_source=range(40), sampler=sampler, operations=[grain.transforms.Batch(4), _Drawn()])


def _load(sampler: Any, *operations: Any) -> Any:
    return DataLoader(data_source=list(range(40)), sampler=sampler, operations=list(operations))


def _shuffled(**more: Any) -> Any:
    return IndexSampler(40, shuffle=True, seed=3, num_epochs=2, **more)


MADE: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: loader(name) for name in PIPELINES},
    "the records in turn": lambda: _load(SequentialSampler(40)),
    "Grain's order": lambda: _load(_shuffled(algorithm="grain")),
    "blocks": lambda: _load(IndexSampler(40, shuffle=headrace.BlockShuffle(4), seed=3, num_epochs=2)),
    "a mix of orders": _parts,
    "a chain": _chain,
    "a chain as a stream": lambda: _chain().to_iter_dataset().filter(lambda batch: batch[0] % 4 == 0),
    "a mix of chains": _mix,
    "an order in an operation": lambda: _load(_shuffled(), Ordered()),
    "an order and an error in a closure": lambda: _load(_shuffled(), _with_closure()),
    "a loader of Grain's names": _of_grain,
    "epochs": lambda: loader("batch").epochs(2),
}
"""What has a state, by name."""


def begun(name: str) -> Any:
    """An iterator from the beginning."""
    return MADE[name]() if name == "epochs" else iter(MADE[name]())


def taken(iterator: Any, steps: int) -> Any:
    """The same, after so many more steps; of a loop per epoch, of its epoch."""
    inner = next(iter(iterator)) if isinstance(iterator, Epochs) else iterator
    for _ in islice(inner, steps):
        pass
    return iterator


def shards(name: str, count: int) -> list[Any]:
    """An iterator for each shard."""
    return [iter(loader(name, shard_options=ShardOptions(index, count))) for index in range(count)]


def after_others(name: str) -> list[Any]:
    """Two shards that went on after three, which stood at different steps; one step later."""
    states = [taken(iterator, steps).get_state() for iterator, steps in zip(shards(name, 3), (1, 2, 4))]
    now = shards(name, 2)
    for iterator in now:
        iterator.set_states(states)
        taken(iterator, 1)
    return now


def plain_state(state: Any) -> Any:
    """A state as JSON has it."""
    return state.decode() if isinstance(state, bytes) else state


def _write_states(folder: Path) -> None:
    alone = {name: plain_state(taken(begun(name), STEP).get_state()) for name in MADE}
    elastic = {name: [plain_state(iterator.get_state()) for iterator in after_others(name)] for name in SHARED}
    states = {"alone": alone, "as dicts": taken(begun("batch"), STEP).state_dict(), "elastic": elastic}
    (folder / "states.json").write_text(json.dumps(states, separators=(",", ":")))


def _write_checkpoints(folder: Path) -> None:
    iterator = taken(begun("batch"), STEP)
    with ocp.CheckpointManager(folder / "orbax") as manager:
        manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(iterator)))
        manager.wait_until_finished()
    v1.save_checkpointables(folder / "orbax_v1", {"loader": iterator})
    for told in folder.glob("**/commit_success.txt"):
        told.write_text("Checkpoint commit was successful")  # without a path of who wrote it
    with StateFile(folder / "state_file.json") as file:
        file.save(iterator)


LINES = b"".join(b'{"number": %d}\n' % number for number in range(20))


def lines_in(folder: Path) -> Path:
    """A file of JSON lines, changed at a time that an index knows."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lines.jsonl"
    path.write_bytes(LINES)
    os.utime(path, ns=(CHANGED, CHANGED))
    return path


def _write_index(folder: Path) -> None:
    path = lines_in(folder / "made")
    headrace.JsonLinesDataSource(str(path)).close()
    (index,) = path.parent.glob("lines.jsonl.*")
    index.rename(folder / "index")
    shutil.rmtree(path.parent)


RECORDS = [list(range(number)) for number in range(1, 21)]


def convert(folder: Path) -> Any:
    """The conversion, begun or done."""
    return headrace.convert(RECORDS, folder, "tokens", shards=2, workers=0, progress=False)


class _Stops:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, count: int) -> None:
        self.calls += 1
        if self.calls > count:
            raise KeyError


def _write_conversions(folder: Path) -> None:
    convert(folder / "converted")
    from headrace.conversion import conversion, shards

    made, stops = shards.convert_shard, _Stops()

    def once(*arguments: Any, **named: Any) -> Any:
        stops(1)
        return made(*arguments, **named)

    conversion.convert_shard = once
    with suppress(KeyError):
        convert(folder / "begun")


if __name__ == "__main__":
    into = Path(sys.argv[1]).absolute()
    into.mkdir(parents=True)
    for write in (_write_states, _write_checkpoints, _write_index, _write_conversions):
        write(into)
