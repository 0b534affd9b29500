"""Convert the values of one column to an Arrow array of a given type, if that changes no value.

Arrow silently changes values that a type cannot hold: 2.5 becomes 2, a time becomes its day, a
number becomes a date. This module accepts a value only if reading the array returns an equal value
of the same kind: a number (2 and 2.0 are equal), a bool, text, bytes, a date, a time of day, a time
span, or a point in time, with or without a time zone.

For most columns the types of the values prove this, or the column is compared as a whole array. All
others are compared value by value.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from ...common.messages import short_repr, shorten
from ...errors import ConversionError, MissingExtraError


def pyarrow() -> Any:
    """Return the module pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            'to="parquet" needs the package pyarrow: pip install "headrace[parquet]"'
        ) from error
    return pyarrow


def array_of(name: str, values: Sequence[Any], kind: Any) -> Any:
    """Return the values of a column as an Arrow array.

    Args:
        name: name of the column, for the message.
        values: values of the column.
        kind: Arrow type of the array.

    Raises:
        ConversionError: the type cannot hold a value, or would change it.

    >>> array_of("x", [1, 2.0, None], pyarrow().int64()).to_pylist()
    [1, 2, None]
    """
    why = ""
    try:
        array = pyarrow().array(values, kind)
        if holds(array, values):
            return array
    except (pyarrow().ArrowException, ValueError, TypeError, OverflowError) as error:
        cause, why = error, f" ({shorten(error)})"
    value = short_repr(values[0] if len(values) == 1 else values)
    raise ConversionError(
        f"column {short_repr(name)} has type {shorten(kind, 60)} in the first records, but a later "
        f"record has {value}. Pass transform=, a function that gives this column the same type in "
        f"all records.{why}"
    ) from (cause if why else None)


def holds(array: Any, values: Sequence[Any]) -> bool:
    """Return True if an Arrow array has exactly the values `values`, in order.

    >>> import pyarrow
    >>> [holds(pyarrow.array([value], "int64"), [value]) for value in (2.0, 2.5)]
    [True, False]
    """
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        return holds(array.dictionary_decode(), values)
    if isinstance(array, pa.ExtensionArray):
        return holds(array.storage, values)
    given = [value for value in values if value is not None]
    if pa.types.is_struct(array.type):
        parts = dict(zip([field.name for field in array.type], array.flatten()))
        return all(
            isinstance(value, Mapping) and value.keys() <= parts.keys() for value in given
        ) and all(
            holds(part, [None if value is None else value.get(name) for value in values])
            for name, part in parts.items()
        )
    if pa.types.is_map(array.type):
        items = [value.items() if isinstance(value, Mapping) else value for value in given]
        pairs = [tuple(pair) for pair in chain.from_iterable(items)]
        entries = array.drop_null()
        return len(pairs) == len(entries.keys) and all(
            holds(part, [pair[side] for pair in pairs])
            for side, part in enumerate((entries.keys, entries.items))
        )
    if hasattr(array, "flatten") and pa.types.is_nested(array.type):
        return _holds_lists(array, given)
    return _holds_scalars(array, values)


def _holds_lists(array: Any, given: Sequence[Any]) -> bool:
    if any(isinstance(value, (str, bytes, bytearray, Mapping)) for value in given):
        return False  # Arrow takes them for lists of what they are made of
    inner = array.type.value_type
    dtypes = {value.dtype if isinstance(value, np.ndarray) else None for value in given}
    if _is_number(inner) and dtypes == {np.dtype(inner.to_pandas_dtype())}:
        return True
    items, flat = array.flatten(), list(chain.from_iterable(given))
    return len(flat) == len(items) and holds(items, flat)


def _holds_scalars(array: Any, values: Sequence[Any]) -> bool:
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _EXACT.get(str(array.type), frozenset()):
        return True
    if kinds <= _NUMBERS and _is_number(array.type):
        given = np.array([np.nan if value is None else value for value in values], np.float64)
        if kinds <= _FLOATS or not np.any(np.abs(given) >= _LARGEST_WHOLE):
            held = array.cast("float64", safe=False).to_numpy(zero_copy_only=False)
            return np.array_equal(given, held, equal_nan=True)
    return all(map(_same, values, _held(array)))


