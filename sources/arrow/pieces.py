"""Rows of arrays that lie in many pieces of memory, such as the chunks of an Arrow table.

Rows are read where they are; the pieces are not joined. A table of a million rows has a thousand
chunks, and a batch may read hundreds of them. To read all of them by one call of NumPy, an array is
made that reaches from the first address of any piece to the last one. The memory between the pieces
may belong to other objects, or not exist. It is not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Places:
    """Places of rows in an array that is divided into several pieces of memory.

    Attributes:
        pieces: `int64[rows]`, index of the piece that has each row.
        rows: `int64[rows]`, index of each row within its piece.
    """

    pieces: Int64s
    rows: Int64s


class Finder:
    """Find the places of rows that are numbered over several pieces.

    `places(int64[n])` returns `Places`.

    Args:
        lengths: number of rows in each piece.

    >>> Finder([2, 3]).places(np.array([4, 0]))
    Places(pieces=array([1, 0]), rows=array([2, 0]))
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._ends: Int64s = np.cumsum(lengths, dtype=np.int64)
        self._starts: Int64s = self._ends - np.asarray(lengths, np.int64)

    def places(self, rows: Int64s) -> Places:
        pieces = np.searchsorted(self._ends, rows, side="right")
        return Places(pieces, rows - self._starts[pieces])


def joined_view(pieces: Sequence[Array]) -> tuple[Array, Int64s]:
    """Return an array that contains all pieces, and the index of each piece's first item in it.

    Nothing is copied, unless a piece is not aligned. The array must not be changed, nor may items
    between pieces be read.

    Args:
        pieces: C-contiguous arrays `[items]` of one dtype, at least one. The result keeps them
            alive.

    >>> whole = np.arange(10)
    >>> items, starts = joined_view([whole[6:9], whole[2:4]])
    >>> starts, items[starts[0]]
    (array([4, 0]), np.int64(6))
    """
    addresses = np.array([piece.__array_interface__["data"][0] for piece in pieces], np.int64)
    sizes, itemsize = np.array([piece.nbytes for piece in pieces], np.int64), pieces[0].itemsize
    if (addresses % itemsize).any():
        return np.concatenate(pieces), (np.cumsum(sizes) - sizes) // itemsize
    full = sizes > 0
    if not full.any():
        return pieces[0], np.zeros(len(pieces), np.int64)
    first, last = int(addresses[full].min()), int((addresses + sizes)[full].max())
    return np.asarray(_Range(first, last, pieces)), np.where(full, addresses - first, 0) // itemsize


class _Range:
    """Range of memory addresses, which `np.asarray` converts to an array.

    It keeps the pieces in it alive.

    Args:
        first: address of the first byte.
        last: address after the last byte.
        pieces: arrays of one dtype that lie in the range.
    """

    def __init__(self, first: int, last: int, pieces: Sequence[Array]) -> None:
        self._pieces = pieces
        dtype = pieces[0].dtype
        self.__array_interface__ = {
            "data": (first, True),  # read-only
            "shape": ((last - first) // dtype.itemsize,),
            "typestr": dtype.str,
            "version": 3,
        }


class PieceRows:
    """Rows of one dtype and shape that lie in many pieces of memory.

    Args:
        pieces: C-contiguous arrays `[rows, *shape]`, at least one. No axis in `shape` has length 0.

    >>> rows = PieceRows([np.array([[0, 1], [2, 3]]), np.array([[4, 5]])])
    >>> rows.take(Finder([2, 1]).places(np.array([2, 0])))
    array([[4, 5],
           [0, 1]])
    """

    def __init__(self, pieces: Sequence[Array]) -> None:
        self.shape: tuple[int, ...] = pieces[0].shape[1:]
        self.dtype = pieces[0].dtype
        self.nbytes = sum(piece.nbytes for piece in pieces)
        self._size = math.prod(self.shape)
        self._items, self._starts = joined_view([piece.reshape(-1) for piece in pieces])

    def take(self, places: Places) -> Array:
        """Return a new array of the rows at these places, `[places, *shape]`."""
        at = self._starts[places.pieces] + places.rows * self._size
        if not self.shape:
            return self._items.take(at)
        rows: Array = self._windows()[at]
        return rows.reshape(len(at), *self.shape)

    def take_into(self, places: Places, out: Array) -> None:
        """Copy the rows at these places into `out`, `[places, *shape]`.

        Its dtype must be able to hold all values.
        """
        if self.shape or out.dtype != self.dtype:
            out[...] = self.take(places)
        else:
            at = self._starts[places.pieces] + places.rows
            # the places are rows that exist: "clip" only spares a buffer
            self._items.take(at, 0, out, "clip")

    def _windows(self) -> Array:
        """Return a view `[n, size]` of all items: row i begins at item i.

        `size` is the number of items in a row.

        The rows of this view overlap; only some of them are rows of the data.
        """
        count = max(len(self._items) - self._size + 1, 0)
        steps = (self.dtype.itemsize, self.dtype.itemsize)
        return np.lib.stride_tricks.as_strided(
            self._items, (count, self._size), steps, writeable=False
        )
