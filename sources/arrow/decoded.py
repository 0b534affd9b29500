"""Rows of a row group that is decoded to an Arrow table.

The first few requested rows are converted value by value. If more rows are requested, the whole row
group is converted column by column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .columns import DecodedColumn, column_of, is_list, is_scalar

ValueOf = Callable[[Any], Any]

# Converting a column takes as long as a few values of it.
_FEW = 4
"""Maximum number of rows of a row group that are converted value by value."""


class Form:
    """Names of the columns of all row groups, and for each a function that converts its values.

    Args:
        names: names of the columns.
        kinds: type of each column, `pyarrow.DataType`.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[Any]) -> None:
        import pyarrow as pa

        self.names = tuple(names)
        self._places: list[int] | None = None
        values = [_value_of(kind) for kind in kinds]
        self.values = [value or (lambda found: found) for value in values]
        self.wholes = [number for number, value in enumerate(values) if value is None]
        """Indices of the columns that must be converted as a whole."""
        self.flags = sum(1 for kind in kinds if kind == pa.bool_())
        """Number of columns of booleans, whose values take one bit each in Arrow."""

    def columns(self, table: Any) -> list[Any]:
        """Return the columns of an Arrow table in the order of `names`.

        All tables must have the same columns in the same order as the first one.
        """
        if self._places is None:
            present = table.column_names
            self._places = [present.index(name) for name in self.names]
        columns = table.columns
        return [columns[place] for place in self._places]


class DecodedRows:
    """Decoded row group whose rows are converted on request. Thread-safe.

    `nbytes` is the memory that it takes when all columns are converted.

    Args:
        table: Arrow table with at least the columns of `form`.
        form: columns, and functions that convert their values.
    """

    def __init__(self, table: Any, form: Form) -> None:
        self._form, self._given = form, 0
        columns = form.columns(table)
        # A bit for each null, or flag, becomes a byte.
        widened = form.flags + sum(1 for column in columns if column.null_count)
        self.nbytes = table.get_total_buffer_size() + len(table) * widened
        for number in form.wholes:
            columns[number] = whole = _Whole(columns[number])
            self.nbytes += whole.more_bytes
        self._held: tuple[list[Any], list[DecodedColumn] | None] = columns, None
        """Arrow columns and None, or an empty list and all columns after their conversion.

        Columns that must be converted as a whole are converted in both cases.
        """

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return rows as dicts of column name to value, in order.

        Args:
            rows: indices of the rows, counted from the beginning of the row group.
        """
        names, (columns, converted) = self._form.names, self._held
        self._given += len(rows)
        if converted is None and self._given <= _FEW:
            made = list(zip(names, self._form.values, columns))
            return [{name: value(column[row]) for name, value, column in made} for row in rows]
        if converted is None:
            converted = [
                column.column if isinstance(column, _Whole) else column_of(column)
                for column in columns
            ]
            self._held = [], converted
        if len(rows) == 1:
            return [{name: column.take(rows)[0] for name, column in zip(names, converted)}]
        records: list[dict[str, Any]] = [{} for _ in rows]
        for name, column in zip(names, converted):
            for record, value in zip(records, column.take(rows)):
                record[name] = value
        return records


class _Whole:
    """Column that was converted as a whole, and whose values are requested one by one.

    Args:
        chunked: the column, a `pyarrow.ChunkedArray`.
    """

    def __init__(self, chunked: Any) -> None:
        self.column = column_of(chunked)
        self.more_bytes: int = self.column.nbytes - chunked.get_total_buffer_size()

    def __getitem__(self, row: int) -> Any:
        return self.column.take([row])[0]


def _value_of(kind: Any) -> ValueOf | None:
    """Return a function that converts one pyarrow scalar of a type.

    Return None for types whose columns are converted as a whole. For lists that takes as long as
    one value: mostly, nothing is copied.

    Args:
        kind: the type, a `pyarrow.DataType`.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if is_list(kind) or kinds.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    if not is_scalar(kind):
        return operator.methodcaller("as_py")
    dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    if dtype.kind in "mM":
        return _time(dtype)
    return (
        _narrow_float(dtype.type)
        if dtype.kind == "f" and dtype.itemsize < 8
        else _number(dtype.type)
    )


def _number(of: type) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        return None if value is None else of(value)

    return made


def _narrow_float(of: type) -> ValueOf:
    """Return a function that converts a pyarrow scalar to a NumPy float type.

    Args:
        of: the type, `np.float16` or `np.float32`.
    """
    import pyarrow as pa

    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        if value == value:  # Python's floats do not keep all bits of a narrower NaN
            return None if value is None else of(value)
        return pa.repeat(scalar, 1).to_numpy()[0]

    return made


def _time(dtype: Any) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.value
        return None if value is None else np.int64(value).view(dtype)

    return made
