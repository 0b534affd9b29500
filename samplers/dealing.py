"""Divide the records of a block among shards so that the sums of their costs are nearly equal.

In: the costs of a block's records, the number of shards, and the number of batches. Out: the record
at each place of the block; place `j * shards + s` is the `j`-th record of shard `s`. The arithmetic
uses whole numbers only, so all hosts compute the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .protocol import Int64s

NEAR = 2000
"""Sums count as equal if the largest exceeds the mean by at most one part in this number."""

LOWEST = 4
"""Number of sets with small sums that may exchange records with the set of the largest sum.

If there are at most twice as many sets, all other sets may.
"""


# Rounds with the largest records matter most; later ones are dealt several at a time.
SINGLE, TOGETHER = 16, 16
"""Number of first rounds that deal one record to each set; number of steps for the others."""

LOOKED_AT = 48
"""Maximal number of records of a set that are considered for an exchange."""


class Blocks(NamedTuple):
    """Equal blocks of positions, from position `first` on.

    Records are divided anew among the shards in each block. Checkpoints save these three numbers.

    Attributes:
        shards: number of shards.
        first: position at which the first block begins.
        size: number of positions in each block.
    """

    shards: int
    first: int
    size: int


def dealt(costs: Int64s, shards: int, batches: int = 1, turn: int = 0) -> Int64s:
    """Divide the records of a block among shards with nearly equal costs.

    Return the record at each place of the block.

    Place `j * shards + s` of the block is the `j`-th record of shard `s`. Each shard gets equally
    many records, and reads them in the block's order. Records are dealt greedily, the largest cost
    first; then pairs are exchanged as long as that makes the sums of costs more equal. With several
    batches, the sums of the shards in each batch are made equal; or, if that is worse, each batch
    gets records of similar cost.

    Args:
        costs: `int64[records]`, 0 or more, with a sum below 2^62.
        shards: number of shards, a divisor of the number of records.
        batches: number of batches in the block; treated as 1 if it does not divide a shard's number
            of records.
        turn: number by which the shards are rotated, so that the largest record does not always go
            to the same shard.

    Returns:
        `int64[records]`, a permutation.

    >>> # shard 0 gets records 0 and 1, shard 1 gets records 2 and 3
    >>> dealt(np.array([9, 1, 8, 2]), shards=2).tolist()
    [0, 2, 1, 3]
    """
    each = len(costs) // shards
    if shards == 1 or each < 2:
        return np.arange(len(costs), dtype=np.int64)
    if each % batches:
        batches = 1
    cells = _in_cells(costs, shards, batches)
    cells.sort(axis=2)
    places = np.roll(cells, turn % shards, axis=1)  # batch, shard, record
    return places.transpose(0, 2, 1).reshape(-1)


def _in_cells(costs: Int64s, shards: int, batches: int) -> Int64s:
    """Divide the records of a block over shards and batches, with nearly equal costs.

    Args:
        costs: `int64[n]`, the cost of each record of the block; `shards * batches` divides `n`.
        shards: number of shards.
        batches: number of batches in the block.

    Returns:
        `int64[batches, shards, records]`, indices of records in the block.
    """
    order = np.argsort(-costs, kind="stable").astype(np.int64)
    if batches == 1:
        return _in_sets(costs, order, shards)[None]
    alike = np.stack([_in_sets(costs, some, shards) for some in order.reshape(batches, -1)])
    equal = _in_sets(costs, order, shards * batches).reshape(batches, shards, -1)
    return min(equal, alike, key=lambda cells: int(costs[cells].sum(axis=2).max(axis=1).sum()))


def _in_sets(costs: Int64s, order: Int64s, count: int) -> Int64s:
    """Divide records into sets of equal size and nearly equal cost.

    Args:
        costs: costs of all records of the block.
        order: the records to divide, the largest cost first.
        count: number of sets.

    Returns:
        `int64[count, records]`, the records of each set.
    """
    rounds = order.reshape(-1, count).copy()
    # There and back, so that columns of several rounds are nearly equal.
    rounds[1::2] = rounds[1::2, ::-1]
    sets = np.empty((count, len(rounds)), np.int64)
    sums = np.zeros(count, np.int64)
    single = min(SINGLE, len(rounds))
    step = max(-(-(len(rounds) - single) // TOGETHER), 1)
    for start, stop in pairwise([*range(single), *range(single, len(rounds), step), len(rounds)]):
        columns = rounds[start:stop]
        added = costs[columns].sum(axis=0)
        highest = np.argsort(-added, kind="stable")
        lowest = np.argsort(sums, kind="stable")
        sets[lowest, start:stop] = columns[:, highest].T
        sums[lowest] += added[highest]
    _exchange(costs, sets, sums)
    return sets


def _exchange(costs: Int64s, sets: Int64s, sums: Int64s) -> None:
    """Make the sums of sets more equal by exchanges of records.

    Records of the set with the largest sum are exchanged for cheaper records of other sets. This
    stops when the sums are nearly equal, when no exchange helps, or after four exchanges for each
    set.

    Args:
        costs: costs of all records of the block.
        sets: `int64[sets, records]`, the records of each set; changed in place.
        sums: the sum of costs of each set; changed in place.
    """
    count, each = sets.shape
    looked_at = np.arange(0, each, -(-each // LOOKED_AT))
    few = len(looked_at)
    enough = int(sums.sum()) // count * (NEAR + 1) // NEAR
    for _ in range(4 * count):
        high = int(np.argmax(sums))
        if sums[high] <= enough:
            return
        lows = (
            np.argpartition(sums, LOWEST)[:LOWEST]
            if count > 2 * LOWEST
            else np.flatnonzero(np.arange(count) != high)
        )
        lows = np.sort(lows)
        givers, takers = sets[high, looked_at], sets[lows[:, None], looked_at]
        moved = costs[givers][None, :, None] - costs[takers][:, None, :]
        worst = np.maximum(sums[high] - moved, sums[lows][:, None, None] + moved)
        best = int(np.argmin(worst))
        if worst.flat[best] >= sums[high]:
            return
        low, mine, theirs = best // (few * few), looked_at[best // few % few], looked_at[best % few]
        other, difference = int(lows[low]), int(moved.flat[best])
        sets[high, mine], sets[other, theirs] = sets[other, theirs], sets[high, mine]
        sums[high] -= difference
        sums[other] += difference
