"""Describe a value in JSON values that are the same in every process, on every machine and Python.

Descriptions and their digests identify operations, samplers and sources in a state. They contain no
`repr` with an address, and no bytecode. Names come without their module, since the same file may be
`__main__` in one run and a module in the next.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import json
import operator
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

MAX_DEPTH = 6

MAX_ITEMS = 32  # A tuple in a closure, or a record, is looked at so far
MAX_BYTES = 4096  # So much of an array in a record is looked at


def digest(description: Any, length: int) -> str:
    """Return a digest of a description, as `length` hexadecimal digits."""
    text = json.dumps(description, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def digest_of(*arrays: np.ndarray[Any, Any]) -> str:
    """Return a digest of all values of plain arrays, 16 hexadecimal digits."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"{array.dtype.str} {array.shape}".encode())
        hashed.update(np.ascontiguousarray(array).data.cast("B"))
    return hashed.hexdigest()[:16]


def described(value: Any, depth: int = 0) -> Any:
    """Describe an operation, or a parameter of one, in JSON values: its kind, name and attributes.

    Of an object that cannot be called, only plain attributes are described. An object may have a
    method `identity_parameters()` that returns its parameters.

    Args:
        value: the operation or parameter.
        depth: number of objects that contain it; at 6, an object or container is described by its
            class only.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, np.ndarray, np.generic)):
        array = np.asarray(value)
        return _array(
            array, b"" if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
        )
    if isinstance(value, type):
        return str(value.__qualname__)
    if _is_function(value):
        return _function(value, depth)
    kind = type(value).__qualname__
    if depth == MAX_DEPTH:
        return kind
    if isinstance(value, dict):
        return {str(key): described(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item, depth + 1) for item in value]
    if isinstance(value, functools.partial):
        return [
            kind,
            *(described(part, depth + 1) for part in (value.func, value.args, value.keywords)),
        ]
    if hasattr(type(value), "identity_parameters") or callable(value):
        return _object(value, depth)
    inner = plain_attributes(value)
    return [kind, inner] if inner else kind


def described_with_all_attributes(value: Any) -> Any:
    """Describe a value like `described`, with all attributes of an object, not only plain ones."""
    return _object(value, 0) if hasattr(value, "__dict__") or _in_slots(value) else described(value)


def _object(value: Any, depth: int) -> Any:
    kind, own = type(value).__qualname__, getattr(type(value), "identity_parameters", None)
    if isinstance(value, _GETTERS):
        return [kind, _getter(value)]
    attributes = [
        kind,
        described(_in_dict(value) if own is None else own(value), depth + 1),
    ]
    slots = described(_in_slots(value), depth + 1) if own is None else {}
    return [*attributes, slots] if slots else attributes


_UNSET = object()
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def _getter(value: Any) -> Any:
    """Return the arguments of an `operator.itemgetter` or a similar object."""
    # Such an object has no attributes to describe.
    return _inside(value.__reduce__()[1], MAX_DEPTH)


def _array(array: Any, content: bytes) -> list[Any]:
    return [str(array.dtype), list(array.shape), hashlib.sha256(content).hexdigest()[:16]]


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__qualname__")


def _function(function: Callable[..., Any], depth: int) -> Any:
    """Describe a function by name, defaults and variables of its closure that it does not assign.

    A method is also described by its object.

    Args:
        function: the function.
        depth: number of objects that contain it.
    """
    name = str(function.__qualname__)
    parts = (
        {}
        if depth >= MAX_DEPTH
        else {key: _inside(part, depth + 1) for key, part in _parts_of(function)}
    )
    return [name, parts] if parts else name


def _parts_of(function: Any) -> Iterator[tuple[str, Any]]:
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        yield "self", owner
    function = getattr(function, "__func__", function)
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    if code is None and hasattr(function, "__wrapped__"):
        yield "wrapped", function.__wrapped__
    if code is None:
        return
    if function.__defaults__:
        yield "defaults", function.__defaults__
    for name, default in sorted((function.__kwdefaults__ or {}).items()):
        yield f"{name}=", default
    counted = _rebound(code) if cells else frozenset()
    for name, cell in zip(code.co_freevars, cells):
        # an empty one, of a name that got no value yet
        if name not in counted and cell != type(cell)():
            yield name, cell.cell_contents


def _rebound(code: Any) -> frozenset[str]:
    """Return the names of the closure variables to which a function's code assigns a value.

    For example, `count` of `nonlocal count; count += 1`. Their values change from call to call, so
    they are left out of the description of the function.
    """
    return frozenset(
        step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"
    )


def _inside(value: Any, depth: int) -> Any:
    """Describe a value in a closure or in defaults.

    Lists, dicts and arrays may change, so they are described by their class only.

    Args:
        value: the value.
        depth: number of objects that contain it.
    """
    if isinstance(value, tuple) and len(value) <= MAX_ITEMS and depth <= MAX_DEPTH:
        return [_inside(item, depth + 1) for item in value]
    if _is_plain(value):
        return _plain(value)
    if isinstance(value, (type, functools.partial)) or _is_function(value):
        return described(value, depth)
    kind = type(value).__qualname__
    inner = plain_attributes(value)
    return [kind, inner] if inner else kind


def plain_attributes(value: Any) -> dict[str, Any]:
    """Return a dict of the plain attributes of a value.

    They are numbers, strings, bytes, None, enum members, or small tuples of these.

    Empty for modules and for objects of the standard library.
    """
    if (
        isinstance(value, ModuleType)
        or type(value).__module__.partition(".")[0] in sys.stdlib_module_names
    ):
        return {}
    found = {**_in_slots(value), **_in_dict(value)}
    return {name: _plain(item) for name, item in found.items() if _is_plain(item)}


def _in_dict(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", None) or {}


def _in_slots(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in _slots_of(kind)]
    held = {name: getattr(value, name, _UNSET) for name in slots}
    return {name: item for name, item in held.items() if item is not _UNSET}


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) <= MAX_ITEMS and all(
            not isinstance(item, tuple) and _is_plain(item) for item in value
        )
    if isinstance(value, np.generic):
        return not value.dtype.hasobject
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, enum.Enum))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return [type(value).__qualname__, value.name]
    return str(value) if isinstance(value, complex) else described(value)


def record(value: Any, depth: int = 0) -> Any:
    """Describe a record cheaply in JSON values: the first 32 items of containers, 4 kB of arrays.

    Args:
        value: the record.
        depth: number of containers that contain it; at 6, a container or object is described by its
            class only.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _array(
            value,
            np.ascontiguousarray(value.ravel()[: MAX_BYTES // max(value.itemsize, 1)]).tobytes(),
        )
    if _is_plain(value):
        return _plain(value)
    kind = type(value).__qualname__
    if depth == MAX_DEPTH:
        return kind
    if isinstance(value, dict):
        return [
            len(value),
            {str(key): record(value[key], depth + 1) for key in list(value)[:MAX_ITEMS]},
        ]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [len(value), [record(item, depth + 1) for item in value[:MAX_ITEMS]]]
    return [kind, plain_attributes(value)]
