"""Check record keys that a user, a sampler or the loader passes to a source.

All sources of this package call these functions, so they reject the same keys with the same
message.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ..common.messages import short_repr
from ..common.validation import array_of
from ..errors import RecordKeyError

Keys = npt.NDArray[np.int64] | Sequence[SupportsIndex]
"""Type of many record keys: an `int64` array, or any sequence of integers."""


def check_key(key: SupportsIndex, length: int, source: str) -> int:
    """Return `key` as a Python int in `[0, length)`.

    Args:
        key: record key.
        length: number of records of the source.
        source: name of the source, for the message.

    Raises:
        TypeError: `key` is not an integer.
        RecordKeyError: `key` lies outside `[0, length)`. Negative keys do not count from the end.

    >>> check_key(np.int64(3), 4, "MemorySource")
    3
    """
    if isinstance(key, (bool, np.bool_)):
        raise _not_integer(key, source)
    try:
        number = operator.index(key)
    except TypeError:
        raise _not_integer(key, source) from None
    if not 0 <= number < length:
        raise _out_of_range(number, length, source)
    return number


def check_keys(keys: Keys, length: int, source: str) -> npt.NDArray[np.int64]:
    """Return `keys` as an `int64[n]` array, after a check that each lies in `[0, length)`.

    Args:
        keys: record keys.
        length: number of records of the source.
        source: name of the source, for the message.

    Raises:
        TypeError: `keys` is not a one-dimensional sequence of integers. Empty arrays of any shape
            and dtype pass.
        RecordKeyError: a key lies outside `[0, length)`. The message names one such key.

    >>> check_keys([2, 0], 3, "MemorySource")
    array([2, 0])
    """
    array = keys if isinstance(keys, np.ndarray) else _as_array(keys, length, source)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1:
        raise TypeError(
            f"{source}: record keys must have one axis, but have shape {array.shape}. Pass keys of "
            "shape (n,)."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{source}: record keys must be integers, but are {array.dtype}. Pass integers."
        )
    checked = array.astype(np.int64, copy=False)
    # Negative keys are huge as unsigned ones: one pass finds both.
    if int(checked.view(np.uint64).max()) >= length:
        wrong = array[(array < 0) | (array >= length)][0]
        raise _out_of_range(int(wrong), length, source)
    return checked


def _as_array(keys: Sequence[Any], length: int, source: str) -> npt.NDArray[Any]:
    array = array_of(keys)
    if array.dtype.kind not in "iu" and array.size:
        bad = next(
            (
                key
                for key in keys
                if not isinstance(key, (int, np.integer)) or isinstance(key, bool)
            ),
            None,
        )
        if bad is not None:
            raise _not_integer(bad, source)
        # of kinds that NumPy joins as floats, or too large for 64 bits
        numbers = [int(key) for key in keys]
        wrong = next((number for number in numbers if not 0 <= number < length), None)
        if wrong is not None:
            raise _out_of_range(wrong, length, source)
        return np.array(numbers, dtype=np.int64)
    return array


def _not_integer(key: Any, source: str) -> TypeError:
    return TypeError(
        f"{source}: a record key must be an integer, not {type(key).__name__} ({short_repr(key)}). "
        "Pass an integer."
    )


def _out_of_range(key: int, length: int, source: str) -> RecordKeyError:
    return RecordKeyError(
        f"{source}: record key {short_repr(key)} is out of range. The source has {length} records: "
        f"pass a key from 0 to {length - 1}."
    )
