"""Copy a block (the output rows of one task) with another failure, or without rows that were delivered before."""

from __future__ import annotations

import dataclasses

from ..plan.leaf import Leaf
from .tasks import Block, Failure, SpanTask


def apart(block: Block, failure: Failure) -> Block:
    """Return a copy of a block (the rows of one task) with a failure object of its own.

    `failure` is the block's failure. Its exception is moved to the copy. The exception's traceback refers to
    frames of the task; these refer to the old block, so the new one is in no reference cycle.
    """
    return dataclasses.replace(block, failure=Failure(failure.take()))


def without_delivered(leaf: Leaf, task: SpanTask, block: Block) -> Block:
    """Remove the rows of a block (the rows of one task) that an earlier run, on other shards, has already delivered.

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
