"""Types of pyarrow that give equal values: which ones do, and the common type of two.

Programs write one column with different types: `string`, `large_string` or a dictionary of strings;
or `null`, if a file has no value of the column. Their records are equal.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .columns import is_list

_UNITS = ("s", "ms", "us", "ns")
"""Units of times, from the coarsest to the finest."""


def values_of(kind: Any) -> Hashable:
    """Return a description of the values of a type.

    It is equal for types whose columns give equal values.

    Args:
        kind: the type, a `pyarrow.DataType`.

    >>> import pyarrow as pa
    >>> values_of(pa.large_string()) == values_of(pa.dictionary(pa.int8(), pa.string()))
    True
    >>> values_of(pa.list_(pa.int32())) == values_of(pa.list_(pa.int64()))
    False
    """
    return _inner_values(stored(kind))


def _inner_values(kind: Any) -> Hashable:
    """Return what `values_of` returns for all but extension types.

    Values of an extension type are not those of the type that stores them.
    """
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _inner_values(kind.value_type)
    if _is_text(kind):
        return "text"
    if _is_bytes(kind):
        return "bytes"
    if kinds.is_fixed_size_list(kind):
        return "array", kind.list_size, _inner_values(kind.value_type)
    if is_list(kind):
        return "list", _inner_values(kind.value_type)
    if kinds.is_struct(kind):
        return "struct", tuple(sorted((field.name, _inner_values(field.type)) for field in kind))
    if kinds.is_map(kind):
        return "map", _inner_values(kind.key_type), _inner_values(kind.item_type)
    if kinds.is_decimal(kind):
        return "decimal", kind.scale
    return "time of day" if kinds.is_time(kind) else str(kind)


def common_type(first: Any, other: Any) -> Any:
    """Return a type that can hold the values of two types; None if values would not stay equal.

    It is `first` if both give equal values, the other type for `null`, and the one with the finer
    unit for times. The items of lists, the fields of structs and the values of maps are treated
    alike.

    Args:
        first: a `pyarrow.DataType`.
        other: another one.

    >>> import pyarrow as pa
    >>> common_type(pa.list_(pa.null()), pa.large_list(pa.timestamp("ms")))
    ListType(list<item: timestamp[ms]>)
    >>> common_type(pa.int32(), pa.int64())
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if first == other or values_of(first) == values_of(other):
        return first
    first, other = stored(first), stored(other)
    if kinds.is_null(first) or kinds.is_null(other):
        return other if kinds.is_null(first) else first
    if (
        kinds.is_fixed_size_list(first)
        and kinds.is_fixed_size_list(other)
        and first.list_size == other.list_size
    ):
        item = common_type(first.value_type, other.value_type)
        return None if item is None else pa.list_(item, first.list_size)
    if _is_ragged(first) and _is_ragged(other):
        item = common_type(first.value_type, other.value_type)
        return (
            None
            if item is None
            else pa.large_list(item)
            if kinds.is_large_list(first)
            else pa.list_(item)
        )
    if kinds.is_struct(first) and kinds.is_struct(other):
        return _common_struct(first, other)
    if kinds.is_map(first) and kinds.is_map(other):
        key, item = (
            common_type(first.key_type, other.key_type),
            common_type(first.item_type, other.item_type),
        )
        return None if key is None or item is None else pa.map_(key, item)
    return _finer_time(first, other)


def stored(kind: Any) -> Any:
    """Return a type without dictionary encoding and extension type.

    Types of tensors, items and fields are unchanged.

    Args:
        kind: the type, a `pyarrow.DataType`.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return stored(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and not hasattr(kind, "shape"):
        return stored(kind.storage_type)
    return kind


def castable(kind: Any) -> Any:
    """Return a type to which pyarrow can convert columns, with equal values to the given type.

    Dictionaries and views are replaced, at any depth, and so is an extension type that is not that
    of items or fields.

    Args:
        kind: the type, a `pyarrow.DataType`.

    >>> import pyarrow as pa
    >>> castable(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: large_string>)
    """
    return _inner_castable(stored(kind))


def _inner_castable(kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _inner_castable(kind.value_type)
    if kinds.is_fixed_size_list(kind):
        return pa.list_(_inner_castable(kind.value_type), kind.list_size)
    if is_list(kind):
        return (pa.list_ if kinds.is_list(kind) else pa.large_list)(
            _inner_castable(kind.value_type)
        )
    if kinds.is_struct(kind):
        return pa.struct([(field.name, _inner_castable(field.type)) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(_inner_castable(kind.key_type), _inner_castable(kind.item_type))
    return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(kind), kind)


def _common_struct(first: Any, other: Any) -> Any:
    import pyarrow as pa

    others = {field.name: field.type for field in other}
    if {field.name for field in first} != set(others):
        return None
    fields = [(field.name, common_type(field.type, others[field.name])) for field in first]
    return None if any(kind is None for _, kind in fields) else pa.struct(fields)


def _finer_time(first: Any, other: Any) -> Any:
    """Return that one of two types of times with the finer unit.

    Return None if they are not two dates, two durations, or two timestamps of one time zone.

    Args:
        first: a `pyarrow.DataType`.
        other: another one.
    """
    import pyarrow.types as kinds

    if kinds.is_date(first) and kinds.is_date(other):
        return first if kinds.is_date64(first) else other
    if kinds.is_timestamp(first) and kinds.is_timestamp(other):
        if first.tz != other.tz:
            return None
    elif not (kinds.is_duration(first) and kinds.is_duration(other)):
        return None
    return max(first, other, key=lambda kind: _UNITS.index(kind.unit))


def _is_ragged(kind: Any) -> bool:
    import pyarrow.types as kinds

    return is_list(kind) and not kinds.is_fixed_size_list(kind)


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _is_bytes(kind: Any) -> bool:
    import pyarrow.types as kinds

    return kinds.is_fixed_size_binary(kind) or str(kind) in (
        "binary",
        "large_binary",
        "binary_view",
    )
