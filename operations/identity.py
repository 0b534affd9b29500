"""What identifies an operation in a checkpoint: its kind, its name and its plain parameters.

In: an operation. Out: eight hexadecimal digits. Never a `repr` with an address in it, never code bytes: the same program
started again gives the same digits. Names come without their module: the same file may be `__main__` in one run and a module
in the next.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import numpy as np

from .batch import Batch
from .protocol import Operation


def fingerprint(operation: Operation) -> str:
    """Eight hexadecimal digits that change when the operation's kind, name or a plain parameter does.

    >>> from millrace.operations import Batch
    >>> fingerprint(Batch(4)) == fingerprint(Batch(4, drop_remainder=True))
    False

    A batch size is not part of it: a checkpoint keeps it beside, as a stream may go on with another one.
    """
    explicit = getattr(operation, "fingerprint", None)
    described = explicit if explicit is not None else _described(operation)
    return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:8]


MAX_DEPTH = 6


def _described(value: Any, depth: int = 0) -> Any:
    """Plain JSON values for a parameter; objects by their type and attributes, as far as those are plain."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, np.ndarray, np.generic)):
        array = np.asarray(value)
        plain = b"" if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
        return [str(array.dtype), list(array.shape), hashlib.sha256(plain).hexdigest()[:16]]
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(value.__qualname__)
    kind = type(value).__qualname__
    if depth == MAX_DEPTH:
        return kind
    if isinstance(value, dict):
        return {str(key): _described(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_described(item, depth + 1) for item in value]
    if isinstance(value, functools.partial):
        return [kind, *(_described(part, depth + 1) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, Operation) or callable(value):
        attributes = getattr(value, "__dict__", {})
        if isinstance(value, Batch):
            attributes = {name: attribute for name, attribute in attributes.items() if name != "batch_size"}
        return [kind, _described(attributes, depth + 1)]
    return kind
