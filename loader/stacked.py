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

from ..operations.protocol import Allocate, ArraySpec, Element
from ..operations.stacking import Layout
from ..operations.trees import flatten

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


def stacked(elements: Sequence[Element], allocate: Allocate) -> StackedRows | None:
    """The rows as columns; None unless all are of the first one's structure, shapes, dtypes and types."""
    leaves, structure = flatten(elements[0])
    kinds = [_kind(leaf) for leaf in leaves]
    if not leaves or None in kinds:
        return None
    layout = Layout(len(elements), leaves, structure)
    columns = layout.filled(elements, allocate)
    if columns is None:
        return None
    return StackedRows(columns, [kind for kind in kinds if kind], structure.unflatten(range(len(leaves))))


def _kind(leaf: Any) -> str | None:
    if type(leaf) is np.ndarray:
        return "array" if leaf.ndim and leaf.dtype == np.result_type(leaf.dtype) else None
    if isinstance(leaf, np.generic):
        return "scalar"
    return PYTHON.get(type(leaf))


def batch_of(parts: Sequence[tuple[StackedRows, int, int]], allocate: Allocate) -> Element:
    """One batch of rows `[start, stop)` of several blocks that are like one another."""
    first = parts[0][0]
    rows = sum(stop - start for _, start, stop in parts)
    arrays = allocate([ArraySpec((rows, *column.shape[1:]), column.dtype) for column in first.columns])
    for number, array in enumerate(arrays):
        at = 0
        for block, start, stop in parts:
            array[at : at + stop - start] = block.columns[number][start:stop]
            at += stop - start
    return flatten(first.example)[1].unflatten(arrays)
