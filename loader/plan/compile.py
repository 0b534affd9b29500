"""Turn a user's tree into a pipeline: leaves, stages (operations that run in one task) and joins.

In: the tree of nodes made from the user's arguments. Out: the pipeline that runs.

Leaves, stages, joins and operations are numbered from the bottom of the tree to its top, inputs
from left to right. So everything in a part of the tree has consecutive numbers, and a part keeps
its numbers if something is added above it.

A leaf is a source with its sampler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from ...common.messages import short_repr
from ...errors import ShardingError
from ...operations import Operation
from ..failures import Skips
from .cursor import NodeCounts, Subtree
from .identity import Identity
from .joins import Apply, Join, Joined, JoinPolicy, Node, Read
from .leaf import Leaf
from .pipeline import Pipeline
from .rules import RunThrough
from .stages import Stage, runs_of


def compiled(tree: Node, skips_errors: Skips = False) -> Pipeline:
    """Return the pipeline of a tree of sources, operations and joins.

    The rows of its top node are the elements.

    Args:
        tree: node at the top of the tree.
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides.

    Raises:
        ShardingError: an operation works on one shard only; or batches that are planned from known
            lengths (`BudgetBatch`) on several shards would skip records.
        ValueError: an operation stacks batches of different shapes, or packs records that are
            balanced among shards by cost; or a `balance` does not fit the batches and shards.
    """
    numbering = _Numbering(skips_errors)
    top = numbering.add(tree)
    leaves = tuple(numbering.dealt(leaf, number) for number, leaf in enumerate(numbering.leaves))
    stages, joins = tuple(numbering.stages), tuple(numbering.joins)
    operations = [operation for stage in stages for operation in stage.operations]
    snapshot = Identity.of([leaf.source for leaf in leaves], operations)
    return Pipeline(leaves, stages, joins, top, snapshot, skips_errors)


def with_operations(pipeline: Pipeline, operations: Sequence[Operation]) -> Pipeline:
    """Return a pipeline of a single source with its operations replaced.

    The saved fingerprints of sources and operations (`snapshot`) are kept.

    Raises:
        ShardingError, ValueError: an operation does not fit the shards or the other operations.
    """
    other = compiled(Apply(Read(pipeline.leaf), tuple(operations)), pipeline.skips_errors)
    return dataclasses.replace(other, snapshot=pipeline.snapshot)


class _Numbering:
    """Collects and numbers leaves, stages (operations that run in one task) and joins of a tree.

    A leaf is a source with its sampler.

    Args:
        skips_errors: True to skip failing records, False to raise, or the user's function that
            decides.
    """

    def __init__(self, skips_errors: Skips) -> None:
        self._skips_errors = skips_errors
        self._operations = 0
        self.leaves: list[Leaf] = []
        self.stages: list[Stage] = []
        self.joins: list[Join] = []

    def dealt(self, leaf: Leaf, number: int) -> Leaf:
        """Return a leaf (a source with its sampler), ready to run.

        If records are balanced among shards by cost, it gets the blocks of positions within which
        shards exchange records.

        Args:
            leaf: the leaf.
            number: index of the leaf.

        Raises:
            ValueError: an operation packs balanced records.
        """
        balance = leaf.sampler.facts.balance
        if balance is None or leaf.lineage.orders:
            return leaf
        check_balanced(operation for stage in self.stages for operation in stage.operations)
        stage = next(stage for stage in self.stages if stage.leaf == number)
        blocks = balance.blocks(
            stage.unit if stage.groups else None, leaf.shard.shard_count, stage.one_to_one
        )
        return dataclasses.replace(leaf, lineage=dataclasses.replace(leaf.lineage, blocks=blocks))

    def add(self, tree: Node) -> Subtree:
        base, operations = line_of(tree)
        check_stacks(base, operations)
        first = NodeCounts(len(self.leaves), len(self.stages), len(self.joins))
        if isinstance(base, Read):
            if self._skips_errors:
                check_skips(base.leaf)
            self.leaves.append(base.leaf)
            if base.leaf.in_order:
                self._noted(RunThrough())
            return self._with_stages(
                None, first, NodeCounts(1, 0, int(base.leaf.in_order)), operations
            )
        inputs = tuple(map(self.add, base.inputs))
        size = reduce(NodeCounts.plus, (one.size for one in inputs), NodeCounts(0, 0, 1))
        part = Subtree(None, self._noted(base.rule, inputs, base.names), first, size)
        return self._with_stages(part, first, size, operations) if operations else part

    def _noted(
        self, rule: JoinPolicy, inputs: tuple[Subtree, ...] = (), names: tuple[str, ...] = ()
    ) -> int:
        self.joins.append(Join(len(self.joins), inputs, rule, names))
        return len(self.joins) - 1

    def _with_stages(
        self,
        part: Subtree | None,
        first: NodeCounts,
        size: NodeCounts,
        operations: Sequence[Operation],
    ) -> Subtree:
        """Divide operations on a section into stages, add these, and return the enlarged section.

        A stage is a group of operations that run together in one task.

        Args:
            part: section of the tree whose rows are the inputs; None if the stages read the leaf (a
                source with its sampler) that was added last.
            first: indices of the first leaf, stage and join of the new section.
            size: how many leaves, stages and joins the section has so far.
            operations: operations, in order.

        Raises:
            ShardingError: an operation works on one shard only, and there are several.
        """
        for run in runs_of(operations, bool(self._skips_errors)):
            if not run and part is not None:
                continue  # rows of a join need no stage before the batch's stage
            leaf = len(self.leaves) - 1 if part is None else None
            check_shards(run, self.leaves[-1].shard.shard_count)
            size = size.plus(NodeCounts(0, 1, 0))
            below, part = part, Subtree(len(self.stages), None, first, size)
            self.stages.append(Stage(len(self.stages), leaf, self._operations, run, part, below))
            self._operations += len(run)
        assert part is not None, "a line has at least one stage"
        return part


def check_shards(operations: Sequence[Operation], shards: int) -> None:
    """Check that no operation that works only on one shard is used on several.

    Args:
        operations: the operations.
        shards: number of shards.

    Raises:
        ShardingError: such an operation is used, and `shards` is more than 1.
    """
    for operation in operations if shards > 1 else ():
        if operation.single_shard:
            raise ShardingError(
                f"{short_repr(operation)} on {shards} shards: it {operation.single_shard}."
            )


def check_stacks(base: Read | Joined, operations: Sequence[Operation]) -> None:
    """Check that no operation stacks batches of a `BudgetBatch`, because these differ in shape.

    Args:
        base: the source or join before the operations. The source may consist of batches that a
            `BudgetBatch` has planned from known lengths.
        operations: operations, in order.

    Raises:
        ValueError: an operation would stack such batches.
    """
    planned: Any = base.leaf.sampler if isinstance(base, Read) and base.leaf.plans_batches else None
    # a `BudgetBatch` knows shapes that were given
    made: list[Any] = [one.plans_batches and one for one in operations]
    known = [planned and planned.windows.shapes, *(one and one.shapes for one in made)]
    for shapes, after in zip(known, operations):
        if shapes:
            shapes.check_stacked(after)


def check_balanced(operations: Iterable[Operation]) -> None:
    """Check that no operation makes packed rows of records that `balance=` divides among shards.

    Call it only if the pipeline balances records by cost. The costs of the rows would differ.

    Raises:
        ValueError: an operation packs such records.
    """
    for operation in operations:
        if operation.plans_rows:
            raise ValueError(
                f"balance= divides records among shards before {short_repr(operation)}, so the "
                "rows that it makes would not be balanced. In a DataLoader, put Pack before all "
                "operations except maps; or pack a dataset, MapDataset…pack(…, "
                "lengths=…).to_iter_dataset(balance=…)."
            )


def check_skips(leaf: Leaf) -> None:
    """Check that failing records can be skipped in a leaf (a source with its sampler).

    They cannot be skipped in batches that a `BudgetBatch` plans from known lengths, on several
    shards: all shards have equal numbers of these batches, and a shard that skips a record would
    lose a batch.

    Raises:
        ShardingError: the leaf has such planned batches, and there are several shards.
    """
    if leaf.plans_batches and leaf.shard.shard_count > 1:
        raise ShardingError(
            "on_error= cannot skip records of planned batches of BudgetBatch on "
            f"{leaf.shard.shard_count} shards: a failing record would remove its whole batch, and "
            "one shard would have fewer batches than the others. Let the map return an empty array "
            'instead of failing, and use on_error="raise".'
        )


def line_of(node: Node) -> tuple[Read | Joined, tuple[Operation, ...]]:
    """Return the source or join of a node's rows, and all operations between the two, in order."""
    if isinstance(node, Apply):
        base, before = line_of(node.input)
        return base, (*before, *node.operations)
    return node, ()
