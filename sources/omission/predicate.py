"""Select records by a user's predicate of file and row.

If the source's facts have `file_runs`, the predicate is called with the name of a file and an array
of many row indices. If that raises an exception, or does not return bools (one for all rows, or one
for each), it is called for each row. For other sources, it is called for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, short_repr
from ...errors import SourceError
from ..facts import facts_of, used_records
from ..provenance import FilePlace, FileRun

Int64s = npt.NDArray[np.int64]

FileAndRow: TypeAlias = Callable[[str, Any], Any]
"""Type of a predicate `(file, row)` that returns True for rows to omit.

`row` is an int, or an array of ints.
"""


class RowNumbers(np.ndarray[Any, np.dtype[np.int64]]):
    """Array of row numbers that raises TypeError if it is used as one number, e.g. by `int(row)`.

    A predicate that does so cannot handle arrays, and is called for each row instead.
    """

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            "row is an array with the numbers of several rows, so the function must use it as an "
            "array"
        )

    __str__ = __repr__ = __format__ = __int__ = __index__ = __bool__ = __float__ = __contains__ = (
        _refuse
    )


def selected_keys(source: Any, predicate: FileAndRow) -> Int64s:
    r"""Return the keys of the records for which a predicate returns True, `int64[n]`, ascending.

    A record that consists of several records is selected if the predicate is true for one of them.

    Args:
        source: source of the records.
        predicate: takes the name of a file and a row, and returns a bool.

    Raises:
        SourceError: the source does not know the files of its records.
        TypeError: the predicate does not return bools.

    >>> import tempfile, pathlib, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.jsonl").write_text("1\n2\n3\n")
    ...     selected_keys(headrace.JsonLinesDataSource(folder), lambda file, row: row == 1).tolist()
    [1]
    """
    find_runs = facts_of(source).file_runs
    if find_runs is not None:
        return _chosen_in_runs(find_runs(), predicate)
    picked = [
        key
        for key in range(len(source))
        if any(_is_true(predicate, place.file, place.record) for place in _places(source, key))
    ]
    return np.array(picked, dtype=np.int64)


def _chosen_in_runs(runs: Iterator[FileRun], predicate: FileAndRow) -> Int64s:
    found = [np.empty(0, np.int64)]
    for run in runs:
        found.append(
            np.flatnonzero(_of_rows(predicate, run.file, run.record, run.records)).astype(np.int64)
            + run.key
        )
    return np.concatenate(found)


def _of_rows(predicate: FileAndRow, file: str, first: int, count: int) -> npt.NDArray[np.bool_]:
    """Return the results of a predicate for consecutive rows of a file, `bool[count]`.

    If there are several rows, it is called once with the array of all row indices. If that raises
    an exception, or the result is neither `bool[count]` nor a single bool, it is called for each
    row.

    Args:
        predicate: takes the name of a file and a row (or an array of rows), and returns a bool (or
            an array).
        file: name of the file.
        first: first row.
        count: number of rows.

    Raises:
        TypeError: for a single row, the predicate does not return a bool.
        Exception: an error that the predicate raises for a single row.
    """
    rows = np.arange(first, first + count, dtype=np.int64)
    if count > 1:
        try:
            chosen = np.asarray(predicate(file, rows.view(RowNumbers)))
        except (
            Exception
        ):  # it takes single rows alone; whatever else is wrong is told of the first row
            chosen = np.empty(0)
        if chosen.dtype == np.bool_ and chosen.shape in ((), (count,)):
            return np.broadcast_to(chosen.view(np.ndarray), (count,))
    return np.array([_is_true(predicate, file, row) for row in rows.tolist()], dtype=bool)


def _is_true(predicate: FileAndRow, file: str, row: int) -> bool:
    told = predicate(file, row)
    if isinstance(told, (bool, np.bool_)):
        return bool(told)
    raise TypeError(
        f"the function of file and row returned {short_repr(told)}, {a_kind_of(told)}, for row "
        f"{row} of {short_repr(file)}. Return True if the record is meant, or False."
    )


def _places(source: Any, key: int) -> list[FilePlace]:
    """Return the file and row of each record from which the record of `key` is made.

    Raises:
        SourceError: a source does not know the files of its records.
    """
    places = []
    for used in used_records(source, key):
        place = facts_of(used.source).file_place(used.key)
        if place is None:
            raise SourceError(
                f"a function of file and row was passed, but {type(used.source).__name__} does not "
                "state in which files its records are (file_place of its facts). Pass a list of "
                "record keys in place of the function."
            )
        places.append(place)
    return places
