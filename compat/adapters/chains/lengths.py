"""Lengths of datasets that never end, as Grain computes them.

In: a node. Out: its length in Grain. A batch or a slice of an endless dataset may have a length
below `ENDLESS`.
"""

from __future__ import annotations

import math
from typing import cast

from ....chains.nodes.items import Batched, FlatMapped
from ....chains.nodes.joins import Chosen
from ....chains.nodes.node import Node
from ....chains.nodes.reordered import Reordered
from ....samplers.chain.index_maps import Repeat, Slice
from ....samplers.protocol import ENDLESS
from .orders import Mix

EXACT = 1 << 53
"""Lengths below this number are exact in Grain, which computes with floats."""


def grain_length(node: Node) -> int:
    """Return Grain's length of a node, computed from the lengths of the nodes below it.

    >>> from headrace.compat.grain import MapDataset
    >>> endless = MapDataset.range(10).repeat()
    >>> len(endless), len(endless.batch(2)), len(endless[3:])
    (9223372036854775807, 4611686018427387904, 9223372036854775804)
    """
    if node.length < EXACT or not node.inputs:
        return node.length
    first, *_ = below = [grain_length(each) for each in node.inputs]
    if isinstance(node, Batched):
        whole = (
            first // node.size if node.operation.drops_remainder else math.ceil(first / node.size)
        )
        return min(whole, ENDLESS)  # of a float, as Grain rounds it
    if isinstance(node, FlatMapped):
        fan_out = cast(int, node.operation.max_fan_out)
        return ENDLESS if first >= ENDLESS / fan_out else first * fan_out
    if isinstance(node, Chosen):
        return (
            Mix(tuple(below), node.choice.weights).length
            if isinstance(node.choice, Mix)
            else node.length
        )
    if isinstance(node, Reordered):
        return _reordered(node, first)
    return first


def _reordered(node: Reordered, below: int) -> int:
    order = node.index_map
    if isinstance(order, Slice):
        cut = order.length < ENDLESS or order.step < 0
        return order.length if cut else len(range(order.start, below, order.step))
    if isinstance(order, Repeat):
        return ENDLESS if order.epochs is None else min(below * order.epochs, ENDLESS)
    return below
