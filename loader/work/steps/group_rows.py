"""Collect the rows that one task processes together, from the blocks that earlier tasks returned.

In: ranges of rows of blocks. Out: the rows, and for each of them the tag (a number that stands for
its record).
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
    """Return, for each row of a task, the tag of its record, and its index among the record's rows.

    A tag is a number that stands for a record (source and position). The index counts the rows that
    were made of the same record.

    Args:
        parts: blocks (the rows of one task each), with the ranges of the rows to process.
        order: for each row of the result, its index in `parts`. None: the order of `parts`.

    Returns:
        A pair: the tags, `int64[rows]`, and a list of the indices.
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
    """Return rows as a list.

    Args:
        parts: blocks (the rows of one task each), with the ranges of the rows to return.
    """
    elements: list[Element] = []
    for block, start, stop in parts:
        rows = block.elements
        elements += (
            rows.elements(start, stop) if isinstance(rows, StackedRows) else rows[start:stop]
        )
    return elements


def batches_columns(stage: Stage, parts: Parts) -> bool:
    """Return True if a stage begins with a plain `Batch` of all rows, and the rows are columns.

    The batch can then be copied from the columns (arrays with all rows), without work per row.

    Args:
        stage: the stage (operations that run in one task).
        parts: blocks (the rows of one task each), with the ranges of the rows to process.
    """
    batch, first = stage.operations[0], parts[0][0].elements
    return (
        batch.only_stacks
        and batch.takes == stage.unit
        and isinstance(first, StackedRows)
        and all(first.is_like(block.elements) for block, _, _ in parts)
    )
