"""Convert indices in Grain's states of flat-mapped `MapDataset`s to positions and indices of rows.

Each input element of a flat map has `max_fan_out` indices, one for each element that it may become.

In: an index. Out: the position of the input element, and the number of rows made of it before that
index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....loader.plan.leaf import Leaf
from ....operations import Operation
from ....operations.runner import Runner
from ....sources import reader_of


def fan_out_of_all(operations: Sequence[Operation]) -> int:
    """Return the number of indices of each input element after these operations.

    It is 1 without a flat map.
    """
    return prod(operation.max_fan_out or 1 for operation in operations)


def rows_before(
    leaf: Leaf, operations: Sequence[Operation], position: int, unit: int, child: int
) -> int:
    """Count the rows that an element becomes before the index `child` of its children.

    Children are the elements that flat maps make of it. The operations are run on the records of
    this element, since a filter after a flat map may omit children.

    Args:
        leaf: the source of the records, with its order.
        operations: operations from the source on, with at least one flat map.
        position: local position (within this shard) of the first record of the element.
        unit: number of records that make up the element.
        child: index among the children of the element.
    """
    local = np.arange(position, min(position + unit, leaf.total), dtype=np.int64)
    shard = leaf.shard
    keys = leaf.sampler.record_keys(shard.shard_index + local * shard.shard_count)
    elements: Sequence[Any] = reader_of(leaf.source)(keys)
    return _rows(elements, list(operations), child)


def _rows(elements: Sequence[Any], operations: list[Operation], child: int) -> int:
    """Count the rows that the children before index `child` become.

    With nested flat maps, an index may lie inside one child's own children; rows before it are
    counted, too.

    Args:
        elements: the records of one element.
        operations: operations from the source on. If none of them is a flat map, the result is 0.
        child: index among the children of the element.
    """
    for place, operation in enumerate(operations):
        if operation.max_fan_out:
            inner = operations[place + 1 :]
            number, rest = divmod(child, fan_out_of_all(inner))
            children = Runner((operation,))(elements, 0, 0)
            whole = len(_through(children[:number], inner))
            return whole + (_rows(children[number : number + 1], inner, rest) if rest else 0)
        elements = Runner((operation,))(elements, 0, 0)
    return 0


def _through(elements: Sequence[Any], operations: Sequence[Operation]) -> Sequence[Any]:
    for operation in operations:
        elements = Runner((operation,))(elements, 0, 0)
    return elements
