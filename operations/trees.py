"""Trees of arrays: dicts, lists, tuples, named tuples and dataclasses with arrays or scalars at the leaves.

In: an element. Out: its leaves and its structure, and back. The work is optree's; this file adds dataclasses, which it
takes for leaves until they are registered.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import optree

from ..errors import BatchError

NAMESPACE = "headrace"

Structure = optree.PyTreeSpec


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Leaves, and the structure that puts them together again. None is structure, not a leaf.

    Args:
        tree: of leaves.
        is_leaf: True for further ones, which would be trees.

    >>> leaves, structure = flatten({"b": 1, "a": (2, 3)})
    >>> leaves
    [2, 3, 1]
    >>> structure.unflatten(leaves)
    {'b': 1, 'a': (2, 3)}
    """
    leaves, structure = optree.tree_flatten(tree, is_leaf=is_leaf, namespace=NAMESPACE)
    unknown = {type(leaf) for leaf in leaves if _is_dataclass_instance(leaf) and not (is_leaf and is_leaf(leaf))}
    if not unknown:
        return leaves, structure
    for kind in unknown:
        _register_dataclass(kind)
    return flatten(tree, is_leaf)


def is_leaf(tree: Any) -> bool:
    """The tree is a single leaf."""
    return optree.tree_is_leaf(tree, namespace=NAMESPACE) and not _is_dataclass_instance(tree)


def leaf_names(structure: Structure) -> list[str]:
    """A readable path for each leaf: `['image']`, `[0].tokens`; "" for a tree that is one leaf.

    >>> leaf_names(flatten({"a": (2, 3)})[1])
    ["['a'][0]", "['a'][1]"]
    """
    return [accessor.codify("") for accessor in structure.accessors()]


def rows_of(batch: Any) -> Iterator[Any]:
    """The rows of a batch, in order; the arrays of a row are views.

    Raises:
        BatchError: a leaf is no array with a leading axis, or leaves have unequal numbers of rows.

    >>> import numpy as np
    >>> [int(row["x"]) for row in rows_of({"x": np.arange(3)})]
    [0, 1, 2]
    """
    leaves, structure = flatten(batch)
    lengths = {leaf.shape[0] if getattr(leaf, "ndim", 0) else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise BatchError(
            f"rebatch needs batches whose leaves have one leading axis in common; these have {sorted(map(str, lengths))} rows."
        )
    return (structure.unflatten(list(row)) for row in zip(*leaves))


def bare_lists(tree: Any) -> list[str]:
    """The names of lists without an array in them: of numbers, of strings, or empty.

    >>> bare_lists({"tokens": [1, 2, 3], "size": (4, 5)})
    ["['tokens']"]
    """
    leaves, structure = optree.tree_flatten(tree, is_leaf=_is_bare_list, namespace=NAMESPACE)
    return [name for name, leaf in zip(leaf_names(structure), leaves) if type(leaf) is list]


def _is_bare_list(tree: Any) -> bool:
    return type(tree) is list and not any(getattr(leaf, "shape", ()) for leaf in flatten(tree)[0])


def _is_dataclass_instance(leaf: Any) -> bool:
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)


def _register_dataclass(kind: type) -> None:
    names = tuple(one.name for one in dataclasses.fields(kind))

    def to_children(instance: Any) -> tuple[list[Any], None, tuple[str, ...]]:
        return [getattr(instance, name) for name in names], None, names

    def from_children(_: Any, children: Any) -> Any:
        instance: Any = object.__new__(kind)
        for name, child in zip(names, children):
            object.__setattr__(instance, name, child)
        return instance

    with contextlib.suppress(ValueError):  # another thread met the class at the same time, and was quicker
        optree.register_pytree_node(
            kind, to_children, from_children, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE
        )
