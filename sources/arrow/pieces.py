"""In: arrays that lie in many pieces of memory, as the chunks of an Arrow table. Out: rows of them, read where they lie.

A table of a million rows has a thousand chunks. A batch touches hundreds of them: one call for each is slow, and to put them
together would copy the table. So NumPy is shown all of them as one array, from the first address to the last. What lies between
the pieces may belong to others, or not be there at all: it is never read.
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
    """The places of rows, `int64[rows]` each: pieces, and rows in these."""

    pieces: Int64s
    rows: Int64s


class Finder:
    """Finds the places of rows that are counted over pieces of so many rows.

    >>> Finder([2, 3]).places(np.array([4, 0]))
    Places(pieces=array([1, 0]), rows=array([2, 0]))
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._ends: Int64s = np.cumsum(lengths, dtype=np.int64)
        self._starts: Int64s = self._ends - np.asarray(lengths, np.int64)

    def places(self, rows: Int64s) -> Places:
        pieces = np.searchsorted(self._ends, rows, side="right")
        return Places(pieces, rows - self._starts[pieces])


def as_one(pieces: Sequence[Array]) -> tuple[Array, Int64s]:
    """Pieces of one dtype as one read-only array, and where in it each begins. Nothing is copied, unless one is not aligned.

    The pieces are C-contiguous arrays `[items]`, at least one; they are kept alive. Nothing but what lies in them may be read.

    >>> whole = np.arange(10)
    >>> items, starts = as_one([whole[6:9], whole[2:4]])
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
    """Memory from one address to another, for `np.asarray`; it keeps alive what lies there."""

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
    """Rows of one dtype and shape in many pieces.

    Args:
        pieces: C-contiguous arrays `[rows, *shape]` without an axis of length 0 in `shape`; at least one.

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
        self._items, self._starts = as_one([piece.reshape(-1) for piece in pieces])

    def take(self, places: Places) -> Array:
        """`[places, *shape]`, new."""
        at = self._starts[places.pieces] + places.rows * self._size
        if not self.shape:
            return self._items.take(at)
        rows: Array = self._windows()[at]
        return rows.reshape(len(at), *self.shape)

    def take_into(self, places: Places, out: Array) -> None:
        """The same into `out`, whose dtype holds all values of this one."""
        if self.shape or out.dtype != self.dtype:
            out[...] = self.take(places)
        else:
            at = self._starts[places.pieces] + places.rows
            self._items.take(at, 0, out, "clip")  # the places are rows that exist: "clip" only spares a buffer

    def _windows(self) -> Array:
        """`[items, size]`, overlapping: the row that begins at each item."""
        count = max(len(self._items) - self._size + 1, 0)
        steps = (self.dtype.itemsize, self.dtype.itemsize)
        return np.lib.stride_tricks.as_strided(self._items, (count, self._size), steps, writeable=False)
