"""The part of the examples that a shard has in Grain.

In: their number, and the options of a shard. Out: where its part begins and ends.
"""

from __future__ import annotations

from ....samplers import ShardOptions
from ....samplers.grain_order import GrainOrder


def even_split(num_examples: int, options: ShardOptions) -> tuple[int, int]:
    """The first example of a shard, and that after its last one.

    >>> [even_split(9, ShardOptions(index, 2, drop_remainder=drops)) for drops in (True, False) for index in (0, 1)]
    [(0, 4), (4, 8), (0, 5), (5, 9)]
    """
    first, count = GrainOrder(num_examples, options, None).part()
    return first, first + count
