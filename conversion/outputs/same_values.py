"""Holds an Arrow array against the values that it was made of. In: values, and the array. Out: yes or no.

Arrow converts without a word what a column's type cannot hold: 2.5 becomes 2, a time its day, a number a date. Here a value is
held if reading the array gives an equal value of the same kind: a number (2 and 2.0 are equal), a truth value, text, bytes, a
date, a time of day, a time span, or a point in time, with a time zone or without one.

Most columns are known to be exact by the types of their values alone, or are compared as whole arrays; the rest value by value.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, cast

import numpy as np


def holds(array: Any, values: Sequence[Any]) -> bool:
    """True if an array has exactly these values, from the first to the last.

    >>> import pyarrow
    >>> [holds(pyarrow.array([value], kind), [value]) for value in (2.0, 2.5) for kind in ("int64", "float64")]
    [True, True, False, True]
    """
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        return holds(array.dictionary_decode(), values)
    if isinstance(array, pa.ExtensionArray):
        return holds(array.storage, values)
    types = pa.types
    if types.is_struct(array.type):
        return _structs(array, values)
    if types.is_map(array.type):
        return _maps(array, values)
    if hasattr(array, "flatten") and types.is_nested(array.type):
        return _lists(array, values)
    return _scalars(array, values)


def _structs(array: Any, values: Sequence[Any]) -> bool:
    parts = dict(zip([field.name for field in array.type], array.flatten()))
    for value in values:
        if value is not None and not (isinstance(value, Mapping) and value.keys() <= parts.keys()):
            return False
    return all(
        holds(part, [None if value is None else value.get(name) for value in values]) for name, part in parts.items()
    )


def _maps(array: Any, values: Sequence[Any]) -> bool:
    given = [value.items() if isinstance(value, Mapping) else value for value in values if value is not None]
    pairs = [tuple(pair) for pair in chain.from_iterable(given)]
    entries = array.drop_null()
    return len(pairs) == len(entries.keys) and all(
        holds(part, [pair[side] for pair in pairs]) for side, part in enumerate((entries.keys, entries.items))
    )


def _lists(array: Any, values: Sequence[Any]) -> bool:
    given = [value for value in values if value is not None]
    if any(isinstance(value, (str, bytes, bytearray, Mapping)) for value in given):
        return False  # Arrow takes them for lists of what they are made of
    items = array.flatten()
    if given and all(isinstance(value, np.ndarray) for value in given):
        dtypes = {value.dtype for value in given}
        if dtypes == {_numpy_dtype(array.type.value_type)}:
            return True
    flat = list(chain.from_iterable(given))
    return len(flat) == len(items) and holds(items, flat)


def _scalars(array: Any, values: Sequence[Any]) -> bool:
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _EXACT.get(str(array.type), frozenset()):
        return True
    if kinds <= _NUMBERS and _is_number(array.type):
        given = np.array([np.nan if value is None else value for value in values], np.float64)
        if kinds <= _FLOATS or not np.any(np.abs(given) >= _LARGEST_WHOLE):
            return np.array_equal(
                given, array.cast("float64", safe=False).to_numpy(zero_copy_only=False), equal_nan=True
            )
    return all(map(_same, values, _held(array)))


_EXACT: dict[str, frozenset[type]] = {
    **{
        f"{sign}int{bits}": frozenset({int, getattr(np, f"{sign}int{bits}")})
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "halffloat": frozenset({np.float16}),
    "float": frozenset({np.float32}),
    "double": frozenset({float, np.float64}),
    "bool": frozenset({bool, np.bool_}),
    **dict.fromkeys(("string", "large_string", "string_view"), frozenset({str, np.str_})),
    **dict.fromkeys(("binary", "large_binary", "binary_view"), frozenset({bytes, bytearray, np.bytes_})),
}
"""Types of values that an array of some type holds, or cannot be made of: Arrow refuses integers that are too large."""

_FLOATS = frozenset({float, np.float16, np.float32, np.float64})
_NUMBERS = _FLOATS.union(*(kinds for name, kinds in _EXACT.items() if "int" in name))
_LARGEST_WHOLE = 2.0**53
"""Larger integers may be others as a float."""


def _numpy_dtype(kind: Any) -> np.dtype[Any] | None:
    return np.dtype(kind.to_pandas_dtype()) if _is_number(kind) else None


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _same(given: Any, held: Any) -> bool:
    """True if two values are equal, and of one kind."""
    if given is None or held is None:
        return held is None and (given is None or _is_nat(given))
    one, other = _plain(given), _plain(held)
    if one[0] != other[0]:
        return False
    return bool(one[1] == other[1] or (one[1] != one[1] and other[1] != other[1]))  # what is no number equals nothing


def _is_nat(value: Any) -> bool:
    """True of NumPy's "not a time", for which Arrow has nothing but a missing value."""
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _plain(value: Any) -> tuple[str, Any]:
    """The kind of a value, and something of it that can be compared."""
    if isinstance(value, tuple):
        return cast(tuple[str, Any], value)  # as `_held` gives them
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _of_numpy(value)
    if isinstance(value, np.generic):
        value = value.item()
    for kinds, plain in _PLAIN:
        if isinstance(value, kinds):
            return plain(value)
    return type(value).__name__, value


