"""Compute the positions not yet read after several shards have read parts of an order.

In: how far each shard got. Out: the position with each index among the positions not yet read. Pure
arithmetic.

Shard s of S has reached local position p_s: it has delivered the global positions s, s + S, …, s +
(p_s − 1)·S. P is the largest p_s. Level j is the positions j·S to j·S + S − 1, one for each shard.
Two parts of the order are not yet read. The *ragged part* is, of each level j < P, the positions of
shards with p_s ≤ j. The *dense tail* is everything from global position S·P on. If the shards are
sorted by p_s, the shards that still have to read a level are the first ones of that list. So the
ragged part is made of a few rectangles (levels × shards), and one search finds the level and the
shard of an index. In the dense tail, the position is the index plus a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from .protocol import Int64s


@dataclass(frozen=True)
class UnreadOrder:
    """The positions below `total` that no shard has delivered, in a fixed order.

    Index 0 is the first undelivered position. Memory grows with the number of shards, and the time
    for a position with the logarithm of this number.

    Args:
        reached: number of positions that each shard delivered, shard 0 first.
        total: number of positions of all shards in the earlier order.

    >>> left = UnreadOrder((2, 1, 2), total=10)  # delivered: 0, 3; 1; 2, 5
    >>> left.length, left.positions(np.arange(left.length)).tolist()
    (5, [4, 6, 7, 8, 9])
    """

    reached: tuple[int, ...]
    total: int

    @cached_property
    def _shards(self) -> int:
        return len(self.reached)

    @property
    def is_possible(self) -> bool:
        """True if no shard has delivered more positions than it has.

        Shard s of S has the positions s, s + S, … below `total`. False shows that the state is
        damaged.
        """
        whole, rest = divmod(self.total, self._shards)
        reached = np.array(self.reached, dtype=np.int64)
        return bool((reached[:rest] <= whole + 1).all() and (reached[rest:] <= whole).all())

    @cached_property
    def length(self) -> int:
        """Number of positions of the order that no shard has read yet."""
        return self.dense_index + max(self.total - self.dense_from, 0)

    @cached_property
    def dense_from(self) -> int:
        """First position from which on no shard has delivered anything."""
        return max(self.reached) * self._shards

    @cached_property
    def offset(self) -> int:
        """Difference between a position and its index among the unread positions.

        It holds for indices from `dense_index` on: the position is the index plus this number.
        """
        return min(self.dense_from, self.total) - self.dense_index

    def lowest_position(self, index: int) -> int:
        """Return a bound: no unread position at `index` or a later index is lower than the result.

        Index 0 is the first unread position. Unread positions are not sorted, so a later index may
        have a lower position than an earlier index.
        """
        position = int(self.positions(np.array([index], dtype=np.int64))[0])
        return position - position % self._shards

    @cached_property
    def dense_index(self) -> int:
        """Number of unread positions below `dense_from`. From there on, all are unread."""
        return int(self._starts[-1])

    @cached_property
    def _by_progress(self) -> Int64s:
        """Indices of the shards, sorted by the number of delivered positions, ascending."""
        return np.argsort(np.array(self.reached, dtype=np.int64), kind="stable")

    @cached_property
    def _tables(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The undelivered positions, as rectangles of levels × shards.

        Level k is the positions `k * shards + s`, one for each shard s. A rectangle is consecutive
        levels in which the same shards have not delivered their positions.

        Returns:
            four arrays with one entry for each rectangle: the first level; the number of levels;
            the number of shards; and the index in `_served` (a list of shards) of the first of
            these shards.
        """
        reached = np.array(self.reached, dtype=np.int64)[self._by_progress]
        whole = self.total // self._shards
        edges = np.unique(np.append(reached, whole) if whole < reached[-1] else reached)
        lows, heights = edges[:-1], np.diff(edges)
        widths = np.searchsorted(reached, lows, side="right")
        places = np.zeros(len(lows), dtype=np.int64)
        if len(lows) and lows[-1] >= whole:  # the last level, which only the first shards have
            heights[-1], widths[-1], places[-1] = 1, len(self._last), self._shards
        return lows, heights, np.maximum(widths, 0), places

    @cached_property
    def _last(self) -> Int64s:
        """Indices of the shards that have a position in the last level and have not delivered it.

        Level k is the positions `k * shards + s`, one for each shard s. In the last level, only the
        first shards may have a position.
        """
        whole, rest = divmod(self.total, self._shards)
        reached = np.array(self.reached, dtype=np.int64)[self._by_progress]
        return self._by_progress[(reached <= whole) & (self._by_progress < rest)]

    @cached_property
    def _starts(self) -> Int64s:
        """For each rectangle in `_tables`, the index of its first position among unread positions.

        One more entry, at the end, is `dense_index`.
        """
        _, heights, widths, _ = self._tables
        return np.concatenate([[0], np.cumsum(heights * widths, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def _served(self) -> Int64s:
        """Indices of shards in two lists, one after the other: `_by_progress`, then `_last`.

        Each rectangle in `_tables` belongs to consecutive entries of one of the two lists.
        """
        return np.concatenate([self._by_progress, self._last])

    def positions(self, indices: Int64s) -> Int64s:
        """Convert indices among the unread positions, from 0, to positions.

        There are `length` unread positions below `total`. All positions from `total` on are unread,
        too: from index `length` on, the result is `total + index - length`.

        Args:
            indices: `int64[n]`, from 0.

        Returns:
            `int64[n]`.
        """
        result = indices + self.offset
        ragged = indices < self.dense_index
        if ragged.any():
            some = indices[ragged]
            which = np.searchsorted(self._starts, some, side="right") - 1
            lows, _, widths, places = self._tables
            levels, shards = np.divmod(some - self._starts[which], widths[which])
            result[ragged] = (lows[which] + levels) * self._shards + self._served[
                places[which] + shards
            ]
        return result


@dataclass(frozen=True)
class Without:
    """The positions below `total` that are in none of several ranges, ascending.

    Index 0 is the first position outside the ranges.

    Args:
        ranges: ascending pairs `(start, stop)`, `stop` excluded, that do not touch each other.
        total: number of positions.

    >>> left = Without(((2, 4), (6, 7)), total=10)
    >>> left.length, left.positions(np.arange(left.length)).tolist()
    (7, [0, 1, 4, 5, 7, 8, 9])
    """

    ranges: tuple[tuple[int, int], ...]
    total: int

    @property
    def is_possible(self) -> bool:
        """True if `ranges` is not empty, and its ranges ascend, do not touch, and end by `total`.

        False shows that the state from which the ranges were read is damaged.
        """
        edges = [edge for pair in self.ranges for edge in pair]
        return (
            bool(edges)
            and all(low < high for low, high in pairwise(edges))
            and edges[-1] <= self.total
        )

    @cached_property
    def _offsets(self) -> Int64s:
        """Differences between a position outside the left-out ranges and its index among such.

        Entry k holds for positions after the first k ranges. So there is one entry more than
        ranges.
        """
        return np.cumsum([0, *(stop - start for start, stop in self.ranges)], dtype=np.int64)

    @cached_property
    def _starts(self) -> Int64s:
        """For each left-out range, the number of positions before it that are in no such range."""
        return np.array([start for start, _ in self.ranges], dtype=np.int64) - self._offsets[:-1]

    @property
    def dense_from(self) -> int:
        """First position after the last of the left-out ranges."""
        return self.ranges[-1][1]

    @property
    def offset(self) -> int:
        """Difference between a position after all left-out ranges and its index.

        An index counts only the positions outside the ranges.
        """
        return int(self._offsets[-1])

    @property
    def dense_index(self) -> int:
        """Number of positions before the last left-out range that are in none of the ranges."""
        return int(self._starts[-1])

    @property
    def length(self) -> int:
        """Number of positions below `total` that are in none of the left-out ranges."""
        return self.total - self.offset

    def lowest_position(self, index: int) -> int:
        """Return the position at `index`, where an index does not count the left-out ranges.

        Positions at later indices are higher, so it is the lowest position from `index` on.
        """
        return int(self.positions(np.array([index], dtype=np.int64))[0])

    def positions(self, indices: Int64s) -> Int64s:
        """Convert indices that do not count the left-out ranges to positions, which count them.

        Index i is the i-th position outside the ranges, from 0. There are `length` such positions
        below `total`. From index `length` on, the result is `total + i - length`.

        Args:
            indices: `int64[n]`, from 0.

        Returns:
            `int64[n]`.
        """
        return indices + self._offsets[np.searchsorted(self._starts, indices, side="right")]
