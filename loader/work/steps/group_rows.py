"""Collect the rows of a group (rows that one task processes together) from blocks (a task's rows).

In: ranges of rows of blocks. Out: the rows, and for each of them the tag (a number that names its
record).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....operations.protocol import Element
from ..stacked_rows import StackedRows
from ..tasks import Parts

if TYPE_CHECKING:
    from ...plan.stages import Stage


def tags_of(parts: Parts, order: NDArray[np.int32] | None) -> tuple[NDArray[np.int64], list[int]]:
    """Return, for each row of a group, the tag of its record and its index among the record's rows.

    A tag is a number that names a record: `int64[rows]`.

    Args:
        parts: blocks (the rows of one task each), with the ranges of rows that belong to the group.
        order: indices of the rows in the order that both results have; None: the order of `parts`.
    """
    positions, rows = array("q"), list[int]()
    for block, start, stop in parts:
        assert block.tags is not None, "only blocks with tags are regrouped"
        positions += block.tags.positions[start:stop]
        rows += block.tags.rows[start:stop]
    tags = np.array(positions, dtype=np.int64)
    return (
        (tags, rows)
        if order is None
        else (tags[order], list(map(rows.__getitem__, order.tolist())))
    )


def elements_of(parts: Parts) -> list[Element]:
    """Return the rows of a group as a list.

    They are given as ranges of rows of blocks (the rows of one task each).
    """
    elements: list[Element] = []
    for block, start, stop in parts:
        rows = block.elements
        elements += (
            rows.elements(start, stop) if isinstance(rows, StackedRows) else rows[start:stop]
        )
    return elements


def batches_columns(stage: Stage, parts: Parts) -> bool:
    """Return True if a plain `Batch` of a whole unit comes first, and all rows are columns.

    A unit is the rows that must be processed together.
    """
    batch, first = stage.operations[0], parts[0][0].elements
    return (
        batch.only_stacks
        and batch.takes == stage.unit
        and isinstance(first, StackedRows)
        and all(first.is_like(block.elements) for block, _, _ in parts)
    )
