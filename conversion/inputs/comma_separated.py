"""Read the rows of CSV files as dicts.

The first line names the columns. CSV has no types. They are guessed once, from the first rows of
the first file that has rows, and are used for all files, so that all shards have the same columns.
Format: https://www.rfc-editor.org/rfc/rfc4180.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, zip_longest
from typing import Any, BinaryIO

from ...common.messages import short_repr, shorten
from ...errors import SourceError
from ..job import OnDamage

GUESSED_FROM = 1000
"""Number of rows from which types are guessed."""

FIELD_CHARACTERS = 1 << 28
"""Maximum number of characters in a value.

Without a limit, a quote that is not closed would fill the memory.
"""


def _number(kind: type) -> Callable[[str], Any]:
    """Return a parser of numbers.

    It rejects `12_34` and digits of other scripts, which Python accepts.
    """

    def number(value: str) -> Any:
        try:
            if "_" not in value and value.isascii():
                return kind(value)
        except ValueError:
            pass
        raise ValueError(
            f"the value {short_repr(value)} must be a number of type {kind.__name__}, like the "
            "values of this column in the first lines, written with the digits 0 to 9 and without _"
        )

    return number


_TYPES: dict[str, Callable[[str], Any]] = {
    "int": _number(int),
    "float": _number(float),
    "text": str,
}
"""Types of columns, from the narrowest to the widest, each with its parser."""


def guessed_types(stream: BinaryIO, name: str) -> tuple[dict[str, str], int]:
    r"""Guess the type of each column from the first rows: the narrowest type that fits.

    Empty values do not count.

    Args:
        stream: file at its beginning.
        name: name of the file, for messages.

    Returns:
        Type of each column, "int", "float" or "text"; and the number of rows from which they were
        guessed. Rows with another number of values are not used.

    >>> guessed_types(io.BytesIO(b"a,b,c\n1,2.5,x\n2,,\n"), "x.csv")
    ({'a': 'int', 'b': 'float', 'c': 'text'}, 2)
    """
    rows = _rows(stream, name)
    columns = _columns(rows, name)
    found: list[list[str]] = []
    with suppress(SourceError):  # it is told when the rows are converted
        found.extend(row for _, row in islice(rows, GUESSED_FROM) if len(row) == len(columns))
    types = {
        column: _narrowest([row[place] for row in found]) for place, column in enumerate(columns)
    }
    return types, len(found)


def read_records(
    stream: BinaryIO, name: str, types: Mapping[str, str], on_damage: OnDamage = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield `(line, row)` for each row: the number of its first line, and the row as a dict.

    Args:
        stream: file at its beginning.
        name: name of the file, for messages.
        types: type of each column in order: "int", "float" or "text". An empty number becomes None.
        on_damage: function that is called with the error for each row that is skipped. None
            (default): the error is raised.

    Raises:
        SourceError: the columns differ from `types`, or the file is not valid CSV, also with
            `on_damage`; or a row does not fit the columns.

    >>> list(read_records(io.BytesIO(b"a,b\n1,x\n,y\n"), "x.csv", {"a": "int", "b": "text"}))
    [(2, {'a': 1, 'b': 'x'}), (3, {'a': None, 'b': 'y'})]
    """
    rows = _rows(stream, name)
    columns = _columns(rows, name)
    if columns != list(types):
        number, (found, first) = next(
            each for each in enumerate(zip_longest(columns, types), 1) if each[1][0] != each[1][1]
        )
        this, that = (
            "missing" if column is None else short_repr(column) for column in (found, first)
        )
        raise SourceError(
            f"{shorten(name)}: column {number} is {this}, but in the first file it is {that}. "
            "Convert files with different columns in separate conversions."
        )
    convert = [_TYPES[types[column]] for column in columns]
    for line, row in rows:
        try:
            if len(row) != len(columns):
                raise ValueError(
                    f"the line has {len(row)} values, but the file has {len(columns)} columns; "
                    "each needs one value"
                )
            if not _is_utf8(row):
                raise ValueError(f"the line must be in UTF-8, but it is {short_repr(row)}")
            each = zip(columns, convert, row)
            record = {
                column: kind(value) if value or kind is str else None
                for column, kind, value in each
            }
        except ValueError as error:
            what = f"{shorten(name)}, line {line}: {shorten(error)}"
            damage = SourceError(f'{what}. Correct the line, or pass on_error="skip".')
            if on_damage is None:
                raise damage from None
            on_damage(damage)
        else:
            yield line, record


def _rows(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    # one for the process, and 128 KiB
    csv.field_size_limit(max(csv.field_size_limit(), FIELD_CHARACTERS))
    reader = csv.reader(
        io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline=""), strict=True
    )
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise SourceError(
            f"{shorten(name)}, line {line} is not valid CSV: {shorten(error)}. Correct the line."
        ) from error


def _columns(rows: Iterator[tuple[int, list[str]]], name: str) -> list[str]:
    columns = next(rows, (0, []))[1]
    if not _is_utf8(columns):
        raise SourceError(
            f"{shorten(name)}, line 1 is not in UTF-8 ({short_repr(columns)}). Save the file in "
            "UTF-8."
        )
    if not columns:
        raise SourceError(
            f"{shorten(name)}: the file is empty or begins with an empty line. Write the names of "
            "the columns there."
        )
    if len(set(columns)) < len(columns):
        raise SourceError(
            f"{shorten(name)}: the first line is {short_repr(columns)}, but it must name each "
            "column once. Write a different name for each column into the first line."
        )
    if len(columns) == 1 and ("\t" in columns[0] or ";" in columns[0]):
        separator = "tabs" if "\t" in columns[0] else "semicolons"
        raise SourceError(
            f"{shorten(name)}: the first line is separated by {separator}, not by commas "
            f"({short_repr(columns[0])}). Save the file with commas."
        )
    return columns


def _narrowest(values: list[str]) -> str:
    filled = [value for value in values if value]
    for name, kind in _TYPES.items() if filled else ():
        with suppress(ValueError):
            for value in filled:
                kind(value)
            return name
    return "text"


def _is_utf8(row: list[str]) -> bool:
    """Return True if all values of a row are valid UTF-8. Invalid bytes were read as surrogates."""
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return False
    return True
