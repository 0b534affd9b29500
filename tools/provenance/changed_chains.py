"""Find what differs between the datasets of two loaders, as chains of operations.

In: the sources of two loaders. Out: for each dataset that differs, the kind of difference and a
description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...chains.map_dataset import MapDataset
from ...chains.nodes.budgeted import BudgetBatched
from ...chains.nodes.items import Applied
from ...chains.nodes.joins import Chosen
from ...chains.nodes.node import Evaluated, Node
from ...chains.nodes.packed import Packed
from ...chains.nodes.reordered import Reordered
from ...chains.nodes.source_node import Source
from ...common.identity.values import described
from ...common.messages import short_repr
from ...sources.mixed.source import MixedSource

_WITH_OPERATION = Applied, Packed, BudgetBatched


def changed_chains(one: Any, two: Any) -> Iterator[tuple[str, str]]:
    """Yield (kind of difference, description) for each shared dataset that differs.

    Args:
        one: source of one loader: a mix, whose datasets are compared by name, or a single dataset.
        two: source of the other loader.
    """
    known, others = _nodes(one), _nodes(two)
    for name in filter(others.__contains__, known):
        if (change := _lowest_change(known[name], others[name])) is not None:
            yield change[0], f"part {name!r}: {change[1]}" if name else change[1]


def _nodes(source: Any) -> dict[str, Node]:
    parts = source.parts if isinstance(source, MixedSource) else {"": source}
    return {
        name: part.root_node
        for name, part in parts.items()
        if isinstance(part, (Evaluated, MapDataset))
    }


def _lowest_change(one: Node, two: Node) -> tuple[str, str] | None:
    """Return (kind, description) of the first difference of two chains, from their sources on.

    Return None if they are equal.
    """
    alike = type(one) is type(two) and len(one.inputs) == len(two.inputs)
    below = next(filter(None, map(_lowest_change, one.inputs, two.inputs)), None) if alike else None
    if below is not None or (alike and described(one.parameters) == described(two.parameters)):
        return below
    orders: list[Any] = [node.index_map for node in (one, two) if isinstance(node, Reordered)]
    if len(orders) == 1:
        words = (
            _describe_node(node) if isinstance(node, Reordered) else "none" for node in (one, two)
        )
        return "order", " → ".join(words)
    kind = (
        "operation"
        if isinstance(one, _WITH_OPERATION) or isinstance(two, _WITH_OPERATION)
        else "source"
    )
    if orders:
        maps = [
            dataclasses.replace(each, seed=0) if hasattr(each, "seed") else each for each in orders
        ]
        kind = "seed" if maps[0] == maps[1] else "order"
    elif isinstance(one, Chosen) and isinstance(two, Chosen):
        kind = "weights"
    return kind, f"{_describe_node(one)} → {_describe_node(two)}"


def _describe_node(node: Node) -> str:
    if isinstance(node, Reordered):
        return short_repr(node.index_map)
    if isinstance(node, Source):
        return short_repr(node.source)
    return short_repr(node.operation if isinstance(node, _WITH_OPERATION) else node.parameters)
