"""Rows stored as columns, one array per field, so that sending or batching needs no work per row.

In: rows of equal structure. Out: for each leaf of their tree, one array with the values of all rows
along its first axis. From these arrays, the rows can be made again, or a batch of some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BatchMemoryError
from ...operations.protocol import Allocate, ArraySpec, Element
from ...operations.stacking import Layout
from ...operations.trees import ROWS, flatten

PYTHON = {bool: "bool", int: "int", float: "float", complex: "complex"}
"""Names of the Python types of a row's values that are not arrays.

When rows are restored, values get these types.
"""


@dataclass(slots=True)
class StackedRows:
    """Rows of equal structure, stored as columns: one array for each leaf of a row's tree.

    Attributes:
        columns: an array `[rows, *shape]` for each leaf of the tree.
        kinds: for each leaf, "array", "scalar" (of NumPy), or the name of a Python type.
        example: the tree of a row, with the index of each leaf in place of the leaf.
    """

    columns: list[NDArray[Any]]
    kinds: list[str]
    example: Any

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: slice) -> StackedRows:
        return StackedRows([column[rows] for column in self.columns], self.kinds, self.example)

    def elements(self, start: int, stop: int) -> Iterator[Element]:
        """Yield the rows `[start, stop)` as they were before they were stacked into columns.

        Arrays of the rows are views of the columns.
        """
        _, structure = flatten(self.example, nodes=ROWS)
        leaves = [
            column[start:stop].tolist() if kind in PYTHON.values() else column[start:stop]
            for column, kind in zip(self.columns, self.kinds)
        ]
        for row in zip(*leaves):
            yield structure.unflatten(row)

    def as_batch(self) -> Element:
        """Return the batch of all rows. Its arrays are the columns themselves, without a copy."""
        return flatten(self.example, nodes=ROWS)[1].unflatten(self.columns)

    def is_like(self, other: Any) -> bool:
        """Return True if `other` is `StackedRows` of the same structure, kinds, dtypes, shapes."""
        return (
            isinstance(other, StackedRows)
            and self.kinds == other.kinds
            and self.example == other.example
            and flatten(self.example, nodes=ROWS)[1] == flatten(other.example, nodes=ROWS)[1]
            and all(
                one.dtype == two.dtype and one.shape[1:] == two.shape[1:]
                for one, two in zip(self.columns, other.columns)
            )
        )


class RowStack:
    """Stacks rows into columns, a few at a time, while the rows are in the processor's caches.

    All rows must consist of arrays and numbers, and have the structure, shapes, dtypes and types of
    the first row. If a row differs, if there are more than `size` rows, or if there is no memory
    for the columns, all rows are kept in a list instead.

    Args:
        size: largest number of rows.
        allocate: function that returns the memory of the columns.
    """

    def __init__(self, size: int, allocate: Allocate) -> None:
        self._size = size
        self._allocate = allocate
        self._layout: Layout | None = None
        self._kinds: list[str] = []
        self._example: Any = None
        self._count = 0
        self._list: list[Element] | None = None

    def extend(self, rows: Sequence[Element]) -> None:
        """Append rows to the rows that are stacked into columns."""
        if self._list is None and rows:
            if self._put(rows):
                self._count += len(rows)
                return
            stacked = self.finish()
            self._list = (
                list(stacked.elements(0, len(stacked)))
                if isinstance(stacked, StackedRows)
                else stacked
            )
        if self._list is not None:
            self._list += rows

    def _put(self, rows: Sequence[Element]) -> bool:
        if self._count + len(rows) > self._size:
            return False
        if self._layout is not None:
            return self._layout.put(self._count, rows)
        leaves, structure = flatten(rows[0], nodes=ROWS)
        kinds = [_kind(leaf) for leaf in leaves]
        if not leaves or None in kinds:
            return False
        layout = Layout(self._size, leaves, structure, exact=True)
        try:
            layout.begin(structure, self._allocate)
        except (OSError, BatchMemoryError):  # who sends the rows will find that, too, and tell it
            return False
        if not layout.put(0, rows):
            return False
        self._layout, self._kinds = layout, [kind for kind in kinds if kind]
        self._example = structure.unflatten(range(len(leaves)))
        return True

    def finish(self) -> StackedRows | list[Element]:
        """Return all rows, as `StackedRows` (columns) if possible, otherwise as a list.

        The memory of the rows then belongs to the caller, and this object must not be used any
        more.
        """
        if self._list is not None or self._layout is None:
            return self._list or []
        return StackedRows(self._layout.finish_columns(self._count), self._kinds, self._example)


def _kind(leaf: Any) -> str | None:
    if type(leaf) is np.ndarray:
        return "array" if leaf.ndim and leaf.dtype == np.result_type(leaf.dtype) else None
    if isinstance(leaf, np.generic):
        return "scalar"
    return PYTHON.get(type(leaf))


def side_by_side(rows: Sequence[Element]) -> StackedRows | None:
    """Return rows as columns (one array for each field) without a copy, if that is possible.

    It is possible if the rows are evenly spaced in a piece of memory, such as the rows of one
    window of a `Pack`. Otherwise, return None. There must be at least two rows.
    """
    leaves, structure = flatten(rows[0], nodes=ROWS)
    if not leaves or not all(map(_is_part_of_an_array, leaves)):
        return None
    try:
        if not all(
            leaf.base is other.base for leaf, other in zip(leaves, structure.flatten_up_to(rows[1]))
        ):
            return None  # found out without a look at all of them
        columns = [_column(column) for column in zip(*map(structure.flatten_up_to, rows))]
    except (ValueError, AttributeError):  # of another structure, or no arrays
        return None
    found = [column for column in columns if column is not None]
    names = list(rows[0]) if type(rows[0]) is dict else None
    if len(found) < len(leaves) or (names is not None and any(list(row) != names for row in rows)):
        return None
    return StackedRows(found, ["array"] * len(found), structure.unflatten(range(len(found))))


def _is_part_of_an_array(leaf: Any) -> bool:
    return _kind(leaf) == "array" and not leaf.dtype.hasobject and isinstance(leaf.base, np.ndarray)


def _column(arrays: Sequence[Any]) -> NDArray[Any] | None:
    """Combine several views of one array into a single array without a copy.

    Return None if the views are not evenly spaced in that array, or differ in dtype, shape or
    strides.
    """
    first = arrays[0]
    like = (np.ndarray, first.dtype, first.shape, first.strides, True)
    if not first.base.flags.c_contiguous or any(
        one.base is not first.base or _likeness(one) != like for one in arrays
    ):
        return None
    starts = np.array([_address(one) for one in arrays])
    steps = np.diff(starts)
    if (steps != steps[0]).any() or steps[0] < first.nbytes:
        return None
    memory, offset = first.base.reshape(-1).view(np.uint8), starts[0] - _address(first.base)
    shape, strides = (len(arrays), *first.shape), (int(steps[0]), *first.strides)
    return np.ndarray(shape, first.dtype, memory, int(offset), strides)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _likeness(array: Any) -> tuple[Any, ...]:
    return type(array), array.dtype, array.shape, array.strides, array.flags.writeable


def batch_of(
    parts: Sequence[tuple[StackedRows, int, int]],
    allocate: Allocate,
    order: NDArray[np.int32] | None = None,
) -> Element:
    """Make one batch of rows that are stored as columns in several blocks (rows of one task each).

    Args:
        parts: the blocks' rows, all with equal columns, and for each block the range `[start,
            stop)` of the rows to use.
        allocate: function that returns uninitialised arrays for shapes and dtypes (`ArraySpec`).
        order: for each row of the batch, its index among all rows of `parts`. None: the order of
            `parts`.
    """
    first = parts[0][0]
    rows = sum(stop - start for _, start, stop in parts)
    arrays = allocate(
        [ArraySpec((rows, *column.shape[1:]), column.dtype) for column in first.columns]
    )
    places = None if order is None else np.argsort(order)
    for number, array in enumerate(arrays):
        at = 0
        for block, start, stop in parts:
            to = at + stop - start
            array[slice(at, to) if places is None else places[at:to]] = block.columns[number][
                start:stop
            ]
            at = to
    return flatten(first.example, nodes=ROWS)[1].unflatten(arrays)
