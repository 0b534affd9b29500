"""In what datasets differ that are read as a whole, such as the parts of a mix: a state knows them by a digest alone.

In: two sources. Out: what kind of difference it is, and it in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...chains.map_dataset import MapDataset
from ...chains.nodes.joins import Chosen
from ...chains.nodes.node import Evaluated, Node, Source
from ...chains.nodes.reordered import Reordered
from ...common.fingerprint_values import described
from ...common.messages import short_repr
from ...sources.mixed.source import MixedSource


def changed_chains(one: Any, two: Any) -> Iterator[tuple[str, str]]:
    """The lowest difference in each dataset that is in both: its kind, and it in words."""
    known, others = _nodes(one), _nodes(two)
    for name in filter(others.__contains__, known):
        if (change := _change(known[name], others[name])) is not None:
            yield change[0], f"part {name!r}: {change[1]}" if name else change[1]


def _nodes(source: Any) -> dict[str, Node]:
    parts = source.parts if isinstance(source, MixedSource) else {"": source}
    return {name: part.root_node for name, part in parts.items() if isinstance(part, (Evaluated, MapDataset))}


def _change(one: Node, two: Node) -> tuple[str, str] | None:
    alike = type(one) is type(two) and len(one.inputs) == len(two.inputs)
    below = next(filter(None, map(_change, one.inputs, two.inputs)), None) if alike else None
    if below is not None or (alike and described(one.parameters) == described(two.parameters)):
        return below
    orders = [node.index_map for node in (one, two) if isinstance(node, Reordered)]
    if len(orders) == 1:
        words = (_told(node) if isinstance(node, Reordered) else "none" for node in (one, two))
        return "order", " → ".join(words)
    kind = "operation" if hasattr(one, "operation") or hasattr(two, "operation") else "source"
    if orders:
        maps = [dataclasses.replace(each, seed=0) if hasattr(each, "seed") else each for each in orders]
        kind = "seed" if maps[0] == maps[1] else "order"
    elif isinstance(one, Chosen) and isinstance(two, Chosen):
        kind = "weights"
    return kind, f"{_told(one)} → {_told(two)}"


def _told(node: Node) -> str:
    names = (
        ("index_map",) if isinstance(node, Reordered) else ("source",) if isinstance(node, Source) else ("operation",)
    )
    return short_repr(getattr(node, names[0], node.parameters))
