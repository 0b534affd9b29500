"""What an `IterDataset` is made of, as a value.

In: a tree of the plan. Out: another one, with more on top.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ..loader.options import ExecutionOptions
from ..loader.plan.nodes import Node as Tree
from .nodes import Seeds, nearest_first


@dataclass(frozen=True)
class Stream:
    """What an `IterDataset` is made of.

    Attributes:
        tree: what the engine compiles.
        seeds: that were set below.
        operations: how many an element has gone through, those included that are evaluated inside sources.
        execution: where the work is done.
        skips_errors: a record that fails is left out.
        max_errors: how many may be.
    """

    tree: Tree
    seeds: Seeds
    operations: int
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    skips_errors: bool = False
    max_errors: int | None = None

    def on(self, tree: Tree, operations: int = 0) -> Stream:
        """The same with another tree, which has so many more operations on the way."""
        return dataclasses.replace(
            self, tree=tree, seeds=nearest_first([self.seeds]), operations=self.operations + operations
        )
