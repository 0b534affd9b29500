"""Checkpoints in words.

In: paths of state files, or of folders with them, as Orbax writes them. Out: lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError
from ..loader.plan.fingerprint import differences
from ..loader.plan.steps.ranges import union
from ..loader.state.files import process_of, unreadable
from ..loader.state.loader_state import LoaderState
from ..samplers.protocol import ENDLESS
from ..wording import brief, first_few


def inspected(path: Path) -> Iterator[str]:
    """Each checkpoint under a path, described."""
    for number, (place, states) in enumerate(_checkpoints(path)):
        yield from ("", f"{place}:") if number else (f"{place}:",)
        yield from (f"  {line}" for line in _described(states))


def compared(one: Path, two: Path) -> list[str]:
    """What two checkpoints differ in, one line for each difference.

    Raises:
        CheckpointError: a path holds several checkpoints.
    """
    (first, second) = (states_at(path) for path in (one, two))
    changes = []
    for name, before, after in zip(_SUMMARY, _summary(first), _summary(second)):
        changes += [f"{name}: {before} → {after}"] if before != after else []
    if len(first) == len(second):
        for one_state, two_state in zip(first, second):
            before, after = _told(one_state), _told(two_state)
            changes += [f"{before} → {after}"] if before != after else []
    if not changes and first[0].lineages != second[0].lineages:
        changes.append("order: what earlier runs left is not the same")
    return changes + differences(first[0].fingerprint, second[0].fingerprint)


def states_at(path: Path, step: int | None = None) -> Sequence[LoaderState]:
    """The states of the checkpoint at a path: a file, or a folder that holds one for each process.

    Args:
        path: as above; with `step` also a folder of several checkpoints.
        step: of these the last one that is not after it; the first one, if all are.

    Raises:
        CheckpointError: there is none, or there are several.
    """
    found = list(_checkpoints(path))
    if step is not None:
        before = [_step(states) for _, states in found if _step(states) <= step]
        nearest = max(before, default=min(_step(states) for _, states in found))
        found = [(place, states) for place, states in found if _step(states) == nearest]
    if len(found) != 1:
        places = first_few([place for place, _ in found])
        raise CheckpointError(f"{brief(path)} holds {len(found)} checkpoints ({places}); pass the path of one.")
    return found[0][1]


def _step(states: Sequence[LoaderState]) -> int:
    return max(state.step for state in states)


def _checkpoints(path: Path) -> Iterator[tuple[Path, Sequence[LoaderState]]]:
    """The folders under a path that hold states, or the one file that it is."""
    if path.is_file():
        yield path, [_read(path)]
        return
    files = sorted(file for file in path.rglob("process_*-of-*.json") if process_of(file))
    if not files:
        raise CheckpointError(
            f"{brief(path)} holds no process_<i>-of-<n>.json; pass a file, or the folder of a checkpoint."
        )
    sets: dict[tuple[Path, int], list[Path]] = {}
    for file in files:
        sets.setdefault((file.parent, (process_of(file) or (0, 0))[1]), []).append(file)
    for (folder, _), members in sorted(sets.items(), key=lambda item: (_numbered(item[0][0]), item[0][1])):
        yield folder, sorted((_read(file) for file in members), key=lambda state: state.shard)


def _numbered(path: Path) -> list[Any]:
    """A key that sorts step 10 after step 9."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in path.parts]


def _read(file: Path) -> LoaderState:
    try:
        return LoaderState.from_json(file.read_bytes())
    except OSError as error:
        raise unreadable(file, error) from None
    except CheckpointError as error:
        raise CheckpointError(f"{brief(file)}: {brief(error, 400)}") from None


def _described(states: Sequence[LoaderState]) -> Iterator[str]:
    first = states[0]
    for name, value in zip(_SUMMARY, _summary(states)):
        yield f"{name}: {value}"
    for state in states:
        yield _told(state)
    if len(states) not in (1, first.shard[1]):
        yield f"missing: the states of {first.shard[1] - len(states)} shards"
    for part in ("source", "sampler"):
        yield f"{part}: {_values(first.fingerprint.get(part))}"
    sizes = first.fingerprint.get("batch_sizes") or []
    operations = first.fingerprint.get("operations") or []
    yield f"operations: {len(operations)} ({', '.join(map(str, operations))}), batch sizes {sizes}"


_SUMMARY = ("step", "epoch", "records seen", "shards", "order", "left out")


def _summary(states: Sequence[LoaderState]) -> tuple[str, ...]:
    """The values of `_SUMMARY`."""
    first, lineage = states[0], states[0].lineages[0]
    before = lineage.total - lineage.length(0) if lineage.layers else 0
    seen = before + sum(state.cursor.positions[0] for state in states)
    earlier = [f"{len(layer)} shards" for layer in lineage.layers if isinstance(layer[0], int) and len(layer) > 1]
    steps = _joined(f"{state.step:,}" for state in states)
    left_out = [f"{start:,} to {stop - 1:,}" for start, stop in union((*first.skipped.absorbed, *first.skipped.steps))]
    whole = f"{seen:,}{', or left out' if left_out else ''}"
    whole += "" if len(states) == first.shard[1] else f", by {len(states)} of {first.shard[1]} shards"
    return (
        steps,
        _joined(map(_epoch, states)),
        whole,
        str(first.shard[1]),
        "from the start" if not lineage.layers else f"what {', then '.join(earlier) or 'earlier runs'} left",
        f"steps {', '.join(left_out)}" if left_out else "nothing",
    )


def _joined(words: Any) -> str:
    """The words, each once."""
    return ", ".join(dict.fromkeys(words))


def _epoch(state: LoaderState) -> str:
    """Epoch, and place in it, of the record that a shard reads next."""
    sampler = state.fingerprint.get("sampler") or {}
    records = sampler.get("records") or sampler.get("length") if isinstance(sampler, dict) else None
    if type(records) is not int or not 0 < records < ENDLESS:
        return "unknown"
    shard, count = state.shard
    local = np.array([state.cursor.positions[0]], dtype=np.int64)
    within = state.lineages[0].within_shard
    position = state.lineages[0].positions(local if within else local * count + shard)
    epoch, place = divmod(int(position[0]) * (count if within else 1), records)
    epoch += sampler.get("epoch", 0)  # of a loop per epoch, where positions count from its beginning
    return f"{epoch:,} (at {100 * place / records:.1f} %)"


def _told(state: LoaderState) -> str:
    skips = "".join(f" + {skip}" for skip in state.cursor.skips if skip)
    place = f"step {state.step:,}, local position {state.cursor.positions[0]:,}{skips}"
    return f"shard {state.shard[0]} of {state.shard[1]}: {place}"


def _values(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    return ", ".join(f"{name} {value}" for name, value in part.items())
