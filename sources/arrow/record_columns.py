"""Columns of the records, and what the table of a row group needs to have them.

In: the decoded columns of one file. Out: a table with the columns of the records, of their types.
Columns that the file lacks are null, and fields that folders name are the same in all rows. If the
file has a column of such a name, too, it must have the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...common.messages import short_repr, shorten
from ...errors import SourceError
from ...files.partitions import NULL, values_in
from .columns import has_views, plain
from .decoded import Form
from .same_values import castable, values_of


@dataclass(frozen=True)
class RecordColumns:
    """Columns of the records of all files. Picklable.

    Attributes:
        names: their names, in order.
        types: type of a column, a `pyarrow.DataType`, where it may differ from the column's type in
            a file.
        folders: names of the columns whose values are names of folders.
        top: folder below which names of folders are fields.
    """

    names: tuple[str, ...]
    types: dict[str, Any] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    top: str = ""

    def only(self, name: str) -> RecordColumns:
        """Return the same with one column alone, which may be another column of the files."""
        return replace(self, names=(name,), folders=self.folders & {name})


class FileColumns:
    """Columns of the records in one file. Threads may share it.

    Args:
        wanted: columns of the records.
        schema: Arrow schema of the file.
        path: path of the file.

    Raises:
        SourceError: the name of a folder is not a value of the column's type.
    """

    def __init__(self, wanted: RecordColumns, schema: Any, path: str) -> None:
        self._path = path
        texts = values_in(path, wanted.top) if wanted.folders else {}
        own = [
            name
            for name in wanted.names
            if name in schema.names and name not in wanted.folders & texts.keys()
        ]
        twice = [name for name in wanted.names if name in schema.names and name not in own]
        self.own = (*own, *twice)
        """Names of the columns that are read from the file."""
        self.asked = None if schema.names == [*self.own] else [*self.own]
        """The same as a list, for pyarrow; None for all columns of the file, in their order."""
        # columns that must have the value that the folder names
        self._twice = {name: texts[name] for name in twice}
        held = {name: schema.field(name).type for name in own}
        self._constants: dict[str, Any] = {
            name: self._constant(
                name, texts.get(name) if name in wanted.folders else None, wanted.types[name]
            )
            for name in wanted.names
            if name not in held
        }
        self._casts = {
            name: wanted.types[name]
            for name in own
            if name in wanted.types and values_of(held[name]) != values_of(wanted.types[name])
        }
        self._names = wanted.names
        types = {
            **held,
            **self._casts,
            **{name: value.type for name, value in self._constants.items()},
        }
        self.form = Form(wanted.names, [types[name] for name in wanted.names])

    def fitted(self, table: Any) -> Any:
        """Return the table of a row group with the columns of the records.

        Args:
            table: table with the columns `asked`.

        Raises:
            SourceError: a value cannot be converted to the column's type, or is another one than
                the folder names.
        """
        if not self._constants and not self._casts:
            return table
        import pyarrow as pa

        for name, text in self._twice.items():
            self._check_same(name, text, table.column(name))
        columns = [
            pa.repeat(self._constants[name], table.num_rows)
            if name in self._constants
            else self._cast(name, table.column(name))
            for name in self._names
        ]
        return pa.table(columns, names=list(self._names))

    def _cast(self, name: str, column: Any) -> Any:
        if name not in self._casts:
            return column
        import pyarrow as pa

        try:
            return cast_column(column, self._casts[name])
        except pa.ArrowException as error:
            raise SourceError(
                f"{shorten(self._path)}: column {short_repr(name)} is {shorten(column.type, 80)}, "
                f"and not all of its values can be read as {shorten(self._casts[name], 80)}: "
                f"{shorten(error)}. Pass schema= with a type of this column that holds the values "
                "of all files."
            ) from error

    def _check_same(self, name: str, text: str | None, column: Any) -> None:
        """Check that a column of the file has, in all rows, the value that a folder names.

        Args:
            name: name of the column and of the field.
            text: the value that the folder names; None for null.
            column: the column, a `pyarrow.ChunkedArray`.

        Raises:
            SourceError: it has another value.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = castable(column.type)
        try:
            value = pa.array([text], pa.string()).cast(kind)
            # nulls are equal here, and so are NaNs
            same = pc.is_in(cast_column(column, kind), value_set=value)
        except pa.ArrowException:  # no value of this type is so named
            same = pa.array([False] * min(len(column), 1))
        if (row := pc.index(same, False).as_py()) >= 0:
            raise SourceError(
                f"{shorten(self._path)}: the folder {_folder(name, text)} and the column "
                f"{short_repr(name)} of the file disagree: in a row, the column has "
                f"{short_repr(column[row].as_py())}. Pass partitioning=None to read the column and "
                "ignore the names of folders; or write the file without this column."
            )

    def _constant(self, name: str, text: str | None, kind: Any) -> Any:
        """Return the value of a column that is the same in all rows of a file, a `pyarrow.Scalar`.

        Args:
            name: name of the column.
            text: name of the folder that is the value; None for null.
            kind: type of the column.
        """
        import pyarrow as pa

        try:
            return (
                pa.array([text], pa.string()).cast(kind)[0]
                if text is not None
                else pa.nulls(1, kind)[0]
            )
        except pa.ArrowException as error:
            raise SourceError(
                f"{shorten(self._path)}: the folder {_folder(name, text)} does not name a value of "
                f"type {shorten(kind, 80)}, which the column {short_repr(name)} has. Pass schema= "
                "with another type of this column, or partitioning=None to ignore the names of "
                "folders."
            ) from error


def _folder(name: str, text: str | None) -> str:
    return short_repr(f"{name}={NULL if text is None else text}")


def cast_column(column: Any, kind: Any) -> Any:
    """Return a pyarrow array or chunked array, converted to a type.

    Floats may be rounded, or become infinite.

    Args:
        column: the array.
        kind: a `pyarrow.DataType`.

    Raises:
        pyarrow.ArrowException: pyarrow knows no such conversion, or a value does not fit the type.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([cast_column(chunk, kind) for chunk in column.chunks], kind)
    if has_views(column.type) and len(column):  # of which pyarrow 25 casts some to invalid arrays
        return pa.array(column.to_pylist(), castable(column.type)).cast(kind)
    try:
        return plain(column).cast(kind)
    except (
        pa.ArrowTypeError
    ):  # older releases cast no structs whose fields differ or are in another order
        if not pa.types.is_nested(kind):
            raise
        return pa.array(column.to_pylist(), kind)


def can_cast(held: Any, kind: Any) -> bool:
    """Return True if pyarrow can convert values of one type to another, at least those that fit.

    Args:
        held: type of the values, a `pyarrow.DataType`.
        kind: the other type.
    """
    import pyarrow as pa

    try:
        cast_column(pa.nulls(0, held), kind)
    except pa.ArrowException:
        return False
    return True


def target_types(schema: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the types to which the columns of a user's schema are converted.

    They are those that give the same values, see `castable`.

    Args:
        schema: the user's `pyarrow.Schema`.
        names: names of the columns.
    """
    return {name: castable(schema.field(name).type) for name in names}
