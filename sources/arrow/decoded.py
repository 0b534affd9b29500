"""In: a row group as an Arrow table. Out: its rows.

A few rows are made value by value. Only a row group that is asked for more of them is converted, column by column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .columns import DecodedColumn, column_of, is_list, is_scalar

ValueOf = Callable[[Any], Any]

_FEW = 4
"""Rows of a row group whose values are made one by one. To convert a column takes as long as some values."""


class Form:
    """The columns that row groups share, by name and type (`pyarrow.DataType`), and how their values are made."""

    def __init__(self, names: Sequence[str], kinds: Sequence[Any]) -> None:
        import pyarrow as pa

        self.names = tuple(names)
        self._places: list[int] | None = None
        values = [_value_of(kind) for kind in kinds]
        self.values = [value or _as_it_is for value in values]
        self.wholes = [number for number, value in enumerate(values) if value is None]
        """The columns whose values depend on the whole column: they are converted at once."""
        self.flags = sum(1 for kind in kinds if kind == pa.bool_())
        """How many columns have values of one bit."""

    def columns(self, table: Any) -> list[Any]:
        """The columns of a table by their names; all tables of a form have the same ones in the same order."""
        if self._places is None:
            present = table.column_names
            self._places = [present.index(name) for name in self.names]
        columns = table.columns
        return [columns[place] for place in self._places]


class DecodedRows:
    """A decoded row group, from a table with at least the columns of `form`. Thread-safe.

    `nbytes` are the bytes in memory when all columns are converted.
    """

    _rows: _Unconverted | _Converted

    def __init__(self, table: Any, form: Form) -> None:
        rows = _Unconverted(form.columns(table), form)
        self._rows, self._given = rows, 0
        self.nbytes = table.get_total_buffer_size() + rows.more_bytes(len(table))

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """The rows of these numbers, counted from the beginning of the row group."""
        made = self._rows
        self._given += len(rows)
        if self._given > _FEW and isinstance(made, _Unconverted):
            self._rows = made = made.converted()
        return made.rows(rows)


class _Unconverted:
    """Columns as Arrow has them, but for those that have to be converted as a whole."""

    def __init__(self, columns: list[Any], form: Form) -> None:
        self._names, self._values = form.names, form.values
        self._columns = columns
        self._widened = form.flags + sum(1 for column in columns if column.null_count)
        for number in form.wholes:
            self._columns[number] = _Whole(columns[number])

    def more_bytes(self, rows: int) -> int:
        """The bytes that all columns take more when converted: a bit for each null, or flag, becomes a byte."""
        return rows * self._widened + sum(column.more_bytes for column in self._columns if isinstance(column, _Whole))

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        made = list(zip(self._names, self._values, self._columns))
        return [{name: value(column[row]) for name, value, column in made} for row in rows]

    def converted(self) -> _Converted:
        columns = (column.column if isinstance(column, _Whole) else column_of(column) for column in self._columns)
        return _Converted(dict(zip(self._names, columns)))


class _Whole:
    """A column that was converted, whose values are asked for one by one."""

    def __init__(self, chunked: Any) -> None:
        self.column = column_of(chunked)
        self.more_bytes: int = self.column.nbytes - chunked.get_total_buffer_size()

    def __getitem__(self, row: int) -> Any:
        return self.column.take([row])[0]


class _Converted:
    """Columns as NumPy has them."""

    def __init__(self, columns: Mapping[str, DecodedColumn]) -> None:
        self._columns = columns

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        if len(rows) == 1:
            return [{name: column.take(rows)[0] for name, column in self._columns.items()}]
        records: list[dict[str, Any]] = [{} for _ in rows]
        for name, column in self._columns.items():
            for record, value in zip(records, column.take(rows)):
                record[name] = value
        return records


def _as_it_is(value: Any) -> Any:
    return value


def _value_of(kind: Any) -> ValueOf | None:
    """Makes the values of a `pyarrow.DataType` from its scalars; None where the whole column has a say.

    To convert one value takes a tenth of the time of its column. What it becomes must depend on its type alone: lists are not
    among these, as whether they are arrays depends on all lists of the column.
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
    return _narrow_float(dtype.type) if dtype.kind == "f" and dtype.itemsize < 8 else _number(dtype.type)


def _number(of: type) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        return None if value is None else of(value)

    return made


def _narrow_float(of: type) -> ValueOf:
    """Python's floats, which are wider, do not keep all bits of what is no number."""
    import pyarrow as pa

    def made(scalar: Any) -> Any:
        value = scalar.as_py()
        if value == value:
            return None if value is None else of(value)
        return pa.repeat(scalar, 1).to_numpy()[0]

    return made


def _time(dtype: Any) -> ValueOf:
    def made(scalar: Any) -> Any:
        value = scalar.value
        return None if value is None else np.int64(value).view(dtype)

    return made
