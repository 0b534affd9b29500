"""Lengths of the values in a pyarrow column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...errors import LengthsError
from .columns import without_views


def column_named(name: str, names: Sequence[str], whose: str) -> str:
    """Return the name of the column that contains a field: "meta" for "meta/tokens".

    A column that is itself called "meta/tokens" comes first.

    Args:
        name: name of a column, or path of a field in it.
        names: names of all columns.
        whose: subject and verb of the error message, such as "the files have".

    Raises:
        LengthsError: there is no such column.
    """
    for column in (name, name.split("/")[0]):
        if column in names:
            return column
    raise LengthsError(
        f"lengths={short_repr(name)}: {whose} no column of this name. Name one of the columns: "
        f"{first_few(names, 8)}."
    )


def lengths_of_column(column: Any, name: str, own: str) -> npt.NDArray[np.int64]:
    """Return the length of each value in a pyarrow column, `int64[rows]`.

    The length of a list, text or bytes value is its number of items, or of bytes for texts. An
    integer is a length itself. A null has length 0.

    Args:
        column: pyarrow column.
        name: name of the column, or path of a field in it.
        own: name of the column.

    Raises:
        LengthsError: there is no such field, or values of its type have no length.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    column = _field(column, name[len(own) + 1 :].split("/") if name != own else [], name)
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = without_views(column)
    kind = column.type
    if kinds.is_fixed_size_list(kind):
        found = pc.if_else(pc.is_valid(column), kind.list_size, 0)
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        found = pc.list_value_length(column)
    elif (
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
    ):
        found = pc.binary_length(column)
    elif kinds.is_fixed_size_binary(kind):
        found = pc.if_else(pc.is_valid(column), kind.byte_width, 0)
    elif kinds.is_integer(kind) or kinds.is_null(kind):
        found = column
    else:
        raise LengthsError(
            f"lengths={short_repr(name)}: the values of this column, of type {shorten(kind, 80)}, "
            "have no length. Name a column of lists, texts, bytes or whole numbers, or pass a "
            "function of a record."
        )
    return np.asarray(pc.fill_null(found, 0).cast(pa.int64()).to_numpy()).astype(
        np.int64, copy=False
    )


def _field(column: Any, path: Sequence[str], name: str) -> Any:
    """Return a field of nested structs as a column.

    The value is null where a struct around it is null.

    Args:
        column: pyarrow column.
        path: names of the fields, from outside to inside; may be empty.
        name: the user's name of the field, for the message.

    Raises:
        LengthsError: there is no such field.
    """
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    parent = name.removesuffix("/".join(["", *path]))
    for part in path:
        known = [field.name for field in column.type] if kinds.is_struct(column.type) else []
        if part not in known:
            remedy = (
                f"Name one of its fields: {first_few([f'{parent}/{field}' for field in known], 8)}"
                if known
                else f"Its type is {shorten(column.type, 80)}. Pass lengths={short_repr(parent)}"
            )
            raise LengthsError(
                f"lengths={short_repr(name)}: {short_repr(parent)} has no field "
                f"{short_repr(part)}. {remedy}."
            )
        parent = f"{parent}/{part}"
        column = pc.struct_field(column, [known.index(part)])
    return column
