"""Digest of a function, for cached results.

It changes when the code changes, or most of what the code refers to.

It covers the code, constants, defaults, the closure, globals that the code names, functions and
classes of the function's own module, and attributes of objects. Functions and classes of other
modules count by name only, and objects that are nested too deep by the name of their class.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .values import described

_DEPTH = 6
"""Depth to which nested objects are described.

Deeper objects are described by the name of their class only.
"""


def function_identity(function: Any) -> str:
    """Return the digest of a function, 16 hexadecimal digits.

    >>> scale = 2
    >>> identity = function_identity(lambda text: scale * len(text))
    >>> identity == function_identity(lambda text: len(text))
    False
    """
    said = json.dumps(
        _Told(getattr(function, "__module__", None)).of(function), sort_keys=True, default=_kind
    )
    return hashlib.sha256(said.encode()).hexdigest()[:16]


class _Told:
    """Describes a function, and the objects to which it refers, in plain values.

    Args:
        module: name of the function's module. Functions and classes of this module are described by
            their code.
    """

    def __init__(self, module: str | None) -> None:
        self._module = module
        self._begun: set[int] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        """Describe a function, an object or a constant in plain values.

        An object that was described before, or is nested too deep, is described by its class only.

        Args:
            value: the object.
            depth: number of objects that contain it.
        """
        if value is None or isinstance(
            value, (bool, int, float, str, bytes, np.ndarray, np.generic)
        ):
            return described(value)
        if isinstance(value, ModuleType):
            return value.__name__
        if depth > _DEPTH or id(value) in self._begun:
            return _kind(value)
        self._begun.add(id(value))
        return self._inside(value, depth + 1)

    def _inside(self, value: Any, depth: int) -> Any:
        if isinstance(value, CodeType):
            return (
                value.co_code.hex(),
                value.co_names,
                [self.of(constant, depth) for constant in value.co_consts],
            )
        if isinstance(value, (type, FunctionType)) and value.__module__ != self._module:
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, FunctionType):
            parts = [value.__code__, value.__defaults__, value.__kwdefaults__, *_referred(value)]
            return [self.of(part, depth) for part in parts]
        if isinstance(value, type):
            return [
                value.__qualname__,
                *(self.of(part, depth) for part in vars(value).values() if callable(part)),
            ]
        if isinstance(value, MethodType):
            return [self.of(value.__self__, depth), self.of(value.__func__, depth)]
        if isinstance(value, functools.partial):
            return [self.of(part, depth) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, dict):
            return [[self.of(key, depth), self.of(item, depth)] for key, item in value.items()]
        if isinstance(value, (list, tuple)):
            return [self.of(item, depth) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted(json.dumps(self.of(item, depth), default=_kind) for item in value)
        own = getattr(value, "__dict__", None)
        return [self.of(type(value), depth), self.of(own, depth) if own else _pickled(value)]


def _referred(function: FunctionType) -> Iterator[Any]:
    """Yield objects in a function's closure, and globals that its code names (None if missing)."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            yield None
    for name in _names(function.__code__):
        yield function.__globals__.get(name)


def _names(code: CodeType) -> list[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return [*code.co_names, *(name for each in inner for name in _names(each))]


def _pickled(value: Any) -> str:
    """Return a digest of an object's pickle, or "" if it cannot be pickled."""
    # For objects that are not written in Python.
    try:
        return hashlib.sha256(pickle.dumps(value, 4)).hexdigest()
    except Exception:
        return ""


def _kind(value: Any) -> str:
    return type(value).__qualname__
