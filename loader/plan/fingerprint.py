"""The identity of a pipeline, in plain JSON values, and what two of them differ in.

In: fingerprints. Out: JSON text; differences in words.
"""

from __future__ import annotations

import json
from functools import cached_property
from itertools import chain
from typing import Any

from ...common.messages import short_repr

FINGERPRINT_VERSIONS = (1, 2)
"""Of the fingerprint in a state; version 1 does not name itself."""


class Fingerprint(dict[str, Any]):
    """The identity of source, sampler and operations, by name. Does not change."""

    @cached_property
    def json(self) -> str:
        """It as JSON text."""
        return _json(self)


def _json(values: Any) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def differences(saved: dict[str, Any], present: dict[str, Any]) -> list[str]:
    """What two fingerprints differ in, in words; the saved value comes first.

    >>> differences({"source": {"records": 60000}}, {"source": {"records": 59999}})
    ['source: records 60000 → 59999']
    """
    found = []
    for part in sorted(set(saved) | set(present)):
        found += _differences_of(part, saved.get(part), present.get(part))
    return found


def _differences_of(part: str, saved: Any, present: Any) -> list[str]:
    if saved == present:
        return []
    if isinstance(saved, dict) and isinstance(present, dict):
        names = sorted(set(saved) | set(present), key=str)
        found = (_differences_in(part, name, saved.get(name), present.get(name)) for name in names)
        return list(chain.from_iterable(found))
    if isinstance(saved, list) and isinstance(present, list):
        if len(saved) != len(present):
            return [f"{part}: {len(saved)} → {len(present)}"]
        return [
            f"{part}: number {index} changed" for index, pair in enumerate(zip(saved, present)) if pair[0] != pair[1]
        ]
    return [f"{part}: {short_repr(saved)} → {short_repr(present)}"]


def _differences_in(part: str, name: str, saved: Any, present: Any) -> list[str]:
    """Those of one value of a dict."""
    if isinstance(saved, dict) and isinstance(present, dict):
        return _differences_of(f"{part}: {name}", saved, present)
    if isinstance(saved, list) and isinstance(present, list) and len(saved) == len(present) and saved != present:
        pairs = enumerate(zip(saved, present))
        return list(chain.from_iterable(_differences_in(part, f"{name} {index}", *pair) for index, pair in pairs))
    return [] if saved == present else [f"{part}: {name} {short_repr(saved)} → {short_repr(present)}"]
