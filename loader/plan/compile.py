"""Turns a tree of nodes into leaves and stages, purely.

In: the tree that a user described. Out: the pipeline that runs.

Leaves, stages and operations are numbered from the bottom of the tree to its top, inputs from left to right. So the numbers
of all that belongs to a part of the tree follow one another, and a part keeps its numbers when something is put on top of it.
"""

from __future__ import annotations

from ...operations import Operation
from .leaf import Leaf
from .nodes import Apply, Node
from .pipeline import Pipeline
from .stages import stages_of


def compiled(tree: Node, skips_errors: bool = False) -> Pipeline:
    """The pipeline of a tree.

    Args:
        tree: the node whose rows are the elements.
        skips_errors: a record that fails is left out.
    """
    leaf, operations = _line(tree)
    return Pipeline((leaf,), stages_of(operations, skips_errors), skips_errors)


def _line(node: Node) -> tuple[Leaf, tuple[Operation, ...]]:
    """A leaf and all operations that are applied to it, one after the other."""
    if isinstance(node, Apply):
        leaf, before = _line(node.input)
        return leaf, (*before, *node.operations)
    return node.leaf, ()
