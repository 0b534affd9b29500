"""An array that is open, and functions that read one row of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class OpenedArray(NamedTuple):
    """An array, and facts about it that h5py takes microseconds to find."""

    array: Any
    chunk_rows: int | None
    row_bytes: int
    is_plain: bool
    """True for numbers: nothing is decoded."""
    read_row: Callable[[int], Array] | None
    """Reads one row, read-only. None if rows are read in runs."""


def bytes_of(rows: Array) -> int:
    """Return the bytes of memory of rows, with those of texts and arrays of unequal length."""
    if not rows.dtype.hasobject:
        return rows.nbytes
    sizes = (
        value.nbytes if isinstance(value, np.ndarray) else sys.getsizeof(value)
        for value in rows.flat
    )
    return rows.nbytes + sum(sizes)


def read_row(array: Any, row: int) -> Array:
    """Return a row of an array of numbers, read-only."""
    values = np.asarray(array[row])
    values.setflags(write=False)
    return values


def row_bytes_of(array: Any) -> int:
    """Return the number of bytes of a row of an array, at least 1."""
    return max(int(np.prod(array.shape[1:], dtype=np.int64)) * int(array.dtype.itemsize), 1)
