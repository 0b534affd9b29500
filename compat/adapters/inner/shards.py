"""Grain's division of examples into shards.

In: the number of examples, and the shard. Out: the range of examples of this shard.
"""

from __future__ import annotations

from ....samplers import ShardOptions
from ....samplers.grain.grain_order import GrainOrder


def even_split(num_examples: int, options: ShardOptions) -> tuple[int, int]:
    """Return the index of a shard's first example, and the index after its last example.

    Args:
        num_examples: number of all examples.
        options: the shard; with `drop_remainder`, all shards get the same number.

    >>> [even_split(9, ShardOptions(index, 2, drop_remainder=True)) for index in (0, 1)]
    [(0, 4), (4, 8)]
    >>> [even_split(9, ShardOptions(index, 2, drop_remainder=False)) for index in (0, 1)]
    [(0, 5), (5, 9)]
    """
    first, count = GrainOrder(num_examples, options, None).part()
    return first, first + count
