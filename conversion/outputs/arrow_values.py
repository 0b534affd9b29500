"""Values as Arrow arrays of a type that is given, if they are the same there. In: values of one column. Out: an array.

Arrow itself makes 2 of 2.5 in a column of whole numbers, and leaves out what a column of structs has no name for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ConversionError, MissingExtraError
from ...wording import brief, shown


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
        raise ConversionError(f"{_other(name, values, kind)} ({brief(error)})") from error
    if not _keeps(values, array):
        raise ConversionError(_other(name, values, kind))
    return array


def _other(name: str, values: Sequence[Any], kind: Any) -> str:
    value = shown(values[0] if len(values) == 1 else values)
    return (
        f"column {shown(name)} is {brief(kind, 60)}, as the first records are, and {value} is not; pass transform= to give "
        "all records one type."
    )


def _keeps(values: Sequence[Any], array: Any) -> bool:
    """Whether an array holds all that the values are."""
    try:
        kind = pyarrow().infer_type(values)
        return bool(kind == array.type) or _holds(array, pyarrow().array(values, kind))
    except (pyarrow().ArrowException, ValueError, TypeError, OverflowError):  # they have no one type that Arrow knows
        return len(values) == 1 or all(_keeps([value], array.slice(at, 1)) for at, value in enumerate(values))


def _holds(array: Any, given: Any) -> bool:
    """Whether an array has what another has that was made of the same values, with the types that they have."""
    types = pyarrow().types
    kind, whole = given.type, array.type
    if types.is_struct(kind) and types.is_struct(whole):
        parts = _parts(array)
        return all(name in parts and _holds(parts[name], part) for name, part in _parts(given).items())
    if types.is_list(kind) and hasattr(array, "flatten"):
        return _holds(array.flatten(), given.flatten())
    may_differ = (types.is_floating(kind) and types.is_integer(whole)) or (types.is_temporal(kind) and kind != whole)
    return not may_differ or bool(array.cast(kind).equals(given))


def _parts(array: Any) -> dict[str, Any]:
    """The arrays that an array of structs is made of."""
    return dict(zip([field.name for field in array.type], array.flatten()))


def pyarrow() -> Any:
    """The library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError('to="parquet" needs pyarrow: pip install "millrace[parquet]"') from error
    return pyarrow
