"""Rows into the memory of a batch, a few at a time.

In: elements, each with its row number. Out: a tree of arrays with a leading axis.

The first element fixes the layout: one column, `[batch_size, *shape]`, for each leaf. Later batches keep it as long as
their first element fits. Rows that are just like the first one are assigned column by column, many in one call of NumPy;
all others take the slow way, one by one, which finds out what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BatchError
from .protocol import Allocate, ArraySpec, Element
from .trees import Structure, flatten, is_leaf, leaf_names

CHUNK_ROWS, CHUNK_BYTES = 64, 1 << 18
"""Rows that wait to be copied together: few enough to be in the caches still, enough to pay for NumPy's call."""

_dtype_of = attrgetter("dtype")


def point_back(error: Exception, rows: int) -> None:
    """Note in an error that it is about the element that came this many before the last."""
    with suppress(AttributeError):  # exceptions of a user's with __slots__
        error.rows_back = rows  # type: ignore[attr-defined]


class Stack:
    """The batch in the making."""

    def __init__(self, size: int, allocate: Allocate) -> None:
        self._size = size
        self._allocate = allocate
        self._layout: Layout | None = None
        self.chunk = 1

    def add(self, row: int, elements: Sequence[Element]) -> None:
        """Copy elements into `row` and the rows after it; the row 0 of a batch comes first and alone.

        Raises:
            BatchError: one differs from the first in structure or in a leaf's shape.
        """
        if row == 0:
            self._add_first(elements[0])
        else:
            assert self._layout is not None
            self._layout.write_all(row, elements)

    def _add_first(self, element: Element) -> None:
        leaves, structure = flatten(element)
        if self._layout is None or not self._layout.fits(leaves, structure):
            self._layout = Layout(self._size, leaves, structure)
        self._layout.begin(structure, self._allocate)
        self._layout.write(0, element)
        self.chunk = self._layout.chunk

    def finish(self, rows: int) -> Element:
        """The batch of the first `rows` rows; its memory is the receiver's from now on."""
        assert self._layout is not None
        return self._layout.finish(rows)


class Layout:
    """The columns of a batch whose first element has these leaves."""

    def __init__(self, size: int, leaves: Sequence[Any], structure: Structure) -> None:
        self._structure = structure
        self._columns = [Column(name, size, leaf) for name, leaf in zip(leaf_names(self._structure), leaves)]
        self._plain = [column for column in self._columns if column.is_plain]
        self._specs = tuple(column.spec for column in self._plain)
        self._is_leaf = structure.is_leaf()
        flat_dict = structure.type is dict and structure.num_nodes == len(leaves) + 1
        self._names = structure.entries() if flat_dict else None
        row_bytes = sum(column.row_bytes for column in self._columns)
        self.chunk = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(row_bytes, 1)))

    def fits(self, leaves: Sequence[Any], structure: Structure) -> bool:
        """Whether a batch with this first element would get the same columns."""
        return structure == self._structure and all(map(Column.fits, self._columns, leaves))

    def begin(self, structure: Structure, allocate: Allocate) -> None:
        """Take memory for a batch; `structure` has the order of keys of its first element."""
        self._structure = structure
        for column, array in zip(self._plain, allocate(self._specs)):
            column.array = array
        for column in self._columns:
            if not column.is_plain:
                column.array = np.empty(column.spec.shape, column.spec.dtype)

    def finish(self, rows: int) -> Element:
        """Hand the columns over, cut to `rows`."""
        return self._structure.unflatten([column.finish(rows) for column in self._columns])

    def write_all(self, row: int, elements: Sequence[Element]) -> None:
        """Copy elements into consecutive rows."""
        leaves = self._leaves_by_column(elements)
        if leaves is not None and all(column.put_all(row, some) for column, some in zip(self._columns, leaves)):
            return
        for index, element in enumerate(elements):
            try:
                self.write(row + index, element)
            except BatchError as error:
                point_back(error, len(elements) - 1 - index)
                raise

    def filled(self, elements: Sequence[Element], allocate: Allocate) -> list[NDArray[Any]] | None:
        """The columns with all of `elements` in them; None unless each is exactly like the first."""
        leaves = self._leaves_by_column(elements)
        if leaves is None or len(self._plain) < len(self._columns):
            return None
        self.begin(self._structure, allocate)
        filled = all(column.put_all(0, some) for column, some in zip(self._columns, leaves))
        columns = [column.finish(len(elements)) for column in self._columns]
        return columns if filled else None

    def _leaves_by_column(self, elements: Sequence[Element]) -> list[Sequence[Any]] | None:
        """The leaves of many elements, by column; None when an element is not of this structure."""
        if self._is_leaf:
            return [elements]
        names, count = self._names, len(elements)
        try:
            if names is None:
                return list(zip(*map(self._structure.flatten_up_to, elements)))
            flat_dicts = list(map(type, elements)).count(dict) == list(map(len, elements)).count(len(names)) == count
            return [[element[name] for element in elements] for name in names] if flat_dicts else None
        except (KeyError, TypeError, ValueError):
            return None

    def write(self, row: int, element: Element) -> None:
        """Copy an element into a row, whatever it is like."""
        try:
            leaves = self._structure.flatten_up_to(element)
        except ValueError:
            raise self._mismatch(element) from None
        for column, leaf in zip(self._columns, leaves):
            if not is_leaf(leaf):
                raise self._mismatch(element)
            column.put(row, leaf)

    def _mismatch(self, element: Element) -> BatchError:
        return BatchError(
            f"elements of one batch differ in structure: the first is {_shown(self._structure)}, this one "
            f"{_shown(flatten(element)[1])} (* is a leaf, None is none); map them to one structure before Batch, or pass "
            "Batch(…, batch_fn=…)."
        )


