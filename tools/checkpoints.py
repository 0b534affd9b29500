"""Describe and compare checkpoints: state files, or folders with them, as of Orbax."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..common.messages import first_few, shorten
from ..errors import CheckpointError
from ..loader.plan.identity import differences
from ..loader.state.files import process_of, unreadable
from ..loader.state.kept import Kept
from ..loader.state.schema import LoaderState
from ..samplers.protocol import ENDLESS

# largest number of missing files that are listed: a file's name may state any number of processes
MOST_NAMED = 1000


@dataclass(frozen=True)
class Checkpoint:
    """The states that the processes of one run saved together; some may be missing.

    Attributes:
        path: path of the folder, or of the only file.
        states: the states, in the order of their shards.
        missing: names of the files, at most 1,000, that the folder lacks, each with the state of
            one process.
    """

    path: Path
    states: Sequence[LoaderState]
    missing: tuple[str, ...] = ()

    def check_complete(self) -> None:
        """Check that no process's state is missing.

        Raises:
            CheckpointError: some are missing. The message names their files.
        """
        if self.missing:
            raise CheckpointError(
                f"{shorten(self.path)} has no {first_few(self.missing)}, so the states of some "
                "processes are missing. Pass the folder of a complete checkpoint."
            )

    @property
    def step(self) -> int:
        """Largest step of the states."""
        return max(state.step for state in self.states)

    def __str__(self) -> str:
        first = self.states[0].identity.labelled
        lines = [f"{name}: {value}" for name, value in _summary(self.states).items()]
        lines += map(_describe_state, self.states)
        for part in ("source", "sampler"):
            values = (f"{name} {value}" for name, value in first[part].items())
            lines.append(f"{part}: {', '.join(values)}")
        sizes, operations = first["batch_sizes"], first["operations"]
        lines.append(
            f"operations: {len(operations)} ({', '.join(map(str, operations))}), batch sizes "
            f"{sizes}"
        )
        lines += [f"missing: {first_few(self.missing)}"] if self.missing else []
        return "\n  ".join([f"{self.path}:", *lines])

    def to_dict(self) -> dict[str, Any]:
        first = self.states[0]
        places = [(*state.shard, state.step, state.cursor.positions[0]) for state in self.states]
        return {
            "path": str(self.path),
            "step": self.step,
            "epoch": _joined(map(_epoch, self.states)),
            "records_seen": _records_seen(self.states),
            **{
                label.replace(" ", "_"): values
                for label, (_, values) in _kept(self.states).told.items()
            },
            "states": [
                dict(zip(("shard", "shards", "step", "local_position"), place)) for place in places
            ],
            "missing": list(self.missing),
            **first.identity.labelled,
        }


def inspect(options: argparse.Namespace) -> int:
    """Run the command `headrace checkpoint inspect`: print the checkpoints.

    Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        CheckpointError: after printing, if states of a checkpoint are missing; before, if there is
            no checkpoint, or a state cannot be read.
    """
    found = list(checkpoints(options.path))
    print(
        json.dumps([each.to_dict() for each in found])
        if options.json
        else "\n\n".join(map(str, found))
    )
    sys.stdout.flush()  # what is there is told before what is not
    for each in found:
        each.check_complete()
    return 0


def print_differences(options: argparse.Namespace) -> int:
    """Run the command `headrace checkpoint diff`.

    Return its exit status: 1 if the checkpoints differ, else 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        CheckpointError: a path has not exactly one complete checkpoint, or a state cannot be read.
    """
    changes = compared(options.one, options.two)
    if options.json:
        print(json.dumps({"same": not changes, "differences": changes}))
    else:
        print(*(changes or ["The checkpoints are the same."]), sep="\n")
    return 1 if changes else 0


def compared(one: Path, two: Path) -> list[str]:
    """Compare two checkpoints. Return a text for each difference; an empty list if none is found.

    Compared are places in the stream, histories, and descriptions of sources, orders and
    operations.

    Raises:
        CheckpointError: a path contains no checkpoint or several, or lacks the states of some
            processes; or a state cannot be read.
    """
    (first, second) = (states_at(path) for path in (one, two))
    changes = []
    for (name, before), after in zip(_summary(first).items(), _summary(second).values()):
        changes += [f"{name}: {before} → {after}"] if before != after else []
    if len(first) == len(second):
        for before, after in zip(map(_describe_state, first), map(_describe_state, second)):
            changes += [f"{before} → {after}"] if before != after else []
    if not changes and first[0].history != second[0].history:
        changes.append("order: what earlier runs left, or changed, is not the same")
    return changes + differences(first[0].identity.labelled, second[0].identity.labelled)


def states_at(path: Path, step: int | None = None) -> Sequence[LoaderState]:
    """Return the states of the checkpoint at a path: a file, or a folder with a file per process.

    Args:
        path: the path. With `step`, it may also be a folder of several checkpoints.
        step: of several checkpoints, use the last one that is not after this step; if all are after
            it, the first one. None: there must be only one.

    Raises:
        CheckpointError: there is no checkpoint, there are several, or the states of some processes
            are missing or cannot be read.
    """
    found = list(checkpoints(path))
    if step is not None:
        nearest = max(
            (each.step for each in found if each.step <= step),
            default=min(each.step for each in found),
        )
        found = [each for each in found if each.step == nearest]
    if len(found) != 1:
        paths = first_few([each.path for each in found])
        raise CheckpointError(
            f"{shorten(path)} contains {len(found)} checkpoints ({paths}). Pass the path of one of "
            "them."
        )
    found[0].check_complete()
    return found[0].states


def checkpoints(path: Path) -> Iterator[Checkpoint]:
    """Yield the checkpoints in the folder at a path and all folders in it, or the file there.

    Raises:
        CheckpointError: there is no checkpoint, or a state cannot be read.
    """
    if path.is_file():
        yield Checkpoint(path, [_read(path)])
        return
    files = sorted(file for file in path.rglob("process_*-of-*.json") if process_of(file))
    if not path.exists():
        raise CheckpointError(
            f"there is no file or folder {shorten(path)}. Pass the path of a saved state or "
            "checkpoint."
        )
    if not files:
        raise CheckpointError(
            f"{shorten(path)} contains no files process_<i>-of-<n>.json, which states are saved "
            "in. Pass the folder of a checkpoint, or a state file."
        )
    sets: dict[tuple[Path, int], list[Path]] = {}
    for file in files:
        sets.setdefault((file.parent, (process_of(file) or (0, 0))[1]), []).append(file)
    for (folder, count), members in sorted(
        sets.items(), key=lambda item: (_numbered(item[0][0]), item[0][1])
    ):
        states, there = (
            sorted(map(_read, members), key=lambda state: state.shard),
            set(map(process_of, members)),
        )
        names = (
            f"process_{index}-of-{count}.json"
            for index in range(count)
            if (index, count) not in there
        )
        yield Checkpoint(folder, states, tuple(islice(names, MOST_NAMED)))


def _numbered(path: Path) -> list[Any]:
    """Return a sort key for paths.

    Folders that are named by a number sort by its value: "9" before "10".
    """
    return [
        (not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in path.parts
    ]


def _read(file: Path) -> LoaderState:
    try:
        return LoaderState.from_json(file.read_bytes())
    except OSError as error:
        raise unreadable(file, error) from None
    except CheckpointError as error:
        raise CheckpointError(f"{shorten(file)}: {shorten(error, 400)}.") from None


def _summary(states: Sequence[LoaderState]) -> dict[str, str]:
    """Return facts about the states of a checkpoint in words.

    It is a dict of a subject, such as "epoch", to its value.
    """
    first, lineage = states[0], states[0].history.shards[0]
    earlier = [
        f"{len(layer)} shards"
        for layer in lineage.layers
        if isinstance(layer[0], int) and len(layer) > 1
    ]
    seen = f"{_records_seen(states):,}{', or left out' if first.kept.skipped else ''}"
    seen += (
        "" if len(states) == first.shard[1] else f", by {len(states)} of {first.shard[1]} shards"
    )
    return {
        "step": _joined(f"{state.step:,}" for state in states),
        "epoch": _joined(map(_epoch, states)),
        "records seen": seen,
        "shards": str(first.shard[1]),
        "order": f"what {', then '.join(earlier) or 'earlier runs'} left"
        if lineage.layers
        else "from the start",
        **{
            label: _joined(state.kept.told[label][0] for state in states)
            for label in first.kept.told
        },
    }


def _kept(states: Sequence[LoaderState]) -> Kept:
    """Return the values with which another number of shards resumes."""
    return Kept.of_shards([state.kept for state in sorted(states, key=lambda state: -state.step)])


def _records_seen(states: Sequence[LoaderState]) -> int:
    """Return how many records these shards and all earlier runs have read.

    Records of skipped steps count, too.
    """
    lineage = states[0].history.shards[0]
    return lineage.delivered + sum(state.cursor.positions[0] for state in states)


def _joined(words: Any) -> str:
    return ", ".join(dict.fromkeys(words))


def _epoch(state: LoaderState) -> str:
    """Return the epoch of a shard's next record, and its place there.

    For example "2 (at 31.5 %)", or "unknown".
    """
    sampler = state.identity.order
    records = sampler.get("records") or sampler.get("length")
    if type(records) is not int or not 0 < records < ENDLESS:
        return "unknown"
    shard, count = state.shard
    local = np.array([state.cursor.positions[0]], dtype=np.int64)
    within = state.history.shards[0].within_shard
    position = state.history.shards[0].positions(local if within else local * count + shard)
    epoch, place = divmod(int(position[0]) * (count if within else 1), records)
    # of a loop per epoch, where positions count from its beginning
    epoch += sampler.get("epoch", 0)
    return f"{epoch:,} (at {100 * place / records:.1f} %)"


def _describe_state(state: LoaderState) -> str:
    skips = "".join(f" + {skip}" for skip in state.cursor.skips if skip)
    place = f"step {state.step:,}, local position {state.cursor.positions[0]:,}{skips}"
    return f"shard {state.shard[0]} of {state.shard[1]}: {place}"