_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _of_datetime(value: datetime.datetime) -> tuple[str, Any]:
    offset = value.utcoffset()
    passed = Fraction((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, 10**6)
    nanoseconds = Fraction(getattr(value, "nanosecond", 0), 10**9)  # of pandas
    return ("instant" if offset is None else f"instant at {offset}"), passed + nanoseconds


def _of_time(value: datetime.time) -> tuple[str, Any]:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return ("time" if value.tzinfo is None else "time with zone"), seconds + Fraction(value.microsecond, 10**6)


def _of_timedelta(value: datetime.timedelta) -> tuple[str, Any]:
    return "span", Fraction(value // _MICROSECOND, 10**6) + Fraction(getattr(value, "nanoseconds", 0), 10**9)


_PLAIN: tuple[tuple[Any, Callable[[Any], tuple[str, Any]]], ...] = (
    (bool, lambda value: ("bool", value)),
    ((int, float, Decimal), lambda value: ("number", value)),
    (str, lambda value: ("text", value)),
    ((bytes, bytearray, memoryview), lambda value: ("bytes", bytes(value))),
    (datetime.datetime, _of_datetime),
    (datetime.date, lambda value: ("date", Fraction((value - _EPOCH.date()).days * 86400))),
    (datetime.time, _of_time),
    (datetime.timedelta, _of_timedelta),
)

_SECONDS = {
    "W": Fraction(604800),
    "D": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    **{unit: Fraction(1, 10**digits) for unit, digits in {"s": 0, "ms": 3, "us": 6, "ns": 9}.items()},
}


def _of_numpy(value: np.datetime64 | np.timedelta64) -> tuple[str, Any]:
    """A date, a point in time or a span of time of NumPy."""
    unit, count = np.datetime_data(value.dtype)
    kind = "span" if isinstance(value, np.timedelta64) else "date" if unit == "D" else "instant"
    return kind, int(value.astype(np.int64)) * count * _SECONDS.get(unit, Fraction(0))


def _held(array: Any) -> Sequence[Any]:
    """The values of an array; dates and times as kinds and seconds, as Python has no nanoseconds."""
    import pyarrow.types as types

    kind = array.type
    if types.is_timestamp(kind):
        return [_instant(number, kind) for number in _integers(array)]
    for is_kind, name in ((types.is_date, "date"), (types.is_time, "time"), (types.is_duration, "span")):
        if is_kind(kind):
            unit = _SECONDS["D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit]
            return [None if number is None else (name, number * unit) for number in _integers(array)]
    return list(array.to_pylist())


def _integers(array: Any) -> list[int | None]:
    found: list[int | None] = array.cast("int32" if array.type.bit_width == 32 else "int64").to_pylist()
    return found


def _instant(number: int | None, kind: Any) -> tuple[str, Any] | None:
    if number is None:
        return None
    seconds = number * _SECONDS[kind.unit]
    if kind.tz is None:
        return "instant", seconds
    from pyarrow.lib import string_to_tzinfo

    try:
        whole = (_EPOCH + datetime.timedelta(seconds=math.floor(seconds))).replace(tzinfo=datetime.UTC)
        offset = whole.astimezone(string_to_tzinfo(kind.tz)).utcoffset() or datetime.timedelta()
    except OverflowError:
        return "instant that no datetime reaches", seconds
    return f"instant at {offset}", seconds + Fraction(offset // _MICROSECOND, 10**6)
