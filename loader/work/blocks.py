"""Copy a block with its failure replaced, or without rows that were delivered earlier.

A block has the rows of one task, and the failure that ended the task, if any.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..plan.leaf import Leaf
from .tasks import Block, Failure, SpanTask


def apart(block: Block, failure: Failure) -> Block:
    """Return a copy of a block whose exception is in no reference cycle.

    A block has the rows of one task. The exception is moved from `failure` to a new failure object
    in the copy. The exception's traceback refers to frames of the task, and these frames refer to
    the old block, but nothing refers to the copy.

    Args:
        block: the block.
        failure: the block's failure.
    """
    return dataclasses.replace(block, failure=Failure(failure.take()))


def without_delivered(leaf: Leaf, task: SpanTask, block: Block) -> Block:
    """Remove the rows of a block that an earlier run, on another number of shards, has delivered.

    A block has the rows of one task. It is changed in place and returned. A block without `tags`
    (the origins of its rows) is returned unchanged.

    Args:
        leaf: the source of the rows, with its sampler. Its `lineage.skips` has, for each position,
            the number of rows that were delivered.
        task: the task that made the block.
        block: the block.
    """
    if block.tags is None:
        return block
    delivered = dict(leaf.lineage.skips)
    kept, seen = [], dict[int, int]()
    places = leaf.places_of(np.arange(task.start, task.stop)).tolist()
    for number, place in enumerate(block.tags.inputs):
        seen[place] = seen.get(place, 0) + 1
        if seen[place] > delivered.get(places[place], 0):
            kept.append(number)
    if len(kept) < block.count:
        block.elements = [block.elements[number] for number in kept]
        block.tags = block.tags.some(kept)
    return block
