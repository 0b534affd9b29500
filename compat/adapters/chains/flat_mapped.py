"""Indices of a MapDataset with flat maps, in which Grain's states count: each element has as many as it may become.

In: an index. Out: the position of the element, and how many rows came of it before that index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....chains.nodes.items import Runner
from ....loader.plan.leaf import Leaf
from ....operations import Operation
from ....sources import reader_of


def fan_out_of_all(operations: Sequence[Operation]) -> int:
    """The number of indices that an element has after these operations."""
    return prod(operation.max_fan_out or 1 for operation in operations)


def rows_before(leaf: Leaf, operations: Sequence[Operation], position: int, unit: int, child: int) -> int:
    """The rows that a unit becomes before the index of a child: the number of those that come of earlier children.

    The operations are run on the records at the position: a filter after the flat map may have left children out.
    """
    local = np.arange(position, min(position + unit, leaf.total), dtype=np.int64)
    shard = leaf.shard
    keys = leaf.sampler.record_keys(shard.shard_index + local * shard.shard_count)
    elements: Sequence[Any] = reader_of(leaf.source)(keys)
    return _rows(elements, list(operations), child)


def _rows(elements: Sequence[Any], operations: list[Operation], child: int) -> int:
    """The rows of the children before one, and of those before it among its own children."""
    for place, operation in enumerate(operations):
        if operation.max_fan_out:
            inner = operations[place + 1 :]
            number, rest = divmod(child, fan_out_of_all(inner))
            children = Runner(operation)(elements, 0, 0)
            whole = len(_through(children[:number], inner))
            return whole + (_rows(children[number : number + 1], inner, rest) if rest else 0)
        elements = Runner(operation)(elements, 0, 0)
    return 0


def _through(elements: Sequence[Any], operations: Sequence[Operation]) -> Sequence[Any]:
    for operation in operations:
        elements = Runner(operation)(elements, 0, 0)
    return elements
