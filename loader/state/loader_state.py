"""The state that a checkpoint keeps.

In: a place in the stream and the identity of the pipeline. Out: JSON of a few hundred bytes, and back.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from ...common.former_names import now_called
from ...common.messages import short_repr
from ...errors import CheckpointError
from ..plan.cursor import Cursor, Leftover
from ..plan.fingerprint import FINGERPRINT_VERSIONS, Fingerprint, json_text
from ..plan.lineage import ReshardHistory
from ..plan.steps.skipped import NONE_SKIPPED, SkippedSteps
from . import version1
from .checksum import sealed, unsealed

VERSION = 2

MAX_STEP = 1 << 62
"""No stream gets so far: a larger step is that of a damaged state."""


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The plain values that are saved."""

    cursor: Cursor  # where the user stands, never where a prefetch has got to
    step: int  # number of the batch that comes next: so many were received, or left out on purpose, in all runs
    shard: tuple[int, int]  # `(shard_index, shard_count)` that the position counts in
    fingerprint: Fingerprint  # of source, sampler and operations
    lineages: tuple[ReshardHistory, ...] = (
        ReshardHistory(),
    )  # for each leaf: what runs on other shards left of the order
    skipped: SkippedSteps = NONE_SKIPPED  # steps that the run leaves out
    version: int = VERSION  # of this layout

    def to_json(self) -> bytes:
        """The state as UTF-8 JSON, with sorted keys: equal states give equal bytes.

        May be asked for at every step: what does not change in a run is text already.
        """
        cursor = self.cursor
        positions, skips = (",".join(map(str, numbers)) for numbers in (cursor.positions, cursor.skips))
        notes = f",{json_text(cursor.notes)}" if cursor.notes else ""
        lineages = ",".join(lineage.json for lineage in self.lineages)
        skipped = json_text([self.skipped.steps, self.skipped.absorbed]) if self.skipped else "[[],[]]"
        unfinished = ",".join(json_text(_rest_values(rest)) for rest in cursor.unfinished)
        content = (
            f'{{"cursor":[[{positions}],[{skips}]{notes}],"fingerprint":{self.fingerprint.json},"lineages":[{lineages}],'
            f'"shard":[{self.shard[0]},{self.shard[1]}],"skipped":{skipped},"step":{self.step},"unfinished":[{unfinished}],'
            f'"version":{self.version}}}'
        )
        return sealed(content.encode())

    def to_dict(self) -> dict[str, Any]:
        """The state as plain JSON values."""
        values: dict[str, Any] = json.loads(self.to_json())
        return values

    @classmethod
    def from_json(cls, data: bytes | str, like: LoaderState | None = None) -> LoaderState:
        """Read what `to_json` wrote; `like`, another state of the same run, saves to read the same lineage again.

        Raises:
            CheckpointError: the bytes are no such state.
        """
        if isinstance(data, dict):
            _refuse_grains(data)
            raise CheckpointError(
                f"the state is a dict, {short_repr(data)}; pass the bytes that get_state() gave, or json.dumps(state).encode()."
            )
        try:
            values = json.loads(data)
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"the state is not JSON ({error}): {short_repr(data)}; pass the bytes that get_state() gave."
            ) from None
        return cls.from_dict(values, like)

    @classmethod
    def from_dict(cls, values: Any, like: LoaderState | None = None) -> LoaderState:
        """Read what `to_dict` gave.

        Raises:
            CheckpointError: the values are no such state.
        """
        _refuse_grains(values)
        if isinstance(values, dict) and values.get("version") == 1 and set(values) == version1.NAMES:
            values = version1.upgraded(values)
        if isinstance(values, dict) and values.get("version", VERSION) != VERSION:
            raise CheckpointError(
                f"the state has version {short_repr(values['version'])}, this headrace reads versions up to {VERSION}; "
                "use the headrace that wrote it."
            )
        content = unsealed(values) if isinstance(values, dict) else {}
        if set(content) != NAMES:
            raise CheckpointError(f"this is not the state of a headrace loader: {short_repr(values)}.")
        values = content
        cursor, shard, step, lineages = (values[name] for name in ("cursor", "shard", "step", "lineages"))
        whole = _is_place(cursor, shard, lineages) and _are_counts([step]) and step < MAX_STEP
        if not whole or not isinstance(values["fingerprint"], dict):
            raise _damaged(cursor=cursor, shard=shard, step=step)
        _check_fingerprint(values["fingerprint"])
        known = like is not None and lineages == [lineage.values for lineage in like.lineages]
        read = like.lineages if like is not None and known else tuple(map(ReshardHistory.from_values, lineages))
        place = _cursor(cursor)._replace(unfinished=_rests(values["unfinished"]))
        fingerprint = Fingerprint({**values["fingerprint"], "sampler": now_called(values["fingerprint"]["sampler"])})
        return cls(place, step, (shard[0], shard[1]), fingerprint, read, _skipped(values["skipped"]))


NAMES = {*(part.name for part in dataclasses.fields(LoaderState)), "unfinished"}


