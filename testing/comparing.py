"""Compare elements of streams completely: types, dtypes, shapes and bytes."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np

from ..common.fields import field_values


def comparable(element: Any) -> Any:
    """Return an element as nested tuples, which `==` compares completely.

    The result is hashable if all objects in it are.

    >>> comparable({"x": np.float32(1)}) == comparable({"x": np.float64(1)})
    False
    """
    if isinstance(element, (np.ndarray, np.generic)):
        array = np.asarray(element)
        content = comparable(array.tolist()) if array.dtype.hasobject else array.tobytes()
        return type(element).__name__, str(array.dtype), array.shape, content
    if isinstance(element, float):
        return "float", struct.pack("d", element)  # NaN is equal to itself
    if isinstance(element, (set, frozenset)):
        return type(element).__name__, tuple(sorted(map(repr, element)))
    if dataclasses.is_dataclass(element):
        return type(element).__name__, comparable(field_values(element))
    if isinstance(element, dict):
        return type(element).__name__, tuple(
            (name, comparable(value)) for name, value in element.items()
        )
    if isinstance(element, (list, tuple)):
        return type(element).__name__, tuple(map(comparable, element))
    return type(element).__name__, element


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    """Raise AssertionError with the index of the first difference, unless two lists are equal."""
    for index, (one, other) in enumerate(zip(found, expected)):
        assert comparable(one) == comparable(other), f"element {index} is {one!r}, not {other!r}"
    assert len(found) == len(expected), f"{len(found)} elements come, not {len(expected)}"
