"""Reduce a pipeline to the operations that decide which records are in an element.

Maps and batches after the last filter, flat map or `Pack` are replaced by operations that do
nothing. If there is no filter, flat map or `Pack`, and errors are not skipped, nothing is read at
all, except from sources without random access.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...common.fields import replaced
from ...loader.plan.cursor import Subtree
from ...loader.plan.leaf import Leaf
from ...loader.plan.pipeline import Pipeline
from ...operations import Operation
from ...operations.protocol import Context, Step
from ...operations.several import in_groups
from ...sources.range import RangeDataSource


class LeftOut(Operation):
    """Replacement for an operation whose results are not needed.

    If the operation takes several elements, this makes a None from each group of them. If it works
    on single elements, they pass unchanged.

    Args:
        operation: the operation that is replaced.
    """

    def __init__(self, operation: Operation) -> None:
        self.takes, self.drops_remainder = operation.takes, operation.drops_remainder

    def connect(self, then: Step, context: Context, number: int) -> Step:
        if self.takes is None:
            return then

        def push_group(group: Sequence[tuple[Any, ...]]) -> None:
            context.seed, context.position, context.row = group[0][:3]
            then(None)

        return in_groups(
            self.takes, push_group, context, number, keeps_rest=not self.drops_remainder
        )


def reduced(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline that keeps only what decides which records are in an element.

    It is as quick to run as possible.

    Other operations are replaced by some that do nothing, and sources whose records are not needed
    by numbers.
    """
    # whether something above looks at what a stage gives
    looked_at = [False] * len(pipeline.stages)
    read = [False] * len(pipeline.leaves)
    stages = list(pipeline.stages)

    def look(part: Subtree, looks: bool) -> None:
        if part.stage is not None:
            looked_at[part.stage] |= looks
            return
        for below in pipeline.joins[part.join or 0].inputs:
            look(below, looks)

    def leaf_of(leaf: Leaf, number: int) -> Leaf:
        if leaf.in_order or read[number]:
            return leaf
        # nobody looks at these numbers
        return dataclasses.replace(leaf, source=RangeDataSource(max(len(leaf.source), 1)))

    look(pipeline.top, bool(pipeline.skips_errors))
    for stage in reversed(pipeline.stages):
        looks, operations = looked_at[stage.number], list[Operation]()
        for operation in reversed(stage.operations):
            # elements, whatever they are
            moves = operation.keeps_elements or operation.puts_together
            looks = looks or not (operation.one_to_one or moves)
            operations.insert(0, operation if looks or moves else LeftOut(operation))
        stages[stage.number] = dataclasses.replace(stage, operations=tuple(operations))
        if stage.input is not None:
            look(stage.input, looks)
        elif stage.leaf is not None:
            read[stage.leaf] |= looks
    formers = tuple(
        replaced(former, leaves=tuple(map(leaf_of, former.leaves, range(len(read)))))
        for former in pipeline.formers
    )
    leaves = tuple(map(leaf_of, pipeline.leaves, range(len(read))))
    return dataclasses.replace(
        pipeline, leaves=leaves, stages=tuple(stages), formers=formers, traced=True
    )
