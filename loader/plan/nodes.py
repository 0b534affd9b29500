"""What a user describes: a tree of nodes. Each is a stream; what stands below it is its input.

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
    """What operations make of another stream."""

    input: Node
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Joined:
    """Rows of other streams, as a rule takes them."""

    inputs: tuple[Node, ...]  # the streams
    rule: JoinPolicy  # whose row comes next
    names: tuple[str, ...] = ()  # of the inputs, for states and messages; none: numbers


Node: TypeAlias = Read | Apply | Joined
