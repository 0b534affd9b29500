"""Convert one column of a decoded row group (a pyarrow array) to NumPy or Python objects.

| Arrow type | value |
|---|---|
| numbers, booleans, dates, durations, timestamps without a time zone | NumPy scalar |
| tensor, or list of numbers of any kind, without nulls in it | read-only array (see below) |
| string, binary, and views of them | `str`, `bytes` |
| anything else: structs, maps, decimals, times with a zone, … | Python objects, as of `to_pylist` |
| null | None |

The arrays of tensors and of fixed-size lists have the shape of these.

A value depends on its own row alone, never on the rows that were read with it.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class DecodedColumn(Protocol):
    """Protocol of a converted column of a row group.

    `take(rows)` returns the values of these rows, in order.
    """

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the column takes."""
        ...

    def take(self, rows: list[int]) -> list[Any]:
        """Return the values of these rows, in order."""
        ...


class _Dense:
    """Column whose row k is `values[k]`: a scalar, or a read-only array.

    Args:
        values: array `[rows, *shape]`; all rows have the same shape.
    """

    def __init__(self, values: Array) -> None:
        self._values = _frozen(values)
        self.nbytes = values.nbytes

    def take(self, rows: list[int]) -> list[Any]:
        values = self._values
        return [values[row] for row in rows]


class _Ragged:
    """Column of arrays of unequal length, in one array.

    Args:
        values: array `[items, …]` with the items of all rows, one row after the other.
        lengths: `int64[rows]`, number of items of each row.
    """

    def __init__(self, values: Array, lengths: Array) -> None:
        self._values = _frozen(values)
        self._stops = np.cumsum(lengths, dtype=np.int64)
        self._starts = self._stops - lengths
        self.nbytes = values.nbytes + self._starts.nbytes + self._stops.nbytes

    def take(self, rows: list[int]) -> list[Any]:
        values = self._values
        bounds = zip(self._starts[rows].tolist(), self._stops[rows].tolist())
        return [values[start:stop] for start, stop in bounds]


class Nullable:
    """Column that returns None for some rows, and the value of another column for all others.

    Args:
        column: the other column.
        is_null: `bool[rows]`, or a column of bools with `take`; True for rows that are None.
    """

    def __init__(self, column: Any, is_null: Any) -> None:
        self._column, self._is_null = column, is_null

    @property
    def nbytes(self) -> int:
        return int(self._column.nbytes + self._is_null.nbytes)

    def take(self, rows: Any) -> list[Any]:
        values: list[Any] = self._column.take(rows)
        for index in np.flatnonzero(self._is_null.take(rows)).tolist():
            values[index] = None
        return values


class _Objects:
    """Column whose values stay in Arrow's compact form until requested.

    Then they become Python objects.

    Args:
        array: pyarrow array.
    """

    def __init__(self, array: Any) -> None:
        self._array = array
        self.nbytes = int(array.nbytes)
        self._is_taken = not has_views(array.type)
        """False if pyarrow cannot `take` rows of the array."""

    def take(self, rows: list[int]) -> list[Any]:
        if not self._is_taken:
            return [self._array[row].as_py() for row in rows]
        values: list[Any] = self._array.take(np.asarray(rows, np.int64)).to_pylist()
        return values


class OneByOne:
    """Column of lists of numbers, or of tensors with nulls in some values.

    The values are converted one by one.

    Those become Python lists, and all others read-only arrays.

    Args:
        array: pyarrow array of a type for which `gives_arrays` is True.
    """

    def __init__(self, array: Any) -> None:
        self._array = array
        self.nbytes = int(array.nbytes)

    def take(self, rows: list[int]) -> list[Any]:
        return list(map(self._value, rows))

    def _value(self, row: int) -> Any:
        is_tensor = _is_tensor(self._array.type)
        value = (self._array.storage if is_tensor else self._array)[row]
        if not value.is_valid:
            return None
        array = dense(self._array.slice(row, 1)) if is_tensor else dense(value.values)
        if array is None:
            return value.as_py()
        return _frozen(array[0] if is_tensor else array)


class _Pieces:
    """Column of several arrays that are too large together for one array.

    Args:
        arrays: pyarrow arrays of one type, with the rows one after the other.
    """

    def __init__(self, arrays: list[Any]) -> None:
        self._columns = [_column(array) for array in arrays]
        self._stops = np.cumsum([len(array) for array in arrays], dtype=np.int64)
        self.nbytes = sum(column.nbytes for column in self._columns)

    def take(self, rows: list[int]) -> list[Any]:
        pieces = np.searchsorted(self._stops, rows, side="right").tolist()
        starts = [0, *self._stops.tolist()]
        return [
            self._columns[piece].take([row - starts[piece]])[0] for piece, row in zip(pieces, rows)
        ]


def column_of(chunked: Any) -> DecodedColumn:
    """Return one column of a row group in the form from which rows are read fastest.

    Args:
        chunked: the column, a `pyarrow.ChunkedArray`.
    """
    import pyarrow as pa

    try:
        array = chunked.chunk(0) if chunked.num_chunks == 1 else pa.concat_arrays(chunked.chunks)
    except pa.ArrowInvalid:  # More than 2 GiB of strings: they fit no single array.
        return _Pieces(chunked.chunks)
    # most columns: a random row makes one of each
    if is_scalar(array.type) and not array.null_count:
        return _Dense(array.to_numpy(zero_copy_only=False))
    return _column(array)


