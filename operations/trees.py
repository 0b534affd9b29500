"""Trees of arrays: dicts and other mappings, lists, tuples, named tuples and dataclasses.

Their leaves are arrays or scalars.

They are processed by optree. It treats dataclasses, mappings, and classes with the methods of JAX's
pytrees as leaves. This module registers them with optree as nodes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ..common.messages import first_few
from ..errors import BatchError

Structure = optree.PyTreeSpec


def flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None, nodes: Nodes | None = None
) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, and the structure that rebuilds it.

    None is part of the structure, not a leaf. A mapping that is not a dict is rebuilt as a dict.

    Args:
        tree: the tree.
        is_leaf: function that returns True for trees to treat as leaves. None (default): no others.
        nodes: classes that are treated as nodes, besides optree's. None (default): `NODES`.

    >>> leaves, structure = flatten({"b": 1, "a": (2, 3)})
    >>> leaves
    [2, 3, 1]
    >>> structure.unflatten(leaves)
    {'b': 1, 'a': (2, 3)}
    """
    nodes = nodes or NODES
    leaves, structure = optree.tree_flatten(tree, is_leaf=is_leaf, namespace=nodes.namespace)
    if set(map(type, leaves)) <= _PLAIN:
        return leaves, structure
    others = (
        leaf for leaf in leaves if type(leaf) not in _PLAIN and not (is_leaf and is_leaf(leaf))
    )
    return flatten(tree, is_leaf, nodes) if nodes.register(others) else (leaves, structure)


def is_leaf(tree: Any) -> bool:
    """Return True if `tree` is one leaf: an array, scalar or other object.

    Return False for None, and for dicts, lists and so on.
    """
    return optree.tree_is_leaf(tree, namespace=NAMESPACE) and node_of(tree) is None


def leaf_names(structure: Structure) -> list[str]:
    """Return a readable path for each leaf: `['image']`, `[0].tokens`; "" for a tree of one leaf.

    >>> leaf_names(flatten({"a": (2, 3)})[1])
    ["['a'][0]", "['a'][1]"]
    """
    return [accessor.codify("") for accessor in structure.accessors()]


def rows_of(batch: Any) -> Iterator[Any]:
    """Yield the rows of a batch, in order. The arrays of a row are views.

    Raises:
        BatchError: a leaf is not an array with a leading axis, or leaves have different numbers of
            rows.

    >>> import numpy as np
    >>> [int(row["x"]) for row in rows_of({"x": np.arange(3)})]
    [0, 1, 2]
    """
    leaves, structure = flatten(batch)
    lengths = [leaf.shape[0] if getattr(leaf, "ndim", 0) else None for leaf in leaves]
    if len(set(lengths)) != 1 or None in lengths:
        rows = [
            f"{name or 'the batch'}: {'none' if length is None else length}"
            for name, length in zip(leaf_names(structure), lengths)
        ]
        raise BatchError(
            "rebatch needs leaves with the same number of rows, but "
            f"{f'the rows are {first_few(rows)}' if rows else 'the batch has no leaves'}. Call "
            "rebatch before the map that changes the number of rows, or give each leaf one row for "
            "each record."
        )
    return (structure.unflatten(list(row)) for row in zip(*leaves))


def bare_lists(tree: Any) -> list[str]:
    """Return the names of lists that contain no array: of numbers, of strings, or empty.

    >>> bare_lists({"tokens": [1, 2, 3], "size": (4, 5)})
    ["['tokens']"]
    """
    leaves, structure = optree.tree_flatten(tree, is_leaf=_is_bare_list, namespace=NAMESPACE)
    return [name for name, leaf in zip(leaf_names(structure), leaves) if type(leaf) is list]


def _is_bare_list(tree: Any) -> bool:
    return type(tree) is list and not any(getattr(leaf, "shape", ()) for leaf in flatten(tree)[0])


Node = tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Any]
"""Registration of a class with optree: functions to flatten and rebuild, class of path entries."""


