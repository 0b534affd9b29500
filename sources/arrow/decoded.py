"""In: a row group as an Arrow table. Out: its rows.

A few rows are made value by value. Only a row group that is asked for more of them is converted, column by column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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
        self.values = [value or (lambda found: found) for value in values]
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
        """Columns as Arrow has them, but for those that have to be converted as a whole; or all, converted. One value, so that
        threads see either."""

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """The rows of these numbers, counted from the beginning of the row group."""
        names, (columns, converted) = self._form.names, self._held
        self._given += len(rows)
        if converted is None and self._given <= _FEW:
            made = list(zip(names, self._form.values, columns))
            return [{name: value(column[row]) for name, value, column in made} for row in rows]
        if converted is None:
            converted = [column.column if isinstance(column, _Whole) else column_of(column) for column in columns]
            self._held = [], converted
        if len(rows) == 1:
            return [{name: column.take(rows)[0] for name, column in zip(names, converted)}]
        records: list[dict[str, Any]] = [{} for _ in rows]
        for name, column in zip(names, converted):
            for record, value in zip(records, column.take(rows)):
                record[name] = value
        return records


class _Whole:
    """A column that was converted, whose values are asked for one by one."""

    def __init__(self, chunked: Any) -> None:
        self.column = column_of(chunked)
        self.more_bytes: int = self.column.nbytes - chunked.get_total_buffer_size()

    def __getitem__(self, row: int) -> Any:
        return self.column.take([row])[0]


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
