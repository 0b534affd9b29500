"""Parts of a pipeline: what comes out of one of its stages or joins, and all that this is made of.

In: numbers. Out: values. What belongs to a part has numbers that follow one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class NodeCounts(NamedTuple):
    """How many leaves, stages and joins there are in a part of a pipeline."""

    leaves: int
    stages: int
    joins: int

    def plus(self, other: NodeCounts) -> NodeCounts:
        """That of two parts."""
        return NodeCounts(*(one + two for one, two in zip(self, other)))


@dataclass(frozen=True)
class Subtree:
    """A part of a pipeline: what comes out of a stage or of a join, and all that this is made of."""

    stage: int | None  # number of the stage; None: of a join
    join: int | None  # number of the join; None: of a stage
    first: NodeCounts  # the numbers of the first leaf, stage and join that belong to it
    size: NodeCounts  # how many belong to it

    @property
    def leaves(self) -> slice:
        """The numbers of its leaves."""
        return slice(self.first.leaves, self.first.leaves + self.size.leaves)

    @property
    def stages(self) -> range:
        """The numbers of its stages."""
        return range(self.first.stages, self.first.stages + self.size.stages)

    @property
    def joins(self) -> slice:
        """The numbers of its joins."""
        return slice(self.first.joins, self.first.joins + self.size.joins)
