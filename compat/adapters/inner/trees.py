"""Functions of Grain's `tree_lib` on nested dicts, lists and tuples.

In: trees and their leaves. Out: trees with other leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import optree

from ....common.messages import shorten
from ....operations.trees import flatten as flatten_all
from ..element_specs import ShapeDtypeStruct

our_flatten = partial(flatten_all, is_leaf=lambda leaf: isinstance(leaf, ShapeDtypeStruct))


def map_structure(f: Callable[..., Any], *structures: Any) -> Any:
    """Call a function with the leaves at each place of several trees; return a tree of results.

    Args:
        f: the function.
        *structures: at least one tree; all have the same structure.

    Raises:
        ValueError: if the structures differ.

    >>> map_structure(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
    {'x': [11, 22]}
    """
    leaves, structure = our_flatten(structures[0])
    others = [_up_to(structure, other) for other in structures[1:]]
    return structure.unflatten([f(*together) for together in zip(leaves, *others)])


def map_structure_up_to(shallow: Any, f: Callable[..., Any], *structures: Any) -> Any:
    """Call a function at each leaf of `shallow`, and return the tree of its results.

    Args:
        shallow: a tree, whose leaves give the places.
        f: function that is called with the subtrees of `structures` at a place.
        *structures: trees that begin like `shallow`.
    """
    structure = our_flatten(shallow)[1]
    columns = [structure.flatten_up_to(other) for other in structures]
    return structure.unflatten([f(*together) for together in zip(*columns)])


def map_structure_with_path(f: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Call a function with the path and leaf at each place of a tree; return a tree of results.

    Args:
        f: the function.
        structure: the tree.
        *others: trees of the same structure; their leaves at the place are passed after.

    >>> map_structure_with_path(lambda path, leaf: (path, leaf), {"x": [1]})
    {'x': [(('x', 0), 1)]}
    >>> map_structure_with_path(lambda path, *leaves: leaves, {"x": [1]}, {"x": [2]})
    {'x': [(1, 2)]}
    """
    leaves, spec = our_flatten(structure)
    rows = zip(spec.paths(), leaves, *(spec.flatten_up_to(other) for other in others))
    return spec.unflatten([f(*row) for row in rows])


def flatten(structure: Any) -> list[Any]:
    """Return a list of the leaves of a tree, in the order of optree (sorted keys)."""
    return our_flatten(structure)[0]


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return a pair for each leaf of a tree: its path, a tuple of keys, and the leaf."""
    leaves, spec = our_flatten(structure)
    return list(zip(spec.paths(), leaves))


def unflatten_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Build a tree with the structure of `structure` from its leaves, in the order of `flatten`."""
    return our_flatten(structure)[1].unflatten(list(flat_sequence))


def assert_same_structure(a: Any, b: Any) -> None:
    """Check that the trees `a` and `b` have the same structure; raise ValueError if they do not."""
    _up_to(our_flatten(a)[1], b)


def spec_like(structure: Any) -> Any:
    """Return a tree in which each leaf is replaced by a text of its type and shape.

    A list or tuple that is empty, or whose items all have one type, counts as a leaf.

    >>> spec_like({"x": np.zeros((2, 3)), "y": [1, 2], "z": "text"})
    {'x': 'float64[2, 3]', 'y': 'list<int>[2]', 'z': 'str[]'}
    """
    leaves, spec = flatten_all(
        structure, is_leaf=lambda tree: _is_uniform(tree) or isinstance(tree, ShapeDtypeStruct)
    )
    return spec.unflatten([f"{_type_of(leaf)}{_shape_of(leaf)}" for leaf in leaves])


def _is_uniform(tree: Any) -> bool:
    return isinstance(tree, (list, tuple)) and all(isinstance(item, type(tree[0])) for item in tree)


def _type_of(leaf: Any) -> str:
    if isinstance(leaf, np.ndarray):
        return str(leaf.dtype)
    inner = f"<{type(leaf[0]).__name__ if leaf else ''}>" if _is_uniform(leaf) else ""
    return f"{type(leaf).__name__}{inner}"


def _shape_of(leaf: Any) -> str:
    try:
        return str(list(np.asarray(leaf).shape))
    except ValueError:  # of parts of unequal lengths
        return "[unknown shape]"


def _up_to(structure: optree.PyTreeSpec, other: Any) -> list[Any]:
    leaves, found = our_flatten(other)
    if found != structure:
        ours, theirs = structure.paths(), found.paths()
        alone = next(
            (path for path in [*ours, *theirs] if (path in ours) != (path in theirs)), None
        )
        where = "" if alone is None else f", and only one has the leaf {shorten(alone)}"
        raise ValueError(
            f"The two structures differ: {shorten(structure, 120)} and "
            f"{shorten(found, 120)}{where}. Pass trees with equal keys, lengths and types of nodes."
        )
    return leaves
