"""Many rows as a few arrays, so that they cross a process boundary and become batches without a step per row.

In: rows that are all alike. Out: one array per leaf, with the rows along its first axis; and the same rows again, or a batch
of some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...operations.protocol import Allocate, ArraySpec, Element
from ...operations.stacking import Layout
from ...operations.trees import flatten

PYTHON = {bool: "bool", int: "int", float: "float", complex: "complex"}
"""Types of leaves that were no arrays; rows get them back."""


@dataclass(slots=True)
class StackedRows:
    """Rows, leaf by leaf.

    Attributes:
        columns: one array per leaf, `[rows, *shape]`.
        kinds: of each leaf: "array", "scalar" (NumPy's), or the name of Python's type.
        example: the tree, with the numbers of its leaves for leaves.
    """

    columns: list[NDArray[Any]]
    kinds: list[str]
    example: Any

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: slice) -> StackedRows:
        return StackedRows([column[rows] for column in self.columns], self.kinds, self.example)

    def elements(self, start: int, stop: int) -> Iterator[Element]:
        """The rows `[start, stop)` as they were. Their arrays are views."""
        _, structure = flatten(self.example)
        leaves = [
            column[start:stop].tolist() if kind in PYTHON.values() else column[start:stop]
            for column, kind in zip(self.columns, self.kinds)
        ]
        for row in zip(*leaves):
            yield structure.unflatten(row)

    def is_like(self, other: Any) -> bool:
        """Whether a batch may be made of rows of both."""
        return (
            isinstance(other, StackedRows)
            and self.kinds == other.kinds
            and self.example == other.example
            and flatten(self.example)[1] == flatten(other.example)[1]
            and all(
                one.dtype == two.dtype and one.shape[1:] == two.shape[1:]
                for one, two in zip(self.columns, other.columns)
            )
        )


class RowStack:
    """Puts rows into columns, a few at a time, while they are in the caches.

    All must be of the first one's structure, shapes, dtypes and types; if one is not, or there is no memory, all stay a list.

    Args:
        size: rows for which there is to be room.
        allocate: gives the memory of the columns.
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
        """Add rows after those that are there."""
        if self._list is None and rows:
            if self._put(rows):
                self._count += len(rows)
                return
            stacked = self.finish()
            self._list = list(stacked.elements(0, len(stacked))) if isinstance(stacked, StackedRows) else stacked
        if self._list is not None:
            self._list += rows

    def _put(self, rows: Sequence[Element]) -> bool:
        if self._count + len(rows) > self._size:
            return False
        if self._layout is not None:
            return self._layout.put(self._count, rows)
        leaves, structure = flatten(rows[0])
        kinds = [_kind(leaf) for leaf in leaves]
        if not leaves or None in kinds:
            return False
        layout = Layout(self._size, leaves, structure, exact=True)
        try:
            layout.begin(structure, self._allocate)
        except OSError:  # who sends the rows will find that, too, and tell it
            return False
        if not layout.put(0, rows):
            return False
        self._layout, self._kinds = layout, [kind for kind in kinds if kind]
        self._example = structure.unflatten(range(len(leaves)))
        return True

    def finish(self) -> StackedRows | list[Element]:
        """All rows; the memory is the receiver's from now on."""
        if self._list is not None or self._layout is None:
            return self._list or []
        return StackedRows(self._layout.finish_columns(self._count), self._kinds, self._example)


def _kind(leaf: Any) -> str | None:
    if type(leaf) is np.ndarray:
        return "array" if leaf.ndim and leaf.dtype == np.result_type(leaf.dtype) else None
    if isinstance(leaf, np.generic):
        return "scalar"
    return PYTHON.get(type(leaf))


def batch_of(
    parts: Sequence[tuple[StackedRows, int, int]], allocate: Allocate, order: NDArray[np.int32] | None = None
) -> Element:
    """One batch of rows `[start, stop)` of several blocks that are like one another.

    Args:
        parts: blocks, with their first and last rows.
        allocate: gives the memory of the batch.
        order: numbers of the rows among all these, in the order in which they come; None: as they stand.
    """
    first = parts[0][0]
    rows = sum(stop - start for _, start, stop in parts)
    arrays = allocate([ArraySpec((rows, *column.shape[1:]), column.dtype) for column in first.columns])
    places = None if order is None else np.argsort(order)
    for number, array in enumerate(arrays):
        at = 0
        for block, start, stop in parts:
            to = at + stop - start
            array[slice(at, to) if places is None else places[at:to]] = block.columns[number][start:stop]
            at = to
    return flatten(first.example)[1].unflatten(arrays)