@dataclass(frozen=True)
class Nodes:
    """Classes of tree nodes that are registered with optree under one namespace.

    Attributes:
        namespace: namespace in optree's registry.
        node_of: function that takes a leaf, and returns the registration of its class as a node;
            None for a real leaf. Not called for arrays and common scalars.
    """

    namespace: str
    node_of: Callable[[Any], Node | None]

    def register(self, leaves: Iterable[Any]) -> bool:
        """Find leaves that are in fact nodes, and register their classes with optree.

        Return True if there were any.
        """
        found = {type(leaf): node for leaf in leaves if (node := self.node_of(leaf)) is not None}
        for kind, (to_children, from_children, entry) in found.items():
            # another thread met the class at the same time, and was quicker
            with contextlib.suppress(ValueError):
                optree.register_pytree_node(
                    kind,
                    to_children,
                    from_children,
                    path_entry_type=entry,
                    namespace=self.namespace,
                )
        return bool(found)


class _NoEntry(optree.PyTreeEntry):
    """Path entry for a mapping, registered as a node whose only child is a dict of its items.

    The step from the mapping to this dict does not appear in paths of leaves.
    """

    def __call__(self, mapping: Any) -> Any:
        return dict(mapping)

    def codify(self, node: str = "") -> str:
        return node


def node_of(leaf: Any) -> Node | None:
    """Return the registration with which optree treats the class of a leaf as a node.

    Return None if it is a real leaf.

    Nodes are classes with the methods of JAX's pytrees, dataclasses, and mappings.
    """
    kind: Any = type(leaf)
    return _node_of_class(kind)


@functools.lru_cache(maxsize=1 << 10)
def _node_of_class(kind: Any) -> Node | None:
    if callable(getattr(kind, "tree_unflatten", None)):
        if callable(getattr(kind, "tree_flatten", None)):
            return _by_methods(kind, lambda tree: tree.tree_flatten())
        if callable(getattr(kind, "tree_flatten_with_keys", None)):
            return _by_methods(kind, _without_keys)
    if dataclasses.is_dataclass(kind):
        return _dataclass_node(kind)
    return (_of_mapping, _as_dict, _NoEntry) if issubclass(kind, Mapping) else None


def _by_methods(kind: Any, take_apart: Callable[[Any], Any]) -> Node:
    """Return the registration of a class with the methods of JAX's pytrees.

    These are the methods that `jax.tree_util.register_pytree_node_class` needs.

    Args:
        kind: the class. It has `tree_unflatten`.
        take_apart: function that flattens an instance to `(children, metadata)`.
    """
    return (
        take_apart,
        lambda metadata, children: kind.tree_unflatten(metadata, children),
        optree.FlattenedEntry,
    )


def _without_keys(tree: Any) -> tuple[list[Any], Any]:
    children, metadata = tree.tree_flatten_with_keys()
    return [child for _, child in children], metadata


def _of_mapping(mapping: Mapping[Any, Any]) -> tuple[tuple[Any], None]:
    return (dict(mapping),), None


def _as_dict(_: None, children: Any) -> Any:
    return children[0]


def _dataclass_node(kind: Any) -> Node:
    """Return the values with which the dataclass `kind` is registered with optree as a node.

    Fields that Flax or JAX mark as static are part of the structure, not leaves.
    """
    fields = dataclasses.fields(kind)
    static = tuple(field.name for field in fields if _is_static(field))
    names = tuple(field.name for field in fields if field.name not in static)

    def to_children(instance: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
        return (
            [getattr(instance, name) for name in names],
            tuple(getattr(instance, name) for name in static),
            names,
        )

    def from_children(values: Any, children: Any) -> Any:
        instance: Any = object.__new__(kind)
        for name, child in zip((*names, *static), (*children, *values)):
            object.__setattr__(instance, name, child)
        return instance

    return to_children, from_children, optree.GetAttrEntry


def _is_static(field: dataclasses.Field[Any]) -> bool:
    return (
        field.metadata.get("pytree_node", True) is False
        or field.metadata.get("static", False) is True
    )


def _if_dataclass(leaf: Any) -> Node | None:
    return _dataclass_node(type(leaf)) if dataclasses.is_dataclass(leaf) else None


NODES = Nodes("headrace", node_of)
"""Nodes of batches."""

ROWS = Nodes("headrace rows", _if_dataclass)
"""Nodes of rows that are sent between processes.

Only dataclasses: other objects are pickled, and keep their class.
"""

NAMESPACE = NODES.namespace

_PLAIN = {np.ndarray, np.float32, np.float64, np.int64, np.int32, bool, bytes, float, int, str}
