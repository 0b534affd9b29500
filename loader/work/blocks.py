"""Make a block (the output rows of one task) from another block.

`apart` copies a block without a reference to the frames of its failure. `without_delivered` removes
rows that an earlier run has delivered.
"""

from __future__ import annotations

import dataclasses

from ..plan.leaf import Leaf
from .tasks import Block, Failure, SpanTask


def apart(block: Block, failure: Failure) -> Block:
    """Return a copy of a block (the rows of one task) with a failure object of its own.

    `failure` is the block's failure. Its exception is moved to the copy. The traceback leads to the
    frames that ran the task; these frames do not hold the copy.
    """
    return dataclasses.replace(block, failure=Failure(failure.take()))


def without_delivered(leaf: Leaf, task: SpanTask, block: Block) -> Block:
    """Remove the rows of a task's block that an earlier run, with other shards, has already delivered.

    The number of delivered rows of each position is in `leaf.lineage.skips`. A block without `tags`
    (the origins of its rows) is returned unchanged; any other block is changed in place and
    returned.
    """
    if block.tags is None:
        return block
    delivered = dict(leaf.lineage.skips)
    kept, seen = [], dict[int, int]()
    places = leaf.places(task.start, task.stop).tolist()
    for number, place in enumerate(block.tags.inputs):
        seen[place] = seen.get(place, 0) + 1
        if seen[place] > delivered.get(places[place], 0):
            kept.append(number)
    if len(kept) < block.count:
        block.elements = [block.elements[number] for number in kept]
        block.tags = block.tags.some(kept)
    return block
