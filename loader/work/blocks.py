"""Blocks made of blocks: one that its failure does not hold, and one without rows that were delivered before.

In: the block of a task. Out: a block.
"""

from __future__ import annotations

import dataclasses

from ..plan.leaf import Leaf
from .tasks import Block, Failure, SpanTask


def apart(block: Block, failure: Failure) -> Block:
    """Copy a block, so that the frames in the traceback of its failure, in which the task was done, do not hold the copy."""
    return dataclasses.replace(block, failure=Failure(failure.take()))


def without_delivered(leaf: Leaf, task: SpanTask, block: Block) -> Block:
    """A block without the rows that a shard of a former run delivered."""
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
