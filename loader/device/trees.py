"""Flatten batches for devices, with the tree classes that JAX knows.

In: a batch. Out: its leaves and its structure. A class that is registered with JAX in this process
is a node of the tree, so its arrays are leaves. (In workers, which do not import JAX, an object of
such a class is a leaf.)
"""

from __future__ import annotations

from typing import Any

import jax
import optree

from ...operations.trees import Node, Nodes, Structure, node_of
from ...operations.trees import flatten as flatten_as


def _node_of(leaf: Any) -> Node | None:
    if isinstance(leaf, jax.Array) or jax.tree_util.all_leaves([leaf]):
        return node_of(leaf)
    return (
        _taken_apart,
        lambda structure, children: structure.unflatten(children),
        optree.FlattenedEntry,
    )


def _taken_apart(tree: Any) -> tuple[list[Any], Any]:
    """Flatten one node of a tree: return its children, and JAX's description of the node alone."""
    children, structure = jax.tree_util.tree_flatten(tree, is_leaf=lambda each: each is not tree)
    return children, structure


_NODES = Nodes("headrace devices", _node_of)

NAMESPACE = _NODES.namespace


def flatten(batch: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a batch (arrays and other objects), and the structure to rebuild it.

    A None in the batch is not a leaf, but part of the structure.
    """
    return flatten_as(batch, nodes=_NODES)