def _column(array: Any) -> DecodedColumn:
    import pyarrow.types as kinds

    array = array if _is_tensor(array.type) else plain(array)
    column: DecodedColumn | None = None
    if not array.null_count:
        values = dense(array)
        column = None if values is None else _Dense(values)
    elif is_scalar(array.type):
        column = _Dense(filled(array))
    if column is None and is_list(array.type):
        column = _ragged(array)
    if column is None:
        return OneByOne(array) if gives_arrays(array.type) else _Objects(array)
    if array.null_count and not kinds.is_null(array.type):
        return Nullable(column, array.is_null().to_numpy(zero_copy_only=False))
    return column


def plain(array: Any) -> Any:
    """Return a pyarrow array without dictionary encoding, extension type or view.

    Tensors without nulls are unchanged.

    The types of items and fields are unchanged, too.
    """
    import pyarrow as pa

    if array.type.id in _view_ids():
        return without_views(array)

    if isinstance(array, pa.DictionaryArray):
        return array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray) and not (
        _is_tensor(array.type) and not array.null_count
    ):
        return plain(array.storage)
    return array


def without_views(column: Any) -> Any:
    """Return a pyarrow array or chunked array whose values are stored one after the other.

    Only its own type changes (`string_view`, `binary_view`, `list_view`), not the types of its
    items.

    Args:
        column: the array, of any type.
    """
    import pyarrow as pa

    kind = column.type
    if kind.id not in _view_ids():
        return column
    if not kind.num_fields:
        return column.cast(pa.large_string() if str(kind) == "string_view" else pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(
            [_list_of(chunk) for chunk in column.chunks], pa.large_list(kind.value_type)
        )
    return _list_of(column)


def _list_of(array: Any) -> Any:
    """Return an array of list views as an array of lists.

    The function `cast` of pyarrow 25 makes invalid arrays of list views in list views.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    kind = pa.large_list(array.type.value_type)
    return pa.LargeListArray.from_arrays(offsets, array.flatten(), type=kind, mask=array.is_null())


def dense(array: Any) -> Array | None:
    """Return a pyarrow array as a NumPy array, `[rows, …]`.

    Return None if its values are not of types for which `is_scalar` is True, have no common shape,
    or if there is a null at any level.
    """
    import pyarrow.types as kinds

    if array.null_count:
        return None
    if _is_tensor(array.type):
        return None if array.storage.flatten().null_count else np.asarray(array.to_numpy_ndarray())
    if is_scalar(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if not kinds.is_fixed_size_list(array.type):
        return None
    inner = dense(array.flatten())
    return (
        None if inner is None else inner.reshape(len(array), array.type.list_size, *inner.shape[1:])
    )


def _ragged(array: Any) -> DecodedColumn | None:
    import pyarrow.compute as pc

    values = dense(array.flatten())
    if values is None:
        return None
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return _Ragged(values, lengths.to_numpy(zero_copy_only=False))


def filled(array: Any) -> Array:
    """Return a pyarrow array of numbers as a NumPy array.

    Nulls among integers and booleans become 0 or False.

    Nulls among floats become NaN; among dates, durations and timestamps NaT.
    """
    import pyarrow.types as kinds

    if kinds.is_integer(array.type) or kinds.is_boolean(array.type):
        array = array.fill_null(False if kinds.is_boolean(array.type) else 0)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def is_scalar(kind: Any) -> bool:
    """Return True for integers, floats, booleans, dates, durations and some timestamps.

    These are timestamps without a time zone.
    """
    scalars, timestamp = _scalar_ids()
    number = kind.id
    # NumPy's datetimes know no time zone.
    return number in scalars or (number == timestamp and kind.tz is None)


@functools.cache
def _scalar_ids() -> tuple[frozenset[int], int]:
    """Return pyarrow's ids of integers, floats, booleans, dates and durations.

    Return the id of timestamps too.
    """
    import pyarrow.lib as ids

    whole = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    others = ["HALF_FLOAT", "FLOAT", "DOUBLE", "BOOL", "DATE32", "DATE64", "DURATION"]
    return _ids(*whole, *others), ids.Type_TIMESTAMP


def is_list(kind: Any) -> bool:
    """Return True if an Arrow type is a list, of fixed length or not, or a view of lists."""
    return kind.id in _list_ids()


@functools.cache
def _list_ids() -> frozenset[int]:
    """Return pyarrow's ids of lists."""
    return _ids("LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "LIST_VIEW", "LARGE_LIST_VIEW")


@functools.cache
def _view_ids() -> frozenset[int]:
    """Return pyarrow's ids of types whose values lie in any order in memory."""
    return _ids("STRING_VIEW", "BINARY_VIEW", "LIST_VIEW", "LARGE_LIST_VIEW")


def _ids(*names: str) -> frozenset[int]:
    """Return the ids of types, without those that this release of pyarrow does not know."""
    import pyarrow.lib as ids

    return frozenset(
        found for name in names if (found := getattr(ids, f"Type_{name}", None)) is not None
    )


def has_views(kind: Any) -> bool:
    """Return True if a type, or the type of anything in it, is a view."""
    return kind.id in _view_ids() or any(
        has_views(kind.field(number).type) for number in range(kind.num_fields)
    )


def gives_arrays(kind: Any) -> bool:
    """Return True for lists of numbers, and for tensors.

    Their values become arrays, except those that have a null in them.
    """
    import pyarrow.types as kinds

    if not is_list(kind):
        return _is_tensor(kind)
    item = kind.value_type
    return is_scalar(item) or (
        gives_arrays(item) and (_is_tensor(item) or kinds.is_fixed_size_list(item))
    )


def _is_tensor(kind: Any) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.FixedShapeTensorType)


def _frozen(values: Array) -> Array:
    if not values.flags.writeable:
        return values
    view = values.view()
    view.flags.writeable = False
    return view
