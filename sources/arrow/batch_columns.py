"""Columns of a batch of records of a dataset of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..parts import LastResult
from .columns import Array
from .pieces import Int64s, PieceRows, Places
from .table import Text


class BatchColumn:
    """Column of numbers, with the part of an array's interface that `Batch` uses.

    It has dtype, shape, and `take` by keys.

    Args:
        rows: rows of the table's column.
        length: number of rows of the dataset.
        dtype: dtype of batches.
        places: finds the places of keys in the table.
    """

    def __init__(
        self, rows: PieceRows, length: int, dtype: npt.DTypeLike, places: LastResult[Places]
    ) -> None:
        self._rows = rows
        self._places = places
        self.dtype = np.dtype(dtype)
        self.shape = (length, *rows.shape)
        self.nbytes = length * self.dtype.itemsize * int(np.prod(rows.shape))

    def __len__(self) -> int:
        return int(self.shape[0])

    def take(self, keys: Int64s, axis: Literal[0], out: Array, mode: Literal["clip"]) -> None:
        """Copy the rows of `keys` into `out`, like `np.ndarray.take`.

        `axis` and `mode` are always 0 and "clip".
        """
        self._rows.take_into(self._places.of(keys), out)


class BatchTexts:
    """Column of strings or bytes, with the members of `sources.protocol.TextColumn`.

    Args:
        values: function that returns the values of keys `int64[n]`.
        column: the table's column.
        length: number of rows of the dataset.
    """

    is_text: ClassVar[Literal[True]] = True
    dtype = np.dtype(object)

    def __init__(self, values: Callable[[Int64s], list[Any]], column: Text, length: int) -> None:
        self._values = values
        self.shape = (length,)
        self.nbytes = column.ragged.items_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def rows_of(self, keys: Int64s) -> tuple[Array, Int64s]:
        """Return the values of `keys` as an array of objects, and their positions, `0, 1, …`."""
        values = np.empty(len(keys), object)
        values[:] = self._values(keys)
        return values, np.arange(len(keys))


def stacked(rows: PieceRows) -> npt.DTypeLike | None:
    """Return the dtype of an array made of a column's values as Python numbers.

    Return None if it depends on the values.

    Args:
        rows: rows of the column. For lists, and for uint64, the result is None.
    """
    if rows.shape or rows.dtype == np.uint64:
        return None
    return {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[rows.dtype.kind]
