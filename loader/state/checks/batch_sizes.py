"""Check that a batch or window that was delivered in part would be made in the same way again.

Such a batch or window gives several elements, of which some were delivered before the state was
saved.

In: the pipeline, and a saved state. Out: a `CheckpointError` if its size, or its operation, has
changed.
"""

from __future__ import annotations

import dataclasses
from itertools import compress, count

from ....common.fields import replaced
from ....common.messages import short_repr
from ....errors import CheckpointError
from ...plan.cursor import those_within
from ...plan.pipeline import Pipeline
from ..leftover import part_of
from ..schema import LoaderState


def sizes_in_use(pipeline: Pipeline, state: LoaderState) -> list[bool]:
    """Return which batches and windows of a pipeline must keep their size.

    The size of an operation must stay the same if one of its batches or windows was delivered only
    in part when the state was saved, in the run itself or in a leftover (unfinished work of an
    earlier shard). With another size, elements would be repeated or lost.

    Returns:
        A list with a bool for each operation that takes several inputs (a batch or window), in the
        order of the pipeline: True if its size must stay the same.
    """
    begun = [(pipeline.top, state.cursor)]
    begun += [
        (part_of(pipeline, rest) or pipeline.top, rest.cursor)
        for rest in those_within(state.cursor.unfinished)
    ]
    within = set[int]().union(*(pipeline.begun_at(*where) for where in begun))
    every = (
        (stage.number, operation) for stage in pipeline.stages for operation in stage.operations
    )
    return [number in within for number, operation in every if operation.takes is not None]


def check_sizes(pipeline: Pipeline, state: LoaderState) -> None:
    """Check that batches and windows delivered in part are made in the same way as in the state.

    Nothing is checked if the pipeline has other stages (groups of operations that run in one task)
    than the state.

    Raises:
        CheckpointError: such a batch or window has another size, or its operation other arguments,
            so that elements would be repeated or lost.
    """
    before, now = state.identity.sizes, pipeline.identity.sizes
    aligned = _aligned(pipeline, state)
    if aligned is None:
        return
    in_use = sizes_in_use(pipeline, aligned)
    for former, size, begun in zip(reversed(before), reversed(now), reversed(in_use)):
        if begun and former != size:
            raise CheckpointError(
                "the checkpoint was saved between two elements that were made of one batch or "
                f"window of {short_repr(former)} elements. With {short_repr(size)}, its elements "
                "would repeat or be lost. Keep the former size until a later step, or restore a "
                "checkpoint of another step."
            )
    saved, present = state.identity.operations, pipeline.identity.operations
    if len(saved) != len(present):
        return
    operations = pipeline.operations
    grouping = [operation.takes is not None for operation in operations]
    for number, begun in zip(compress(count(), grouping), in_use):
        # a batch has the same records with any other argument
        if begun and saved[number] != present[number] and not operations[number].one_to_one:
            raise CheckpointError(
                "the checkpoint was saved between two elements that were made of one window of "
                f"{short_repr(operations[number])}, whose arguments differ from the state. With "
                "them, elements would repeat or be lost. Keep the former arguments until a later "
                "step, or restore a checkpoint of another step."
            )


def _aligned(pipeline: Pipeline, state: LoaderState) -> LoaderState | None:
    """Return the state with one entry for each stage of the current pipeline.

    A stage is a group of operations that run in one task. The entry says how many of the rows that
    the stage makes next were delivered already. If datasets were added to the pipeline's last mix
    or removed from it, only the stages after the mix can be compared, and the entries of the other
    stages are 0.

    Return None if the pipeline has other stages than the state, or other batches or windows.
    """
    skips, stages = state.cursor.skips, len(pipeline.stages)
    if len(skips) == stages:
        same = len(state.identity.sizes) == len(pipeline.identity.sizes)
        return state if same else None
    after = (
        stages - sum(part.size.stages for part in pipeline.joins[-1].inputs)
        if pipeline.joins
        else 0
    )
    if not 0 < after <= len(skips):
        return None
    moved = (*(0,) * (stages - after), *skips[len(skips) - after :])
    return dataclasses.replace(state, cursor=replaced(state.cursor, skips=moved, unfinished=()))