_EXACT: dict[str, frozenset[type]] = {
    **{
        f"{sign}int{bits}": frozenset({int, np.dtype(f"{sign}int{bits}").type})
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "halffloat": frozenset({np.float16}),
    "float": frozenset({np.float32}),
    "double": frozenset({float, np.float64}),
    "bool": frozenset({bool, np.bool_}),
    **dict.fromkeys(("string", "large_string", "string_view"), frozenset({str, np.str_})),
    **dict.fromkeys(
        ("binary", "large_binary", "binary_view"), frozenset({bytes, bytearray, np.bytes_})
    ),
}
"""Value types that an Arrow type holds without change.

For integers that are too large, Arrow raises an error.
"""

_FLOATS = frozenset({float, np.float16, np.float32, np.float64})
_NUMBERS = _FLOATS.union(*(kinds for name, kinds in _EXACT.items() if "int" in name))
_LARGEST_WHOLE = 2.0**53
"""Integers up to this magnitude are exact as 64-bit floats."""

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SECONDS = {
    "W": Fraction(604800),
    "D": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    **{
        unit: Fraction(1, 10**digits)
        for unit, digits in {"s": 0, "ms": 3, "us": 6, "ns": 9}.items()
    },
}


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _same(given: Any, held: Any) -> bool:
    """Return True if two values are equal and of the same kind."""
    # for "not a time" of NumPy, Arrow has nothing but a missing value
    if given is None or held is None:
        is_nat = isinstance(given, (np.datetime64, np.timedelta64)) and bool(np.isnat(given))
        return held is None and (given is None or is_nat)
    (kind, one), (other_kind, other) = (
        _plain(given),
        held if isinstance(held, tuple) else _plain(held),
    )
    # what is no number equals nothing
    return kind == other_kind and bool(one == other or (one != one and other != other))


def _plain(value: Any) -> tuple[str, Any]:
    """Return the kind of a value, and a form of it that can be compared.

    For times, seconds as a fraction.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        unit, count = np.datetime_data(value.dtype)
        kind = "span" if isinstance(value, np.timedelta64) else "date" if unit == "D" else "instant"
        return kind, int(value.astype(np.int64)) * count * _SECONDS.get(unit, Fraction(0))
    match value.item() if isinstance(value, np.generic) else value:
        case bool(found):
            return "bool", found
        case (int() | float() | Decimal()) as found:
            return "number", found
        case str(found):
            return "text", found
        case (bytes() | bytearray() | memoryview()) as found:
            return "bytes", bytes(found)
        case datetime.datetime() as found:
            offset = found.utcoffset()
            return ("instant" if offset is None else f"instant at {offset}"), _seconds(
                found.replace(tzinfo=None) - _EPOCH
            )
        case datetime.date() as found:
            return "date", _seconds(found - _EPOCH.date())
        case datetime.time() as found:
            since_midnight = datetime.datetime.combine(_EPOCH, found.replace(tzinfo=None)) - _EPOCH
            return ("time" if found.tzinfo is None else "time with zone"), _seconds(since_midnight)
        case datetime.timedelta() as found:
            return "span", _seconds(found)
        case found:
            return type(found).__name__, found


def _seconds(span: datetime.timedelta) -> Fraction:
    """Return a time span in exact seconds. A span of pandas has nanoseconds, too."""
    return Fraction(span // _MICROSECOND, 10**6) + Fraction(getattr(span, "nanoseconds", 0), 10**9)


def _held(array: Any) -> Sequence[Any]:
    """Return the values of an Arrow array.

    Dates and times, which may have nanoseconds, as pairs (kind, seconds).
    """
    import pyarrow.types as types

    kind = array.type
    kinds = {
        "instant": types.is_timestamp,
        "date": types.is_date,
        "time": types.is_time,
        "span": types.is_duration,
    }
    name = next((name for name, is_kind in kinds.items() if is_kind(kind)), None)
    if name is None:
        return list(array.to_pylist())
    unit = _SECONDS["D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit]
    numbers = array.cast("int32" if kind.bit_width == 32 else "int64").to_pylist()
    seconds = [None if number is None else number * unit for number in numbers]
    zone = kind.tz if name == "instant" else None
    return [
        None if each is None else _in_zone(each, zone) if zone else (name, each) for each in seconds
    ]


def _in_zone(seconds: Fraction, zone: str) -> tuple[str, Any]:
    from pyarrow.lib import string_to_tzinfo

    try:
        whole = (_EPOCH + datetime.timedelta(seconds=math.floor(seconds))).replace(
            tzinfo=datetime.UTC
        )
        offset = whole.astimezone(string_to_tzinfo(zone)).utcoffset() or datetime.timedelta()
    except OverflowError:
        return "instant that no datetime reaches", seconds
    return f"instant at {offset}", seconds + _seconds(offset)
