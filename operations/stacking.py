"""Rows into the memory of a batch, one at a time.

In: elements, each with its row number. Out: a tree of arrays with a leading axis.

The first element fixes the layout: one column, `[batch_size, *shape]`, for each leaf. Later batches keep it as long as
their first element fits, so that a batch costs one allocation and a record one comparison and one assignment a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BatchError
from .protocol import Allocate, ArraySpec, Element
from .trees import Structure, flatten, leaf_names

Put = Callable[[int, Any], None]


class _OtherLayoutError(Exception):
    """The first element of a batch does not fit the layout of the batch before."""


class Stack:
    """The batch in the making."""

    def __init__(self, size: int, allocate: Allocate) -> None:
        self._size = size
        self._allocate = allocate
        self._layout: Layout | None = None
        self.add: Put = self._add_first

    def _add_first(self, row: int, element: Element) -> None:
        try:
            if self._layout is None:
                raise _OtherLayoutError
            self._layout.begin(self._allocate)
            self._layout.write(0, element)
        except _OtherLayoutError:
            self._layout = Layout(self._size, element)
            self._layout.begin(self._allocate)
            self._layout.write(0, element)
        self.add = self._layout.write

    def finish(self, rows: int) -> Element:
        """The batch of the first `rows` rows; its memory is the receiver's from now on."""
        assert self._layout is not None
        batch = self._layout.finish(rows)
        self.add = self._add_first
        return batch

    def clear(self) -> None:
        """Forget what was added."""
        if self._layout is not None:
            self._layout.finish(0)
        self.add = self._add_first


class Layout:
    """The columns of a batch whose first element is like `example`."""

    def __init__(self, size: int, example: Element) -> None:
        leaves, self._structure = flatten(example)
        self._columns = [Column(name, size, leaf) for name, leaf in zip(leaf_names(self._structure), leaves)]
        self._plain = [column for column in self._columns if not column.spec.dtype.hasobject]
        self.write = self._writer(example)

    def begin(self, allocate: Allocate) -> None:
        """Take memory for a batch."""
        for column in self._columns:
            column.array = _NOTHING
        for column, array in zip(self._plain, allocate([column.spec for column in self._plain])):
            column.array = array
        for column in self._columns:
            if column.spec.dtype.hasobject:
                column.array = np.empty(column.spec.shape, column.spec.dtype)

    def finish(self, rows: int) -> Element:
        """Hand the columns over, cut to `rows`."""
        arrays = [column.finish(rows) for column in self._columns]
        return self._structure.unflatten(arrays)

    def _writer(self, example: Element) -> Put:
        """Writes an element of this structure into a row; the commonest structures have a way of their own."""
        structure, puts = self._structure, [column.put for column in self._columns]
        if structure.is_leaf():
            return puts[0]
        if type(example) is dict and structure.num_nodes == structure.num_leaves + 1:
            return self._dict_writer(list(zip(structure.entries(), puts)))

        def write_tree(row: int, element: Element) -> None:
            try:
                leaves = structure.flatten_up_to(element)
            except ValueError:
                raise self._mismatch(row, element) from None
            for put, leaf in zip(puts, leaves):
                put(row, leaf)

        return write_tree

    def _dict_writer(self, puts: list[tuple[Any, Put]]) -> Put:
        count = len(puts)

        def write_dict(row: int, element: Element) -> None:
            if type(element) is not dict or len(element) != count:
                raise self._mismatch(row, element)
            for name, put in puts:
                if name not in element:
                    raise self._mismatch(row, element)
                put(row, element[name])

        return write_dict

    def _mismatch(self, row: int, element: Element) -> Exception:
        if row == 0:
            return _OtherLayoutError()
        return BatchError(
            f"elements of one batch differ in structure: the first is {_shown(self._structure)}, this one "
            f"{_shown(flatten(element)[1])}; map them to one structure before Batch, or pass Batch(…, batch_fn=…)."
        )


class Column:
    """One leaf of the batch."""

    array: NDArray[Any]

    def __init__(self, name: str, size: int, example: Any) -> None:
        leaf = as_array(example)
        self.name = name
        self.spec = ArraySpec((size, *leaf.shape), np.result_type(leaf.dtype))
        self.put = self._array_put(leaf) if type(example) is np.ndarray else self._scalar_put(type(example))

    def _array_put(self, example: NDArray[Any]) -> Put:
        dtype, shape = example.dtype, example.shape
        array_type = np.ndarray

        def put(row: int, leaf: Any) -> None:
            if type(leaf) is array_type and leaf.dtype is dtype and leaf.shape == shape:
                self.array[row] = leaf
            else:
                self._put_other(row, leaf)

        return put

    def _scalar_put(self, kind: type) -> Put:
        if not issubclass(kind, (bool, int, float, complex, str, bytes, np.generic)) or issubclass(kind, np.flexible):
            return self._put_other

        def put(row: int, leaf: Any) -> None:
            if type(leaf) is kind:
                try:
                    self.array[row] = leaf
                except OverflowError:
                    self._put_other(row, leaf)
            else:
                self._put_other(row, leaf)

        return put

    def _put_other(self, row: int, leaf: Any) -> None:
        """A leaf unlike the first: the same shape in another guise or dtype is stored, all else is an error."""
        array = as_array(leaf)
        if array.shape != self.spec.shape[1:]:
            raise _OtherLayoutError if row == 0 else self._unequal(array)
        dtype = self._common_dtype(array)
        if dtype != self.array.dtype:
            if row == 0:
                raise _OtherLayoutError
            self._promote(row, dtype)
        self.array[row] = array

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
            f"leaf {self.name or 'of the element'} has shape {self.spec.shape[1:]} in one element of the batch and "
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
