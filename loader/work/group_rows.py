"""The rows of a group and their tags, from the blocks that have them.

In: parts of blocks. Out: the rows, and what names the record that each comes from.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from ...operations.protocol import Element
from .stacked_rows import StackedRows
from .tasks import Parts


def tags_of(parts: Parts, order: NDArray[np.int32] | None) -> tuple[NDArray[np.int64], list[int]]:
    """Return the tag of each row of a group, and its number within its position."""
    positions, rows = array("q"), list[int]()
    for block, start, stop in parts:
        assert block.tags is not None, "only blocks with tags are regrouped"
        positions += block.tags.positions[start:stop]
        rows += block.tags.rows[start:stop]
    tags = np.array(positions, dtype=np.int64)
    return (tags, rows) if order is None else (tags[order], list(map(rows.__getitem__, order.tolist())))


def elements_of(parts: Parts) -> list[Element]:
    """Return the rows of a group."""
    elements: list[Element] = []
    for block, start, stop in parts:
        rows = block.elements
        elements += rows.elements(start, stop) if isinstance(rows, StackedRows) else rows[start:stop]
    return elements
