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
    """The lowest difference in each dataset that is in both."""
    known, others = _nodes(one), _nodes(two)
    for name in filter(others.__contains__, known):
        change = _change(known[name], others[name])
        if change is not None:
            what, told = change
            yield what, f"part {name!r}: {told}" if name else told


def _nodes(source: Any) -> dict[str, Node]:
    """By the name of the part."""
    parts = source.parts if isinstance(source, MixedSource) else {"": source}
    return {name: part.chain_node for name, part in parts.items() if isinstance(part, (Evaluated, MapDataset))}


def _change(one: Node, two: Node) -> tuple[str, str] | None:
    alike = type(one) is type(two) and len(one.inputs) == len(two.inputs)
    below = next(filter(None, map(_change, one.inputs, two.inputs)), None) if alike else None
    if below is not None:
        return below
    if alike and described(one.parameters) == described(two.parameters):
        return None
    moved = isinstance(one, Reordered) + isinstance(two, Reordered) == 1
    told = ("none" if moved and not isinstance(each, Reordered) else _told(each) for each in (one, two))
    return _kind(one, two), " → ".join(told)


def _kind(one: Node, two: Node) -> str:
    if isinstance(one, Reordered) and isinstance(two, Reordered):
        return "seed" if _without_seed(one) == _without_seed(two) else "order"
    if isinstance(one, Reordered) or isinstance(two, Reordered):
        return "order"
    if isinstance(one, Chosen) and isinstance(two, Chosen):
        return "weights"
    return "operation" if hasattr(one, "operation") or hasattr(two, "operation") else "source"


def _without_seed(node: Reordered) -> Any:
    told = node.index_map
    return dataclasses.replace(told, seed=0) if hasattr(told, "seed") else told  # type: ignore[type-var]


def _told(node: Node) -> str:
    if isinstance(node, Reordered):
        return short_repr(node.index_map)
    if isinstance(node, Source):
        return short_repr(node.source)
    return short_repr(node.operation if hasattr(node, "operation") else node.parameters)
