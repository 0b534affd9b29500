"""Records with named fields that are no dicts. In: any value. Out: what a named tuple or a dataclass holds, by name."""

from __future__ import annotations

import dataclasses
from typing import Any


def fields_of(value: Any) -> dict[str, Any] | None:
    """What a named tuple or a dataclass holds, by name; None for anything else.

    >>> from typing import NamedTuple
    >>> fields_of(NamedTuple("Pair", [("x", int), ("y", int)])(1, 2)), fields_of((1, 2))
    ({'x': 1, 'y': 2}, None)
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return None
