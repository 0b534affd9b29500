"""Rows into the memory of a batch, a few at a time.

In: elements, each with its row number. Out: a tree of arrays with a leading axis.

The first element fixes the layout: one column, `[batch_size, *shape]`, for each leaf. Later batches keep it as long as
their first element fits. Rows that are just like the first one are copied column by column, many in one call of NumPy;
all others take the slow way, one by one, which finds out what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BatchError
from ..wording import brief
from .protocol import Allocate, ArraySpec, Element
from .trees import Structure, flatten, is_leaf, leaf_names

CHUNK_ROWS, CHUNK_BYTES = 64, 1 << 18
"""Rows that wait to be copied together: few enough to be in the caches still, enough to pay for NumPy's call."""

PYTHON_NUMBERS = (bool, int, float, complex)

_dtype_of = attrgetter("dtype")


class Stack:
    """The batch in the making.

    Attributes:
        chunk: rows that are worth copying at a time.
        row: the one that is copied; after a failure, the one at fault.
    """

    def __init__(self, size: int, allocate: Allocate) -> None:
        self._size = size
        self._allocate = allocate
        self._layout: Layout | None = None
        self.chunk = 1
        self.row = 0

    def add(self, row: int, elements: Sequence[Element]) -> None:
        """Copy elements into `row` and the rows after it; a batch begins with row 0.

        Raises:
            BatchError: one differs from the first in structure or in a leaf's shape.
        """
        layout = self._layout
        self.row = row
        if row > 0:
            assert layout is not None
            if len(elements) != 1 or not layout.put_one(row, elements[0]):
                self._write_all(layout, row, elements)
        elif layout is None or not layout.begin_with(elements, self._allocate):
            self._begin(elements)

    def _begin(self, elements: Sequence[Element]) -> None:
        """Begin a batch whose first element may need another layout."""
        self.row = 0
        leaves, structure = flatten(elements[0])
        if self._layout is None or not self._layout.fits(leaves, structure):
            self._layout = Layout(self._size, leaves, structure)
        layout = self._layout
        layout.begin(structure, self._allocate)
        layout.write(0, elements[0])
        self.chunk = layout.chunk
        self._write_all(layout, 1, elements[1:])

    def _write_all(self, layout: Layout, row: int, elements: Sequence[Element]) -> None:
        if len(elements) > 1 and layout.put(row, elements):
            return
        for self.row, element in enumerate(elements, row):
            layout.write(self.row, element)

    def finish(self, rows: int) -> Element:
        """The batch of the first `rows` rows; its memory is the receiver's from now on."""
        assert self._layout is not None
        return self._layout.finish(rows)


