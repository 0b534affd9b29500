"""Finds what in a value cannot be pickled.

In: a value that could not be pickled. Out: a sentence that names the attribute, item or variable at fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle

from ....wording import brief, shown

MAX_DEPTH = 20


def culprit(value: Any, name: str, depth: int = 0) -> str:
    """Which part of `value`, called `name`, cannot be pickled."""
    for label, part in _parts(value) if depth < MAX_DEPTH else ():
        try:
            cloudpickle.dumps(part)
        except Exception:
            return culprit(part, f"{name}{label}", depth + 1)
    return f"{brief(name, 150)} is a {type(value).__qualname__}, which cannot be pickled"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What pickling a value would pickle, as far as it can be named."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        yield from ((f"[{shown(key)}]", item) for key, item in value.items())
    yield from _parts_of_function(value)
    if not isinstance(value, type):
        yield from ((f".{attribute}", item) for attribute, item in getattr(value, "__dict__", {}).items())


def _parts_of_function(value: Any) -> Iterator[tuple[str, Any]]:
    code, closure = getattr(value, "__code__", None), getattr(value, "__closure__", None)
    for variable, cell in zip(getattr(code, "co_freevars", ()), closure or ()):
        yield f", variable {variable!r},", cell.cell_contents
    names = getattr(code, "co_names", ())
    variables = getattr(value, "__globals__", {})
    for variable in names:
        if variable in variables and not callable(variables[variable]):
            yield f", global {variable!r},", variables[variable]
