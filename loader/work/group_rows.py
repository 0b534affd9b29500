"""Collect the rows of a group (rows that one task processes) from blocks (the rows of one task each).

In: parts of blocks. Out: the rows, and for each of them the tag (a number that names its record).
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from ...operations.protocol import Element
from .stacked_rows import StackedRows
from .tasks import Parts


def tags_of(parts: Parts, order: NDArray[np.int32] | None) -> tuple[NDArray[np.int64], list[int]]:
    """Return, for each row of a group, its tag (`int64[rows]`) and its index among the rows of the same position.

    A tag is a number that names a record.

    Args:
        parts: parts of blocks that have the rows.
        order: indices of the rows in the order that both results have; None: the order of `parts`.
    """
    positions, rows = array("q"), list[int]()
    for block, start, stop in parts:
        assert block.tags is not None, "only blocks with tags are regrouped"
        positions += block.tags.positions[start:stop]
        rows += block.tags.rows[start:stop]
    tags = np.array(positions, dtype=np.int64)
    return (tags, rows) if order is None else (tags[order], list(map(rows.__getitem__, order.tolist())))


def elements_of(parts: Parts) -> list[Element]:
    """Return the rows of a group, taken from parts of blocks, as a list."""
    elements: list[Element] = []
    for block, start, stop in parts:
        rows = block.elements
        elements += rows.elements(start, stop) if isinstance(rows, StackedRows) else rows[start:stop]
    return elements
