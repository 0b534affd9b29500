"""The tree of nodes that a user describes. Each node is a stream; the nodes below are its inputs.

In: what the user passed, checked. Out: a tree, which `compile` turns into leaves, stages and joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...operations import Operation
from .joins import JoinPolicy
from .leaf import Leaf


@dataclass(frozen=True)
class Read:
    """The records of a source, in an order."""

    leaf: Leaf


@dataclass(frozen=True)
class Apply:
    """Operations on another stream."""

    input: Node
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Joined:
    """Rows of other streams, as a rule takes them."""

    inputs: tuple[Node, ...]  # the streams
    rule: JoinPolicy  # whose row comes next
    names: tuple[str, ...] = ()  # of the inputs, for states and messages; none: numbers


Node: TypeAlias = Read | Apply | Joined
