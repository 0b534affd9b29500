"""The first place at which two streams have other records: appended ones, or without some.

In: what fingerprints say of two orders. Out: the position, and words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, History, OrderChange
from ...samplers.changing.sampler import lasting


class RecordsDifference(NamedTuple):
    """The first difference of the records of two orders."""

    position: int
    told: str  # in words


def records_difference(one: Mapping[str, Any], two: Mapping[str, Any]) -> RecordsDifference | None:
    """Compares two fingerprints of samplers. Returns None where nothing was appended or left out, or where else they differ."""
    known = {HISTORY, OMITTED, GENERATION}
    if not known & {*one, *two} or lasting(one) != lasting(two) or one == two:
        return None
    first, second = (_all_of(History.of(each)) for each in (one, two))
    same = next((at for at, pair in enumerate(zip(first, second)) if pair[0] != pair[1]), min(len(first), len(second)))
    position = min(each[same].position for each in (first, second) if same < len(each))
    before, after = (each[min(same, len(each) - 1)] for each in (first, second))
    parts = []
    if before.generation != after.generation:
        parts.append(f"generation {before.generation} → {after.generation}")
    if before.records != after.records:
        parts.append(f"records {before.records:,} → {after.records:,}")
    if before.omitted != after.omitted:
        parts.append(f"left out {_count(before)} → {_count(after)}")
    told = ", ".join(parts) or "changes at other positions"
    return RecordsDifference(position, f"{told} from position {position:,} on")


def _all_of(history: History) -> list[OrderChange]:
    return [history.first(0).last, *history.changes]


def _count(change: OrderChange) -> str:
    return change.omitted.split()[0] if change.omitted else "0"