class Layout:
    """The columns of a batch whose first element has these leaves.

    Args:
        size: rows.
        leaves: of the first element.
        structure: of the first element.
        exact: whether `put` refuses other types of leaves and another order of keys, too, which make no other batch.
    """

    def __init__(self, size: int, leaves: Sequence[Any], structure: Structure, exact: bool = False) -> None:
        self._structure = structure
        self._exact = exact
        self._columns = [Column(name, size, leaf, exact) for name, leaf in zip(leaf_names(self._structure), leaves)]
        self._plain = [column for column in self._columns if column.is_plain]
        self._specs = tuple(column.spec for column in self._plain)
        self._alike = self._plain == self._columns and all(column.many_at_once for column in self._columns)
        self._is_leaf = structure.is_leaf()
        is_flat = structure.num_nodes == len(leaves) + 1 and structure.type in (dict, list, tuple)
        self._flat: Any = structure.type if is_flat else None
        self._names = structure.entries() if self._flat is dict else None
        self._places = range(len(leaves)) if self._names is None else self._names
        self._order: list[Any] = []  # the same names in the order of the first element
        row_bytes = sum(column.row_bytes for column in self._columns)
        self.chunk = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(row_bytes, 1)))

    def fits(self, leaves: Sequence[Any], structure: Structure) -> bool:
        """Whether a batch with this first element would get the same columns."""
        return structure == self._structure and all(map(Column.fits, self._columns, leaves))

    def begin(self, structure: Structure, allocate: Allocate) -> None:
        """Take memory for a batch; `structure` has the order of keys of its first element."""
        self._structure = structure
        if self._flat is dict:
            self._order = list(structure.unflatten(self._columns))
        self._take(allocate)

    def _take(self, allocate: Allocate) -> None:
        for column, array in zip(self._plain, allocate(self._specs)):
            column.begin(array)
        for column in self._columns:
            if not column.is_plain:
                column.begin(np.empty(column.spec.shape, column.spec.dtype))

    def begin_with(self, elements: Sequence[Element], allocate: Allocate) -> bool:
        """Begin a batch with these, if they are all like the first one of the batch before; whether they were.

        If they were not, there may be memory for a batch with some of them in it, and another one must be begun.
        """
        if self._flat is dict:
            first = elements[0]
            keeps_order = type(first) is dict and len(first) == len(self._order) and all(map(is_, first, self._order))
        else:
            keeps_order = self._is_leaf or self._flat is not None
        if not (keeps_order and self._alike):
            return False
        self._take(allocate)
        return self.put(0, elements)

    def finish(self, rows: int) -> Element:
        """Hand the batch over, cut to `rows`."""
        return self._structure.unflatten(self.finish_columns(rows))

    def finish_columns(self, rows: int) -> list[NDArray[Any]]:
        """Hand the columns over, cut to `rows`."""
        return [column.finish(rows) for column in self._columns]

    def put(self, row: int, elements: Sequence[Element]) -> bool:
        """Copy elements into consecutive rows, if they are all like the first one; whether they were."""
        leaves = self._leaves_by_column(elements) if self._alike else None
        return leaves is not None and all(column.put_all(row, some) for column, some in zip(self._columns, leaves))

    def put_one(self, row: int, element: Any) -> bool:
        """As `put`, of one that is too large to wait for others."""
        if not self._alike:
            return False
        if self._is_leaf:
            return self._columns[0].put_one(row, element)
        if type(element) is not self._flat or len(element) != len(self._columns):
            return False
        try:
            for column, name in zip(self._columns, self._places):
                if not column.put_one(row, element[name]):
                    return False
        except KeyError:
            return False
        return True

    def _leaves_by_column(self, elements: Sequence[Element]) -> list[Sequence[Any]] | None:
        """The leaves of many elements, by column; None when an element is not of this structure."""
        if self._is_leaf:
            return [elements]
        count = len(elements)
        try:
            if self._flat is None:
                return list(zip(*map(self._structure.flatten_up_to, elements)))
            if list(map(type, elements)).count(self._flat) < count:
                return None
            if list(map(len, elements)).count(len(self._columns)) < count:
                return None
            if self._names is None:
                return list(zip(*elements))
            if self._exact and any(keys.count(name) < count for name, keys in zip(self._order, zip(*elements))):
                return None
            return [list(map(itemgetter(name), elements)) for name in self._names]
        except (KeyError, TypeError, ValueError):
            return None

    def write(self, row: int, element: Element) -> None:
        """Copy an element into a row, whatever it is like."""
        try:
            leaves = self._structure.flatten_up_to(element)
        except ValueError:
            raise self._mismatch(element) from None
        for column, leaf in zip(self._columns, leaves):
            if type(leaf) is not np.ndarray and not is_leaf(leaf):
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
    _joined: NDArray[Any]  # the same memory, for np.concatenate: [rows * first axis of a row, …]

    def __init__(self, name: str, size: int, example: Any, exact: bool) -> None:
        leaf = as_array(example)
        self.name = name
        self.spec = ArraySpec((size, *leaf.shape), np.result_type(leaf.dtype))
        self.row_bytes = leaf.nbytes
        self.is_plain = not self.spec.dtype.hasobject and self.spec.dtype.itemsize > 0
        self._shape = leaf.shape
        has_dtype = isinstance(example, (np.ndarray, np.generic))
        self._kind_of: Callable[[Any], Any] = _dtype_of if has_dtype else type
        self._kind = self._kind_of(example)
        self._type = type(example) if exact else None
        self.many_at_once = self.is_plain and (self._is_plain_array() if has_dtype else self._is_plain_number())
        self._joins = self.many_at_once and bool(self._shape) and self._kind == self.spec.dtype

    def _is_plain_array(self) -> bool:
        return bool(self._shape) or self.spec.dtype.kind not in "US"  # scalars of these are kept as objects

    def _is_plain_number(self) -> bool:
        return self._kind in PYTHON_NUMBERS and (self._kind is not int or self.spec.dtype == np.int64)

    def fits(self, leaf: Any) -> bool:
        """Whether a batch whose first leaf is this one would get the same column."""
        try:
            alike = self.many_at_once and self._kind_of(leaf) == self._kind and np.shape(leaf) == self._shape
            return bool(alike and (self._kind is not int or np.asarray(leaf).dtype == self.spec.dtype))
        except AttributeError:
            return False

    def begin(self, array: NDArray[Any]) -> None:
        """Fill this array from now on."""
        self.array = array
        if self._joins:
            self._joined = array.reshape(len(array) * self._shape[0], *self._shape[1:])

    def put_all(self, row: int, leaves: Sequence[Any]) -> bool:
        """Copy leaves into consecutive rows, if they are all of the first one's shape and dtype; whether they were."""
        if not self.many_at_once or self.array.dtype != self.spec.dtype:  # it was widened: each row may widen it again
            return False
        count = len(leaves)
        try:
            if self._type is not None and list(map(type, leaves)).count(self._type) < count:
                return False
            if self._joins and list(map(type, leaves)).count(np.ndarray) == count:
                return self._join(row, leaves)
            if list(map(self._kind_of, leaves)).count(self._kind) < count:
                return False
            if self._shape and leaves[0].shape != self._shape:
                return False
            self.array[row : row + count] = leaves  # refuses leaves of unequal shapes
        except (AttributeError, TypeError, ValueError, OverflowError):
            return False
        return True

    def put_one(self, row: int, leaf: Any) -> bool:
        """Copy a leaf into a row, if it is of the first one's shape and dtype; whether it was."""
        if self.array.dtype != self.spec.dtype:
            return False
        try:
            if self._kind_of(leaf) != self._kind or getattr(leaf, "shape", ()) != self._shape:
                return False
            self.array[row] = leaf
        except (AttributeError, TypeError, ValueError, OverflowError):
            return False
        return True

    def _join(self, row: int, leaves: Sequence[NDArray[Any]]) -> bool:
        length, count = self._shape[0], len(leaves)
        if list(map(len, leaves)).count(length) < count:
            return False
        rows = self._joined[row * length : (row + count) * length]
        np.concatenate(leaves, out=rows, casting="no")  # refuses other axes behind the first, and other dtypes
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
        keeps = self.array.dtype.hasobject and type(leaf) in PYTHON_NUMBERS
        self.array[row] = leaf if keeps else array[()]  # of a 0-d array of dtype object, the object

    def _common_dtype(self, array: NDArray[Any]) -> np.dtype[Any]:
        try:
            return np.result_type(self.array.dtype, array.dtype)
        except TypeError:
            raise BatchError(
                f"leaf {brief(self.name) or 'of the element'} is of dtype {self.array.dtype} in one element of the batch and "
                f"{array.dtype} in another, which have no common dtype; map them to one before Batch."
            ) from None

    def _promote(self, rows: int, dtype: np.dtype[Any]) -> None:
        former, self.array = self.array, np.empty(self.spec.shape, dtype)
        scalars = dtype.hasobject and not self._shape and self._kind_of is _dtype_of
        self.array[:rows] = list(former[:rows]) if scalars else former[:rows]

    def _unequal(self, array: NDArray[Any]) -> BatchError:
        return BatchError(
            f"leaf {brief(self.name) or 'of the element'} has shape {self._shape} in one element of the batch and "
            f"{array.shape} in another; make them equal before Batch, or pass Batch(…, batch_fn=millrace.pad_batch())."
        )

    def finish(self, rows: int) -> NDArray[Any]:
        """The first `rows` rows, handed over."""
        array, self.array, self._joined = self.array, _NOTHING, _NOTHING
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
    return brief(text.removeprefix("PyTreeSpec(").split(", namespace=")[0].removesuffix(")"), 120)
