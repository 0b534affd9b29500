"""Trees of nodes from which the engine compiles a pipeline.

The functions find and replace the leaves of a tree (its sources with their orders), and repeat a
tree.
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

    A rule decides from which joined stream the next row comes.
    """
    if not any(leaf.growth is not None for leaf in leaves_of(tree)):
        return []
    own = [tree.rule] if isinstance(tree, Joined) else []
    return [*own, *(rule for below in inputs_of(tree) for rule in rules_above_growth(below))]


def inputs_of(tree: Tree) -> tuple[Tree, ...]:
    """Return the trees directly below the node at the top of a tree."""
    if isinstance(tree, Read):
        return ()
    return (tree.input,) if isinstance(tree, Apply) else tree.inputs


def named(tree: Tree, name: str) -> Tree:
    """Return the tree with a name put before the names of its leaves (sources with their orders).

    The new names are `"name/name of the leaf"`; only `"name"` if the leaf has no name.
    """

    def renamed(leaf: Any) -> Any:
        return dataclasses.replace(leaf, name=f"{name}/{leaf.name}" if leaf.name else name)

    return over_leaves(tree, renamed)


def over_epochs(tree: Tree, epochs: int | None) -> Tree:
    """Return a tree of nodes that repeats another one for `epochs` epochs (None: without end).

    A tree with a single source (no join) continues with the source's next epochs, each in its own
    order. There are exceptions, which repeat the same elements in each epoch: sources whose order
    cannot change, sources without records, sources that grow during the run, and sources that can
    only be read in order. A tree with a join repeats the same elements, too.
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
    """Return the top node of a tree and the nodes below it, down to the first source or join."""
    return [tree, *line_of(tree.input)] if isinstance(tree, Apply) else [tree]


def over_leaves(tree: Tree, change: Any) -> Tree:
    """Return the tree with its leaves (sources with their orders) replaced by `change(leaf)`."""
    if isinstance(tree, Read):
        return Read(change(tree.leaf))
    if isinstance(tree, Apply):
        return dataclasses.replace(tree, input=over_leaves(tree.input, change))
    return dataclasses.replace(
        tree, inputs=tuple(over_leaves(each, change) for each in tree.inputs)
    )
