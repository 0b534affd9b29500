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
    if is_named_tuple(type(value)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        return field_values(value)
    return dict(value) if isinstance(value, Mapping) and type(value) not in DICTS else None


def is_named_tuple(kind: type) -> bool:
    """Return True if a class is one of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def field_values(record: Any) -> dict[str, Any]:
    """Return the fields of a named tuple or dataclass as a dict, without copying the values."""
    if is_named_tuple(type(record)):
        return dict(zip(type(record)._fields, record))
    return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}


def replaced(value: Named, **changes: Any) -> Named:
    """Return a copy of a named tuple with other values in some fields.

    For dataclasses, use `dataclasses.replace`.

    >>> from typing import NamedTuple
    >>> replaced(NamedTuple("Pair", [("x", int), ("y", int)])(1, 2), y=3)
    Pair(x=1, y=3)
    """
    return type(value)(**{**(fields_of(value) or {}), **changes})