class Column:
    """One leaf of the batch."""

    array: NDArray[Any]

    def __init__(self, name: str, size: int, example: Any) -> None:
        leaf = as_array(example)
        self.name = name
        self.spec = ArraySpec((size, *leaf.shape), np.result_type(leaf.dtype))
        self.row_bytes = leaf.nbytes
        self.is_plain = not self.spec.dtype.hasobject and self.spec.dtype.itemsize > 0
        self._shape = leaf.shape
        has_dtype = isinstance(example, (np.ndarray, np.generic))
        self._kind_of: Callable[[Any], Any] = _dtype_of if has_dtype else type
        self._kind = self._kind_of(example)
        self._many_at_once = self.is_plain and (has_dtype or self._kind in (bool, int, float, complex))

    def fits(self, leaf: Any) -> bool:
        """Whether a batch whose first leaf is this one would get the same column."""
        try:
            return bool(self._many_at_once and self._kind_of(leaf) == self._kind and np.shape(leaf) == self._shape)
        except AttributeError:
            return False

    def put_all(self, row: int, leaves: Sequence[Any]) -> bool:
        """Copy leaves into consecutive rows, if they are all of the first one's shape and dtype; whether they were."""
        if not self._many_at_once:
            return False
        try:
            if list(map(self._kind_of, leaves)).count(self._kind) < len(leaves):
                return False
            if self._shape and leaves[0].shape != self._shape:
                return False
            self.array[row : row + len(leaves)] = leaves  # refuses leaves of unequal shapes
        except (AttributeError, ValueError, OverflowError):
            return False
        return True

    def put(self, row: int, leaf: Any) -> None:
        """Copy a leaf into a row: of the same shape, in whatever guise or dtype.

        Raises:
            BatchError: it has another shape.
        """
        array = as_array(leaf)
        if array.shape != self._shape:
            raise self._unequal(array)
        if array.dtype != self.array.dtype:
            dtype = self._common_dtype(array)
            if dtype != self.array.dtype:
                self._promote(row, dtype)
        self.array[row] = array[()]  # of a 0-d array of dtype object, the object

    def _common_dtype(self, array: NDArray[Any]) -> np.dtype[Any]:
        try:
            return np.result_type(self.array.dtype, array.dtype)
        except TypeError:
            raise BatchError(
                f"leaf {self.name or 'of the element'} is of dtype {self.array.dtype} in one element of the batch and "
                f"{array.dtype} in another, which have no common dtype; map them to one before Batch."
            ) from None

    def _promote(self, rows: int, dtype: np.dtype[Any]) -> None:
        former, self.array = self.array, np.empty(self.spec.shape, dtype)
        self.array[:rows] = former[:rows]

    def _unequal(self, array: NDArray[Any]) -> BatchError:
        return BatchError(
            f"leaf {self.name or 'of the element'} has shape {self._shape} in one element of the batch and "
            f"{array.shape} in another; make them equal before Batch, or pass Batch(…, batch_fn=millrace.pad_batch())."
        )

    def finish(self, rows: int) -> NDArray[Any]:
        """The first `rows` rows, handed over."""
        array, self.array = self.array, _NOTHING
        return array if rows == len(array) else array[:rows]


_NOTHING: NDArray[Any] = np.empty(0)


def as_array(leaf: Any) -> NDArray[Any]:
    """A leaf as an array; strings, bytes and what NumPy has no dtype for as a 0-d array of dtype object."""
    if isinstance(leaf, np.ndarray):
        return leaf
    if isinstance(leaf, (dict, list, tuple)):
        raise BatchError(
            f"an element holds a {type(leaf).__qualname__}, whose parts cannot be stacked one by one; map it to a plain "
            "dict, list or tuple before Batch."
        )
    if not isinstance(leaf, (str, bytes)):
        array = np.asarray(leaf)
        if array.dtype.kind not in "OUS":
            return array
    box = np.empty((), dtype=object)
    box[()] = leaf
    return box


def _shown(structure: Structure) -> str:
    text = str(structure)
    return text.removeprefix("PyTreeSpec(").split(", namespace=")[0].removesuffix(")")
