"""Rows of a row group that is decoded to an Arrow table.

A few rows are converted value by value. A row group of which more rows are requested is converted column by column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .columns import DecodedColumn, column_of, is_list, is_scalar

ValueOf = Callable[[Any], Any]

_FEW = 4
"""Number of rows of a row group that are converted value by value. Converting a column takes as long as a few values."""


class Form:
    """Columns that row groups share, by name and type (`pyarrow.DataType`), and functions that convert their values."""

    def __init__(self, names: Sequence[str], kinds: Sequence[Any]) -> None:
        import pyarrow as pa

        self.names = tuple(names)
        self._places: list[int] | None = None
        values = [_value_of(kind) for kind in kinds]
        self.values = [value or (lambda found: found) for value in values]
        self.wholes = [number for number, value in enumerate(values) if value is None]
        """Columns whose values depend on the whole column. They are converted at once."""
        self.flags = sum(1 for kind in kinds if kind == pa.bool_())
        """Number of columns with values of one bit."""

    def columns(self, table: Any) -> list[Any]:
        """Return the columns of a table by name. All tables of a form have the same columns in the same order."""
        if self._places is None:
            present = table.column_names
            self._places = [present.index(name) for name in self.names]
        columns = table.columns
        return [columns[place] for place in self._places]


class DecodedRows:
    """Decoded row group, from a table with at least the columns of `form`. Thread-safe.

    `nbytes` is the memory with all columns converted.
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
        """Arrow columns, except those that must be converted as a whole; or all columns, converted. One attribute, so
        that threads see one of the two.
        """

    def rows(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return the rows of these numbers, counted from the beginning of the row group."""
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
    """Converted column whose values are requested one by one."""

    def __init__(self, chunked: Any) -> None:
        self.column = column_of(chunked)
        self.more_bytes: int = self.column.nbytes - chunked.get_total_buffer_size()

    def __getitem__(self, row: int) -> Any:
        return self.column.take([row])[0]


def _value_of(kind: Any) -> ValueOf | None:
    """Return a function that converts scalars of a `pyarrow.DataType`, or None if the result depends on the whole column.

    Converting one value takes a tenth of the time of its column. Lists are not converted this way, because whether they become
    arrays depends on all lists of the column.
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
    """Return a converter to a narrow float. Python's wider floats do not keep all bits of NaN."""
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
