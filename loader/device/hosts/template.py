"""Write the structure of a batch as text that other processes can read.

In: a tree of arrays without rows. Out: JSON text; and from this text the tree again.

The text comes over a network, so it names no code to run. Arrays are written as numbers, and dtypes
by their NumPy names. Classes of the user must be named tuples or dataclasses, in modules that this
process has imported.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ....common.fields import field_values, is_named_tuple
from ....common.messages import a_kind_of, short_repr
from ....errors import HostsError
from ....operations.trees import is_leaf

_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "deque": deque}
_FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (int, float, bool, str, list, tuple, dict, set)
}
"""Types that may be the default factory of a `defaultdict`, by name."""


def to_text(tree: Any) -> str:
    """Convert a tree of arrays to JSON text.

    If an object in the tree cannot be described in JSON, only the name of its class is written, and
    `from_text` raises HostsError.

    Raises:
        HostsError: a dict has a key that JSON cannot describe.

    >>> from_text(to_text({"x": np.zeros((0, 2)), "y": (None, [np.int8(3)])}))
    {'x': array([], shape=(0, 2), dtype=float64), 'y': (None, [array(3, dtype=int8)])}
    """
    return json.dumps(_describe_tree(tree))


def from_text(text: str) -> Any:
    """Return the tree that `to_text` converted to a text.

    Raises:
        HostsError: the text is invalid, it names a class that this process has not imported, or it
            says that the tree has an object that JSON cannot describe.
    """
    try:
        return _tree(json.loads(text))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise HostsError(
            f"the batch of the other processes cannot be read ({short_repr(text)}). Run the same "
            "version of headrace in all processes."
        ) from error


def _describe_tree(tree: Any) -> Any:
    """Convert a tree to JSON values: a list `[kind, …]` for each node and leaf; None stays None.

    Raises:
        HostsError: a dict has a key that JSON cannot describe.
    """
    kind = type(tree)
    if tree is None:
        return None
    if isinstance(tree, dict) and kind in (dict, OrderedDict, defaultdict):
        factory = tree.default_factory if isinstance(tree, defaultdict) else None
        return [
            "dict",
            kind.__name__,
            getattr(factory, "__name__", None),
            [[_describe_key(key), _describe_tree(value)] for key, value in tree.items()],
        ]
    if kind.__name__ in _SEQUENCES and kind is _SEQUENCES[kind.__name__]:
        return [kind.__name__, [_describe_tree(child) for child in tree]]
    if _fields(kind) is not None:
        children = {name: _describe_tree(child) for name, child in field_values(tree).items()}
        return ["class", kind.__module__, kind.__qualname__, children]
    return (
        _describe_leaf(tree)
        if is_leaf(tree)
        else ["unknown", f"{kind.__module__}.{kind.__qualname__}"]
    )


def _fields(kind: Any) -> tuple[str, ...] | None:
    if is_named_tuple(kind):
        return tuple(kind.__match_args__)
    return (
        tuple(field.name for field in dataclasses.fields(kind))
        if dataclasses.is_dataclass(kind)
        else None
    )


def _describe_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return ["tuple", list(map(_describe_key, key))]
    if isinstance(key, bytes):
        return ["bytes", key.hex()]
    if type(key) in (str, int, float, bool, type(None)):
        return key
    raise HostsError(
        f"a batch for several hosts has the key {short_repr(key)}, {a_kind_of(key)}. Use only str, "
        "bytes, int, float, bool, None, or tuples of these as keys of dicts."
    )


def _describe_leaf(leaf: Any) -> Any:
    jax = sys.modules.get("jax")
    if (
        jax is not None
        and isinstance(leaf, jax.Array)
        and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ):
        return [
            "keys",
            str(jax.random.key_impl(leaf)),
            _describe_leaf(np.asarray(jax.random.key_data(leaf))),
        ]
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        return ["unknown", f"an array of {array.dtype}"]
    # bfloat16 and its like have a name alone
    name = array.dtype.str if array.dtype.kind != "V" else array.dtype.name
    return ["array", name, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def _tree(told: Any) -> Any:
    if told is None:
        return None
    kind, *rest = told
    if kind == "unknown":
        (leaf,) = rest
        raise HostsError(
            "this process has no batch left and must make an empty one, but batches of other "
            f"processes contain {leaf}, which cannot be described to it. Make batches only of "
            'arrays of numbers, in dicts, lists, tuples or dataclasses, or pass on_uneven="drop".'
        )
    return (
        _READERS[kind](*rest) if kind in _READERS else _SEQUENCES[kind](list(map(_tree, rest[0])))
    )


def _dict(kind: str, factory: str | None, items: list[Any]) -> Any:
    pairs = [(_key(key), _tree(value)) for key, value in items]
    if kind == "defaultdict":
        return defaultdict(None if factory is None else _FACTORIES[factory], pairs)
    return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)


def _key(told: Any) -> Any:
    if not isinstance(told, list):
        return told
    return tuple(map(_key, told[1])) if told[0] == "tuple" else bytes.fromhex(told[1])


def _instance(module: str, name: str, children: dict[str, Any]) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    fields = _fields(found) if isinstance(found, type) else None
    if fields is None or set(fields) != set(children):
        raise HostsError(
            f"the batch of another process has a {short_repr(f'{module}.{name}')}, which this "
            "process has not imported, or has in another version. Import the same classes on all "
            "hosts, at the top of a module."
        )
    values = {name: _tree(child) for name, child in children.items()}
    if issubclass(found, tuple):
        return tuple.__new__(found, [values[name] for name in fields])
    instance = object.__new__(found)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def _array(dtype: str, shape: list[int], content: str) -> Any:
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise ValueError(dtype)
    return np.frombuffer(base64.b64decode(content), kind).reshape(shape).copy()


def _keys(impl: str, data: Any) -> Any:
    import jax

    return jax.random.wrap_key_data(_tree(data), impl=impl)


_READERS: dict[str, Callable[..., Any]] = {
    "dict": _dict,
    "class": _instance,
    "array": _array,
    "keys": _keys,
}