def _damaged(**parts: Any) -> CheckpointError:
    return CheckpointError(f"the state is damaged: {', '.join(f'{part}={short_repr(parts[part])}' for part in parts)}.")


def _refuse_grains(values: Any) -> None:
    """Raise for a state of Grain's."""
    if not isinstance(values, dict):
        return
    if "last_seen_indices" in values:
        raise CheckpointError(
            "this is the state of a Grain DataLoader; headrace.checkpoint.from_grain_state(state, loader) goes on with it."
        )
    if "next_index" in values:
        taken = short_repr(values["next_index"], 24)
        raise CheckpointError(
            f"this is the state of a Grain dataset, of which {taken} elements were taken; where the loader has the same order, "
            f"loader.skip([(0, {taken})]) leaves them out."
        )


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values)


def _is_place(cursor: Any, shard: Any, lineages: Any) -> bool:
    """True if these are a position for each of the leaves, a skip for each of the stages, notes of joins, and a shard."""
    return _is_cursor(cursor, shard) and isinstance(lineages, list) and len(lineages) == len(cursor[0])


def _is_cursor(cursor: Any, shard: Any) -> bool:
    if not isinstance(cursor, list) or len(cursor) not in (2, 3):
        return False
    positions, skips, notes = cursor if len(cursor) == 3 else (*cursor, [])
    whole = _are_counts(positions) and _are_counts(skips) and _are_counts(shard)
    whole = whole and isinstance(notes, list) and all(map(_is_note, notes))
    return whole and 0 < len(positions) <= len(skips) and _is_shard(shard)


def _is_note(values: Any) -> bool:
    """Numbers; those of a source that can only be run through end with its state."""
    return isinstance(values, list) and _are_counts([value for value in values if not isinstance(value, str)])


def _is_shard(shard: list[int]) -> bool:
    return len(shard) == 2 and shard[0] < shard[1]


def _cursor(values: list[Any]) -> Cursor:
    return Cursor(tuple(values[0]), tuple(values[1]), tuple(tuple(note) for notes in values[2:] for note in notes))


def _place_values(cursor: Cursor) -> list[Any]:
    """Plain JSON values of a cursor; nothing is said of joins where there are none."""
    return [cursor.positions, cursor.skips, *([cursor.notes] if cursor.notes else [])]


def _rest_values(rest: Leftover) -> list[Any]:
    """Plain JSON values of what is unfinished; nothing is said of the stage where states of before knew none."""
    lineages = [lineage.values for lineage in rest.lineages]
    within = list(map(_rest_values, rest.cursor.unfinished))
    more = [within, rest.mix] if rest.mix else [within] if within else []
    stage = [] if rest.stage is None else [rest.stage, *more]
    return [list(rest.shard), _place_values(rest.cursor), lineages, rest.delivered, *stage]


def _rests(values: Any) -> tuple[Leftover, ...]:
    """Read what `_rest_values` gave."""
    if not isinstance(values, list):
        raise _damaged(unfinished=values)
    return tuple(map(_rest, values))


def _rest(values: Any) -> Leftover:
    whole = isinstance(values, list) and 4 <= len(values) <= 7 and _is_cursor(values[1], values[0])
    whole = whole and isinstance(values[2], list) and all(isinstance(mix, str) for mix in values[6:])
    if not whole or not _are_counts(values[3:5]):
        raise _damaged(unfinished=values)
    shard, place, lineages, delivered, *stage = values
    cursor = _cursor(place)._replace(unfinished=_rests(stage[1]) if len(stage) > 1 else ())
    read = tuple(map(ReshardHistory.from_values, lineages))
    return Leftover((shard[0], shard[1]), cursor, read, delivered, stage[0] if stage else None, *stage[2:])


def _skipped(values: Any) -> SkippedSteps:
    if not isinstance(values, list) or len(values) != 2:
        raise _damaged(skipped=values)
    return SkippedSteps(_ranges(values[0]), _ranges(values[1]))


def _ranges(values: Any) -> tuple[tuple[int, int], ...]:
    try:
        ranges = tuple((start, stop) for start, stop in values)
        edges = [edge for pair in ranges for edge in pair]
    except (TypeError, ValueError):
        edges = [None]
    if not _are_counts(edges) or sorted(set(edges)) != edges:
        raise _damaged(skipped=values)
    return ranges


def _check_fingerprint(parts: dict[str, Any]) -> None:
    sizes: Any = parts.get("batch_sizes")
    if parts.get("version", 1) not in FINGERPRINT_VERSIONS:
        raise CheckpointError(
            f"the state's fingerprint has version {short_repr(parts['version'])}, this headrace reads versions "
            f"{FINGERPRINT_VERSIONS}; use the headrace that wrote it."
        )
    whole = _are_counts(sizes) and 0 not in sizes and isinstance(parts.get("operations"), list)
    if not whole or not {"source", "sampler"} <= set(parts):
        raise _damaged(fingerprint=parts)
