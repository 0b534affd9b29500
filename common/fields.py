"""Read and replace the fields of named tuples, dataclasses and mappings."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any, TypeVar

DICTS = (dict, OrderedDict, defaultdict)
"""Mapping classes that are used as tree nodes without conversion to a dict."""

Named = TypeVar("Named", bound=tuple[Any, ...])


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a named tuple, dataclass or mapping as a dict, or None.

    The result is None for other values, for a dataclass itself (not an object of it), and for a
    `dict`, `OrderedDict` or `defaultdict`, which need no conversion.

    >>> from typing import NamedTuple
    >>> fields_of(NamedTuple("Pair", [("x", int), ("y", int)])(1, 2)), fields_of((1, 2))
    ({'x': 1, 'y': 2}, None)
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return dict(value) if isinstance(value, Mapping) and type(value) not in DICTS else None


def replaced(value: Named, **changes: Any) -> Named:
    """Return a copy of a named tuple with other values in some fields.

    For dataclasses, use `dataclasses.replace`.

    >>> from typing import NamedTuple
    >>> replaced(NamedTuple("Pair", [("x", int), ("y", int)])(1, 2), y=3)
    Pair(x=1, y=3)
    """
    return type(value)(**{**(fields_of(value) or {}), **changes})
