"""Checksums of elements, to compare them."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import cloudpickle
import numpy as np

from ..operations.trees import flatten


def checksum(element: Any) -> Any:
    """Return a value that is equal for elements that are equal bit for bit.

    Of plain arrays, it has only checksums.
    """
    leaves, structure = flatten(element)
    return str(structure), [_checksum_of_leaf(leaf) for leaf in leaves]


def _checksum_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject:
        content = np.ascontiguousarray(leaf).tobytes()
        return str(leaf.dtype), leaf.shape, hashlib.blake2b(content).digest()
    return type(leaf).__qualname__, leaf if isinstance(leaf, (bool, int, str, bytes)) else _Opaque(
        leaf
    )


class _Opaque:
    """Wrapper of a value of any class, for comparisons.

    It equals a wrapper whose value is equal, or has the same pickle, or, if neither can be pickled,
    has the same class. Of sets, the pickles of their members are compared.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Opaque)
        one, two = self._value, other._value
        if isinstance(one, (set, frozenset)) and isinstance(two, (set, frozenset)):
            return sorted(map(_pickled, one)) == sorted(map(_pickled, two))
        return bool(one is two or np.all(one == two) or _pickled(one) == _pickled(two))

    __hash__ = None  # type: ignore[assignment]


def _pickled(value: Any) -> bytes:
    """Return the pickle of a copy of an object that was pickled and unpickled.

    Return its class name if it cannot be pickled.

    An object and its unpickled copy may have different pickles; two copies have the same.
    """
    try:
        return cloudpickle.dumps(pickle.loads(cloudpickle.dumps(value)))  # type: ignore[no-any-return]
    except Exception:
        return type(value).__qualname__.encode()
