"""Write records as rows of Parquet files, in row groups that are small enough for random reads.

Records are dicts with the columns of a schema. Arrays and numbers become the single column "value".
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ...common.validation import whole_number
from ...errors import ConversionError
from ..job import Output
from .arrow_values import array_of, pyarrow

VALUE = "value"
"""Name of the column for records that are arrays or numbers."""

LOOKED_AT = 1000
"""Number of records from which the columns are inferred if there is no schema."""

GROUP_ROWS, GROUP_BYTES = 256, 1 << 20
"""Default maximum rows of a row group, and bytes from which on it ends.

A random read decodes a whole group.
"""


class ParquetOutput(Output):
    """Output of a conversion: Parquet files.

    Args:
        schema: Arrow schema of all shards.
        options: options of `pyarrow.parquet.ParquetWriter`, and `row_group_size`.

    Raises:
        ConversionError: the writer does not accept the columns or the options.
    """

    suffix = ".parquet"

    def __init__(self, schema: Any, options: Mapping[str, Any]) -> None:
        self._schema, self._options = schema, {}
        self._group_rows = GROUP_ROWS
        try:
            self.open(io.BytesIO()).close()
        except pyarrow().ArrowException as error:
            raise ConversionError(
                f"a column of the records has a type that Parquet cannot store: {shorten(error)}. "
                "Pass transform=, a function that gives this column another type, or leaves it out."
            ) from error
        try:
            rows = options.get("row_group_size", GROUP_ROWS)
            self._group_rows = whole_number(
                "row_group_size", rows, 1, None, "a number of rows, such as 256"
            )
            self._options = {
                name: value for name, value in options.items() if name != "row_group_size"
            }
            self.open(
                io.BytesIO()
            ).discard()  # a file in memory, as only the writer knows its options
        except (
            pyarrow().ArrowException,
            AttributeError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            raise ConversionError(
                f"Parquet does not accept the options {short_repr(options)}: {shorten(error)}. "
                "Pass options= (--option NAME=VALUE) with arguments of "
                "pyarrow.parquet.ParquetWriter, such as {'compression': 'zstd'}."
            ) from error

    def identity(self) -> dict[str, Any]:
        columns = {field.name: str(field.type) for field in self._schema}
        options = {
            "row_group_size": self._group_rows,
            **{name: str(value) for name, value in self._options.items()},
        }
        return {"to": "parquet", "columns": columns, "options": options}

    def encode(self, records: list[Any]) -> Any:
        rows, known = list(map(_row, records)), frozenset(self._schema.names)
        for row in rows:
            if not row.keys() <= known:
                raise ConversionError(
                    f"a record has the columns {first_few(sorted(map(str, row.keys() - known)))}, "
                    "which the first records do not have. Pass transform=, a function that gives "
                    "all records the same columns."
                )
        columns = [
            array_of(field.name, [_plain(row.get(field.name)) for row in rows], field.type)
            for field in self._schema
        ]
        return pyarrow().Table.from_arrays(columns, schema=self._schema)

    def open(self, path: str | io.BytesIO) -> _ParquetWriter:
        import pyarrow.parquet as pq

        return _ParquetWriter(
            pq.ParquetWriter(path, self._schema, **self._options), self._group_rows
        )


class _ParquetWriter:
    """Writer that collects rows until they fill a row group."""

    def __init__(self, writer: Any, group_rows: int) -> None:
        self._writer, self._group_rows = writer, group_rows
        self._waiting: list[Any] = []

    def extend(self, encoded: Any) -> None:
        while len(encoded):
            room = self._group_rows - sum(map(len, self._waiting))
            self._waiting.append(encoded.slice(0, room))
            encoded = encoded.slice(room)
            rows, size = (
                sum(value)
                for value in zip(*((len(table), table.nbytes) for table in self._waiting))
            )
            if rows >= self._group_rows or size >= GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pyarrow().concat_tables(self._waiting).combine_chunks()
            self._writer.write_table(table, row_group_size=len(table))
        self._waiting = []

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def discard(self) -> None:
        self._waiting = []
        with suppress(Exception):  # of a full disk, once more
            self._writer.close()


def schema_of(records: Sequence[Any]) -> Any:
    """Return the Arrow schema that fits the values of the first records.

    Raises:
        ConversionError: a record is neither a dict nor an array or number; records have no columns;
            the name of a column is not a string; or a column has values of several types, or of one
            that Arrow does not know.
    """
    rows = list(map(_row, records))
    fields = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if not isinstance(name, str):
            raise ConversionError(
                f"the column name {short_repr(name)} is not a string. Pass transform=, a function "
                "that renames the column."
            )
        values = [_plain(row.get(name)) for row in rows]
        try:
            _check_times(values)  # pyarrow crashes when it infers their type
            fields.append(pyarrow().field(name, pyarrow().array(values).type))
        except (pyarrow().ArrowException, ValueError, TypeError, OverflowError) as error:
            raise ConversionError(
                f"the values of column {short_repr(name)} in the first {len(records)} records have "
                f"different types, or a type that Parquet cannot store: {shorten(error)}. Pass "
                "transform=, a function that gives this column one type, such as int, float, str, "
                "bytes or an array."
            ) from error
    if rows and not fields:
        raise ConversionError(
            f"the first {len(records)} records have no columns. Pass transform=, a function that "
            "returns a dict with at least one column."
        )
    return pyarrow().schema(fields)


def _check_times(values: Sequence[Any]) -> None:
    """Raise TypeError if `datetime64` values are mixed with other NumPy scalars, at any depth."""
    kinds = set(map(type, values))
    if np.datetime64 in kinds and any(
        issubclass(kind, np.generic) for kind in kinds - {np.datetime64}
    ):
        raise TypeError("the column must not contain both datetime64 and other NumPy types")
    lists: list[Any] = [value for value in values if isinstance(value, (list, tuple))]
    arrays = [value.reshape(-1) for value in values if isinstance(value, np.ndarray)]
    lists += [array if array.dtype == object else array[:1] for array in arrays]
    dicts = [value for value in values if isinstance(value, Mapping)]
    if lists:
        _check_times([item for value in lists for item in value])
    for name in {name for value in dicts for name in value}:
        _check_times([value[name] for value in dicts if name in value])


def _row(record: Any) -> Mapping[str, Any]:
    """Return the columns of a record, by name.

    Raises:
        ConversionError: the record is neither a dict nor an array or number.
    """
    if isinstance(record, Mapping):
        return record
    if isinstance(record, (np.ndarray, np.generic, int, float)):
        return {VALUE: record}
    if record is None:
        raise ConversionError(
            "a record is None. Pass transform=, a function that returns a value for each record. "
            "If you pass one, check that it has a return statement."
        )
    raise ConversionError(
        f"a record is {a_kind_of(record)} ({short_repr(record)}), but Parquet stores columns. Pass "
        'decode="example" or decode="json" if the records are bytes of this kind, or transform=, a '
        "function that returns a dict."
    )


def _plain(value: Any) -> Any:
    """Return a value in a form that Arrow accepts.

    An array with several axes becomes nested lists, one without axes a number.
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, np.datetime64) and value.dtype == np.dtype("datetime64[D]"):
        return value.item()  # Arrow takes no scalars of this dtype
    return value.tolist() if getattr(value, "ndim", 0) > 1 else value
