"""Check lengths of records, and compute their costs.

A cost is a function of an array of lengths. It is called once for many records. The default cost is
the length itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsInt, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LengthsError
from .fields import fields_of
from .messages import a_kind_of, first_few, short_repr
from .validation import array_of

Int64s = npt.NDArray[np.int64]
Cost: TypeAlias = Callable[[Int64s], npt.ArrayLike]
"""Function that maps lengths, `int64[n]`, to `n` costs that are not negative."""

_COST_BITS = 40
"""Whole costs are below 2 to this power, so that the sum over many records fits 64 bits."""


@dataclass(frozen=True)
class AttentionCost:
    """Cost function: for a sequence of length L, the cost is `a·L + b·L²`.

    Attributes:
        a: cost of one token, for layers that process each token alone.
        b: cost of one pair of tokens, for attention.
    """

    a: float
    b: float

    def __call__(self, lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
        tokens = np.asarray(lengths, np.float64)
        return tokens * (self.a + self.b * tokens)


def attention(a: float, b: float) -> AttentionCost:
    """Return the cost function of a transformer: `a·L + b·L²` for a sequence of length L.

    Only the ratio of `a` to `b` matters. For a model of width d with standard blocks (12·d² weights
    per layer), a token costs as much as 6·d pairs of tokens: `attention(6 * d, 1)`.

    Args:
        a: cost of one token, 0 or more.
        b: cost of one pair of tokens, 0 or more.

    Raises:
        TypeError: if `a` or `b` is not a number.
        ValueError: if `a` or `b` is negative or not finite, or both are 0.

    >>> attention(2, 1)(np.array([1, 10])).tolist()
    [3.0, 120.0]
    """
    for name, number in (("a", a), ("b", b)):
        if isinstance(number, bool) or not isinstance(
            number, (int, float, np.integer, np.floating)
        ):
            raise TypeError(
                f"attention: {name}={short_repr(number)} is {a_kind_of(number)}. Pass a number."
            )
        if not 0 <= _as_float(number) < math.inf:  # False for NaN, too
            raise ValueError(
                f"attention: {name}={short_repr(number)} is negative or not finite. Pass a finite "
                "number of at least 0."
            )
    if a == b == 0:
        raise ValueError(
            "attention: with a=0 and b=0 every record costs nothing. Pass a positive number for "
            "one of them."
        )
    return AttentionCost(float(a), float(b))


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # an int that is too large
        return math.inf


def costs_of(lengths: Int64s, cost: Cost | None = None) -> npt.NDArray[np.float64]:
    """Compute the cost of each length.

    Args:
        lengths: `int64[n]`, as `as_lengths` returns them.
        cost: a function of an array of lengths. None: the lengths are the costs.

    Returns:
        `float64[n]`, finite, 0 or more.

    Raises:
        TypeError: if `cost` cannot be called, or does not return numbers.
        LengthsError: if `cost` returns a wrong number of costs, or a cost that is negative, NaN or
            infinite.

    >>> costs_of(np.array([1, 3]), lambda lengths: lengths**2).tolist()
    [1.0, 9.0]
    """
    if cost is None:
        return lengths.astype(np.float64)
    if not callable(cost):
        raise TypeError(
            f"cost={short_repr(cost)} is {a_kind_of(cost)}. Pass a function that takes an array of "
            "lengths, such as headrace.attention(a, b)."
        )
    given = cost(lengths)
    try:
        costs = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"cost= returned {short_repr(given)} for {len(lengths)} lengths. It must return one "
            "number for each length."
        ) from None
    if costs.shape != lengths.shape:
        raise LengthsError(
            f"cost= returned an array of shape {costs.shape} for lengths of shape {lengths.shape}. "
            "It must return one number for each length."
        )
    wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if len(wrong):
        raise LengthsError(
            f"cost= returned {costs[wrong[0]]} for the length {lengths[wrong[0]]}. It must return "
            "finite numbers of at least 0."
        )
    return costs


def as_lengths(lengths: Any, count: int, whose: str = "lengths") -> Int64s:
    """Check the lengths of records, and convert them to `int64`.

    Args:
        lengths: one whole number for each record. Floats are accepted if they are whole.
        count: expected number of records.
        whose: text with which error messages begin.

    Returns:
        `int64[count]`, read-only: a view of the array if it is `int64`, else a copy.

    Raises:
        TypeError: if the lengths are not an array of integers or floats.
        LengthsError: if there are not `count` lengths, or a length is not a whole number in `[0,
            2^62)`.

    >>> as_lengths([3, 5], 2)
    array([3, 5])
    """
    array = array_of(lengths)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{whose}: {short_repr(lengths)}, {a_kind_of(lengths)}, cannot be read as an array of "
            "integers or floats. Pass an array with one whole number below 2^62 for each record."
        )
    if array.shape != (count,):
        raise LengthsError(
            f"{whose}: the array has shape {array.shape}, but there are {count} records. Pass one "
            f"length for each record, shape ({count},)."
        )
    possible = (array >= 0) & (array < 1 << 62)
    if array.dtype.kind == "f":
        possible &= np.trunc(array) == array
    if not possible.all():
        wrong = int(np.argmin(possible))
        raise LengthsError(
            f"{whose}: record {wrong} has length {array[wrong]}, but lengths are whole numbers in "
            "[0, 2^62). Correct it, or leave the record out."
        )
    whole = array.astype(np.int64, copy=False).view()
    whole.flags.writeable = False
    return whole


def as_length(length: Any, record: int) -> int:
    """Check the length of one record, and return it as an int.

    Args:
        length: the length.
        record: index of the record, for error messages.

    Raises:
        LengthsError: if `length` is not a whole number in `[0, 2^62)`.

    >>> as_length(np.float32(3), record=0)
    3
    """
    try:
        whole = int(length)
        if whole == length and 0 <= whole < 1 << 62:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    raise LengthsError(
        f"record {record} has length {short_repr(length)}, but lengths are whole numbers in [0, "
        "2^62). Correct it, or leave the record out."
    )


def length_of_value(value: Any, record: int) -> int:
    """Return the length of a value.

    Of an array or list, it is the number of items along the first axis; of text, the number of
    bytes in UTF-8; of bytes, their number; of None, 0. A whole number is a length itself. `record`
    is the index of the record, for error messages.

    Raises:
        LengthsError: if the value has no length that is a whole number in `[0, 2^62)`.
    """
    if value is None:
        return 0
    if isinstance(value, (str, bytes)):
        return len(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value)
    if isinstance(value, (list, tuple)) or (hasattr(value, "__len__") and np.ndim(value)):
        return as_length(len(value), record)
    if not isinstance(value, SupportsInt):
        raise LengthsError(
            f"the value in record {record} is {a_kind_of(value)}, which has no length. Name a "
            "field of lists, arrays, texts, bytes or whole numbers."
        )
    return as_length(value, record)


def length_of_field(content: Any, name: str, record: int) -> int:
    """Return the length of a field of a record.

    The length of an array or list is its number of items, along the first axis; of text, its number
    of bytes in UTF-8; of bytes, their number; of None, 0. If the field is a whole number, it is the
    length.

    Args:
        content: the record: a dict, a named tuple or a dataclass.
        name: name of the field. "audio/samples" is the field `samples` of the dict `audio`.
        record: index of the record, for error messages.

    Raises:
        LengthsError: if the record has no such field, or the field has no length that is a whole
            number in `[0, 2^62)`.

    >>> length_of_field({"text": "äb", "ids": [4, 9], "n": 7}, "ids", record=0)
    2
    """
    value, parent = content, ""
    for part in [name] if isinstance(content, Mapping) and name in content else name.split("/"):
        fields = value if isinstance(value, Mapping) else fields_of(value) or {}
        if part not in fields:
            owner = f"its field {short_repr(parent)}" if parent else "it"
            has_no_fields = (
                "has no fields" if isinstance(value, Mapping) else f"is {a_kind_of(value)}"
            )
            what_it_has = f"has {first_few([*fields])}" if fields else has_no_fields
            raise LengthsError(
                f"record {record} has no field {short_repr(name)}: {owner} {what_it_has}. Name a "
                "field that all records have; or, in Python, pass a function of a record."
            )
        value, parent = fields[part], f"{parent}/{part}".lstrip("/")
    return length_of_value(value, record)


def whole_costs(costs: npt.NDArray[np.float64]) -> Int64s:
    """Convert costs `float64[n]` to whole numbers below 2^40, `int64[n]`.

    If all costs are whole numbers below 2^40, they are kept. Otherwise all costs are scaled by one
    power of two and rounded.
    """
    most = float(costs.max(initial=0))
    if most >= 1 << _COST_BITS or (np.trunc(costs) != costs).any():
        costs = np.rint(np.ldexp(costs, _COST_BITS - int(np.frexp(most)[1])))
    return np.minimum(costs, (1 << _COST_BITS) - 1).astype(np.int64)
