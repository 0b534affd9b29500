"""Values as Arrow arrays of a type that is given, if they are the same there. In: values of one column. Out: an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...common.messages import short_repr, shorten
from ...errors import ConversionError, MissingExtraError
from .same_values import holds


def array_of(name: str, values: Sequence[Any], kind: Any) -> Any:
    """The values of a column.

    Raises:
        ConversionError: some cannot be, or would be others, in an array of this type.

    >>> array_of("x", [1, 2.0, None], pyarrow().int64()).to_pylist()
    [1, 2, None]
    """
    try:
        array = pyarrow().array(values, kind)
    except (pyarrow().ArrowException, ValueError, TypeError, OverflowError) as error:
        raise ConversionError(f"{_other(name, values, kind)} ({shorten(error)})") from error
    if not holds(array, values):
        raise ConversionError(_other(name, values, kind))
    return array


def _other(name: str, values: Sequence[Any], kind: Any) -> str:
    value = short_repr(values[0] if len(values) == 1 else values)
    return (
        f"column {short_repr(name)} is {shorten(kind, 60)}, as the first records are, and {value} is not; pass transform= to "
        "give all records one type."
    )


def pyarrow() -> Any:
    """The library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError('to="parquet" needs pyarrow: pip install "headrace[parquet]"') from error
    return pyarrow
