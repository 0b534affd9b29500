"""Choose which arrays of a file are read, and check that they have equally many rows.

In: the names that a user passed, and the arrays of the file. Out: names, and the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...common.messages import first_few, short_repr, shorten
from ...errors import NoRecordsError


def names_of(names: Any) -> tuple[str, ...] | None:
    """Return the names that a user passed as a tuple; None for all arrays.

    Raises:
        TypeError: it is neither a name nor a list of names.
    """
    if names is None:
        return None
    found = (
        (names,)
        if isinstance(names, str)
        else tuple(names)
        if isinstance(names, Iterable)
        else (None,)
    )
    if not all(isinstance(name, str) for name in found):
        raise TypeError(
            f"{short_repr(names)} does not name arrays. Pass the name of an array, a list of "
            "names, or None for all arrays."
        )
    return found


def chosen_names(
    names: tuple[str, ...] | None, arrays: Mapping[str, Any], path: str
) -> tuple[str, ...]:
    """Return the names of the arrays to read.

    Args:
        names: names that the user passed; None for all arrays.
        arrays: all arrays of the file, by name.
        path: path of the file, for messages.

    Raises:
        ValueError: there is no array of a name, or the list of names is empty.
        NoRecordsError: the file has no arrays.
    """
    chosen = tuple(arrays) if names is None else names
    unknown = [name for name in chosen if name not in arrays]
    if unknown:
        remedy = (
            f"Name some of its arrays: {first_few(arrays, 8)}"
            if arrays
            else "Pass another file, as it has no arrays"
        )
        if "" in arrays:
            remedy = "It is a single array without a name: leave the names out"
        raise ValueError(
            f"{shorten(path)} has no array {first_few(list(map(short_repr, unknown)))}. {remedy}."
        )
    if names == ():
        raise ValueError(
            "the list of names is empty. Pass names of arrays, or None for all arrays."
        )
    if not chosen:
        raise NoRecordsError(f"{shorten(path)} has no array to read. Pass another file.")
    return chosen


def common_length(layout: Sequence[tuple[str, str, tuple[int, ...]]], path: str) -> int:
    """Return the number of rows of a file's arrays.

    Args:
        layout: name, dtype and shape of each array.
        path: path of the file, for messages.

    Raises:
        ValueError: an array is a single value, or the arrays have unequal numbers of rows.
        NoRecordsError: the arrays have no rows.
    """
    for name, _, shape in layout:
        if not shape:
            raise ValueError(
                f"{shorten(path)}: array {short_repr(name)} is a single value, without rows. Read "
                "only arrays whose first axis counts records."
            )
    lengths = {name: shape[0] for name, _, shape in layout}
    if len(set(lengths.values())) > 1:
        rows_by_array = first_few([f"{name}: {length}" for name, length in lengths.items()], 8)
        raise ValueError(
            f"{shorten(path)}: arrays have unequal numbers of rows ({rows_by_array}). Name arrays "
            "that have the same number of rows."
        )
    count = next(iter(lengths.values()))
    if not count:
        raise NoRecordsError(
            f"{shorten(path)}: there are 0 rows in {first_few(lengths, 8)}. Write at least one "
            "row, or name other arrays."
        )
    return count
