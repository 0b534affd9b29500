"""Trees of nodes (sources, operations, joins) from which the engine compiles a pipeline.

The functions find and replace the leaves of a tree (sources with their orders), and repeat a tree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..loader.plan.joins import Apply, Joined, JoinPolicy, Read
from ..loader.plan.joins import Node as Tree
from ..loader.plan.rules import Again
from ..samplers import NoSharding


def leaves_of(tree: Tree) -> list[Any]:
    """Return all leaves of a tree. A leaf is a source with its order."""
    if isinstance(tree, Read):
        return [tree.leaf]
    return [leaf for below in inputs_of(tree) for leaf in leaves_of(below)]


def rules_above_growth(tree: Tree) -> list[JoinPolicy]:
    """Return the rules of all joins through which rows of growing sources pass.

    A rule decides from which of the joined streams the next row comes.
    """
    if not any(leaf.growth is not None for leaf in leaves_of(tree)):
        return []
    own = [tree.rule] if isinstance(tree, Joined) else []
    return [*own, *(rule for below in inputs_of(tree) for rule in rules_above_growth(below))]


def inputs_of(tree: Tree) -> tuple[Tree, ...]:
    """Return the trees directly below the top node of a tree, i.e. its inputs."""
    if isinstance(tree, Read):
        return ()
    return (tree.input,) if isinstance(tree, Apply) else tree.inputs


def named(tree: Tree, name: str) -> Tree:
    """Return the tree with `name` put before the names of its leaves (sources with their orders).

    The new name is `"name/name of the leaf"`, or only `"name"` if the leaf has no name.
    """

    def renamed(leaf: Any) -> Any:
        return dataclasses.replace(leaf, name=f"{name}/{leaf.name}" if leaf.name else name)

    return over_leaves(tree, renamed)


def over_epochs(tree: Tree, epochs: int | None) -> Tree:
    """Return a tree that repeats `tree` for `epochs` epochs; without end if `epochs` is None.

    A tree with a single source (no join) continues with the source's next epochs, each in its own
    order. The same elements are repeated in each epoch if the tree has a join, or if the source has
    an order that cannot change, has no records, grows during the run, or can only be read in order.
    """
    base = line_of(tree)[-1]
    if not isinstance(base, Read) or base.leaf.growth is not None or not base.leaf.facts.can_change:
        return Joined((tree,), Again(epochs))
    if base.leaf.in_order or not len(base.leaf.sampler.with_shard_options(NoSharding())):
        return Joined((tree,), Again(epochs))
    return over_leaves(
        tree, lambda leaf: dataclasses.replace(leaf, sampler=leaf.sampler.over(epochs))
    )


def line_of(tree: Tree) -> list[Tree]:
    """Return the nodes from the top of a tree down to the first source or join, top first."""
    return [tree, *line_of(tree.input)] if isinstance(tree, Apply) else [tree]


def over_leaves(tree: Tree, change: Any) -> Tree:
    """Return the tree with each leaf (a source with its order) replaced by `change(leaf)`."""
    if isinstance(tree, Read):
        return Read(change(tree.leaf))
    if isinstance(tree, Apply):
        return dataclasses.replace(tree, input=over_leaves(tree.input, change))
    return dataclasses.replace(
        tree, inputs=tuple(over_leaves(each, change) for each in tree.inputs)
    )
