"""Lengths of the values of a pyarrow column, from its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...errors import LengthsError


def column_named(name: str, names: Sequence[str], whose: str) -> str:
    """Return the column for a name: the column itself, or the one that contains the field, "meta" for "meta/tokens".

    Args:
        name: name of a column or field.
        names: names of all columns.
        whose: subject of the message, with its verb: "the files have".

    Raises:
        LengthsError: there is no such column.
    """
    for column in (name, name.split("/")[0]):
        if column in names:
            return column
    raise LengthsError(f"lengths={short_repr(name)}: {whose} no such column; there are {first_few(names, 8)}.")


def lengths_of_column(column: Any, name: str, own: str) -> npt.NDArray[np.int64]:
    """Return the length of each value of a pyarrow column, from its offsets: of lists, texts and bytes. Integers are lengths.

    A null has length 0.

    Args:
        column: the column.
        name: name of the column, or of a field in it.
        own: the column's own name.

    Raises:
        LengthsError: there is no such field, or values of its type have no length.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    column = _field(column, name[len(own) + 1 :].split("/") if name != own else [], name)
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if kinds.is_fixed_size_list(kind):
        found = pc.if_else(pc.is_valid(column), kind.list_size, 0)
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        found = pc.list_value_length(column)
    elif kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_binary(kind) or kinds.is_large_binary(kind):
        found = pc.binary_length(column)
    elif kinds.is_integer(kind):
        found = column
    else:
        raise LengthsError(
            f"lengths={short_repr(name)}: the column has values of type {shorten(kind, 80)}, which have no length; name one of "
            "lists, texts, bytes or whole numbers, or pass a function of a record."
        )
    return np.asarray(pc.fill_null(found, 0).cast(pa.int64()).to_numpy()).astype(np.int64, copy=False)


def _field(column: Any, path: Sequence[str], name: str) -> Any:
    """Return the field of nested structs; null where one of the structs is null."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    for part in path:
        known = [field.name for field in column.type] if kinds.is_struct(column.type) else []
        if part not in known:
            there = f"there are {first_few(known, 8)}" if known else f"there is {shorten(column.type, 80)}"
            raise LengthsError(f"lengths={short_repr(name)}: the column has no such field; {there}.")
        column = pc.struct_field(column, [known.index(part)])
    return column
