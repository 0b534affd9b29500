"""The stream of an `IterDataset`, as a value.

In: a node of a `MapDataset`, or a tree of the plan. Out: a tree, and how it is run.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from ..loader.arguments import balance_of, skips
from ..loader.options import ExecutionOptions
from ..loader.plan.nodes import Node as Tree
from ..operations import Filter
from ..samplers import NoSharding
from ..samplers.sharding import as_shard_options
from .nodes.node import Node
from .nodes.seeds import Seeds, nearest_first


@dataclass(frozen=True)
class Stream:
    """A tree of the plan, and how it is run.

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

    def with_options(
        self, on_error: Literal["raise", "skip"] | None = None, max_errors: int | None = None, **execution: Any
    ) -> Stream:
        """The same, run otherwise; arguments of `IterDataset.with_options`."""
        known = [each.name for each in dataclasses.fields(ExecutionOptions)]
        for name in execution:
            if name not in known:
                from ..migration_hints.hints import unknown_argument

                raise unknown_argument("IterDataset.with_options", name, [*known, "on_error", "max_errors"])
        changed = dataclasses.replace(self, execution=dataclasses.replace(self.execution, **execution))
        if on_error is None and max_errors is None:
            return changed
        leaves_out = skips(on_error or "raise", max_errors)
        return dataclasses.replace(changed, skips_errors=leaves_out, max_errors=max_errors)


class Present(Filter):
    """Keeps what a dataset with random access has not left out.

    >>> Present().filter(None)
    False
    """

    def filter(self, element: Any) -> bool:
        """True where there is an element."""
        return element is not None


def stream_of(
    node: Node, read_options: Any, allow_nones: bool, shard_options: Any, balance: Any = None, lengths: Any = None
) -> Stream:
    """The stream of a node's first epoch; arguments of `MapDataset.to_iter_dataset`."""
    line = node.evaluated if allow_nones and node.may_be_none else node.line
    leaves_out = line.may_be_none and not (allow_nones or line.batches)
    shard = NoSharding() if shard_options is None else as_shard_options(shard_options)
    dealt = balance_of(line.source, balance, lengths)
    if dealt is not None:
        dealt.covering(len(line.source))
    tree = line.tree(shard, (Present(),) if leaves_out else (), dealt)
    return Stream(tree, node.seeds, node.operations, ExecutionOptions(read_options=read_options))
