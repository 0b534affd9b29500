"""States of version 1, which knew one leaf: the same, as version 2 says it.

In: the plain values of such a state. Out: those of version 2. What is damaged stays damaged, for `LoaderState` to find.
"""

from __future__ import annotations

from typing import Any

NAMES = {"cursor", "fingerprint", "left_out", "lineage", "shard", "step", "unfinished", "version"}


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """A state, given by its plain values."""
    lineage, absorbed = _lineage(values["lineage"])
    rests = values["unfinished"]
    return {
        "cursor": _cursor(values["cursor"]),
        "fingerprint": values["fingerprint"],
        "lineages": [lineage],
        "shard": values["shard"],
        "skipped": [values["left_out"], absorbed],
        "step": values["step"],
        "unfinished": list(map(_unfinished, rests)) if isinstance(rests, list) else rests,
        "version": 2,
    }


def _cursor(values: Any) -> Any:
    """The position stood before the skips."""
    return [values[:1], values[1:]] if isinstance(values, list) and len(values) > 1 else None


def _lineage(values: Any) -> tuple[Any, Any]:
    """A lineage, and the steps that it left out, which stood within it."""
    if not isinstance(values, list) or len(values) != 6:
        return values, []
    return [*values[:3], *values[4:]], values[3]


def _unfinished(values: Any) -> Any:
    if not isinstance(values, list) or len(values) != 4:
        return values
    shard, cursor, lineage, delivered = values
    return [shard, _cursor(cursor), [_lineage(lineage)[0]], delivered]
