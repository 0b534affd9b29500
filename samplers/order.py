"""The rest of an order after several shards took parts of it: a piecewise map from index to position.

In: how far each shard got. Out: positions that nobody delivered, by index. Pure arithmetic.

Shard s of S stands at local position p_s: it has delivered global positions s, s + S, …, s + (p_s − 1)·S. P is the largest p_s.
Left are the *ragged part*, the levels j < P of the shards with p_s ≤ j, and the *dense tail* from global position S·P on. With
the shards sorted by p_s, those still to be served at a level are a prefix of that list, so that the ragged part is a
few rectangles (levels × shards), and an index finds its level and shard by one search. Behind it the map is an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class UnreadOrder:
    """The positions below `total` that shards standing at these local positions have not delivered.

    Memory grows with the number of shards, and the time for a position with its logarithm.

    Args:
        reached: local position of each shard, shard 0 first.
        total: number of positions, of all shards, before.

    >>> left = UnreadOrder([2, 1, 2], total=10)  # delivered: 0, 3; 1; 2, 5
    >>> left.length, left.positions(np.arange(left.length)).tolist()
    (5, [4, 6, 7, 8, 9])
    """

    def __init__(self, reached: Sequence[int], total: int) -> None:
        self.reached = tuple(reached)
        self.total = total

    @cached_property
    def _shards(self) -> int:
        return len(self.reached)

    @property
    def is_possible(self) -> bool:
        """True if no shard is beyond its part."""
        whole, rest = divmod(self.total, self._shards)
        reached = np.array(self.reached, dtype=np.int64)
        return bool((reached[:rest] <= whole + 1).all() and (reached[rest:] <= whole).all())

    @property
    def hangs_on_end(self) -> bool:
        """True if shards got to a level that not all have: more positions would change the order of those that are left."""
        return max(self.reached) > self.total // self._shards

    @cached_property
    def length(self) -> int:
        """The number of positions that are left."""
        return self._ragged + max(self.total - self._dense_from, 0)

    @cached_property
    def _dense_from(self) -> int:
        """The first position of the dense tail."""
        return max(self.reached) * self._shards

    @cached_property
    def offset(self) -> int:
        """The number that the map adds to an index after the ragged part."""
        return self._dense_from - self._ragged

    def offset_from(self, index: int) -> int | None:
        """The number that the map adds to every index from `index` on; None if there is not one number."""
        return self.offset if index >= self._ragged else None

    def lowest_position(self, index: int) -> int:
        """A position that none from `index` on lies below."""
        position = int(self.positions(np.array([index], dtype=np.int64))[0])
        return position - position % self._shards

    @property
    def dense_index(self) -> int:
        """The index from which on the map only adds `offset`."""
        return self._ragged

    @cached_property
    def _ragged(self) -> int:
        """Positions in the ragged part."""
        return int(self._starts[-1])

    @cached_property
    def _by_progress(self) -> Positions:
        """Shards, those that got least far first."""
        return np.argsort(np.array(self.reached, dtype=np.int64), kind="stable")

    @cached_property
    def _tables(self) -> tuple[Positions, Positions, Positions, Positions]:
        """First level, height, width and first place in `_served` of each rectangle."""
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
    def _last(self) -> Positions:
        """Shards to be served at the last level, which is not whole."""
        whole, rest = divmod(self.total, self._shards)
        reached = np.array(self.reached, dtype=np.int64)[self._by_progress]
        return self._by_progress[(reached <= whole) & (self._by_progress < rest)]

    @cached_property
    def _starts(self) -> Positions:
        """Index at which each rectangle starts, and at the end that of the dense tail."""
        _, heights, widths, _ = self._tables
        return np.concatenate([[0], np.cumsum(heights * widths, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def _served(self) -> Positions:
        """Shards to be served: all rectangles serve prefixes of one list, but the last level, which has its own."""
        return np.concatenate([self._by_progress, self._last])

    def positions(self, indices: Positions) -> Positions:
        """The positions `int64[n]` at indices `int64[n]` in `[0, length)`, which are not checked."""
        result = indices + self.offset
        ragged = indices < self._ragged
        if ragged.any():
            some = indices[ragged]
            which = np.searchsorted(self._starts, some, side="right") - 1
            lows, _, widths, places = self._tables
            levels, shards = np.divmod(some - self._starts[which], widths[which])
            result[ragged] = (lows[which] + levels) * self._shards + self._served[places[which] + shards]
        return result


class Without:
    """The positions below `total` that lie in none of the ranges.

    Args:
        ranges: half-open, ascending, with something between each two.
        total: number of positions.

    >>> left = Without([(2, 4), (6, 7)], total=10)
    >>> left.length, left.positions(np.arange(left.length)).tolist()
    (7, [0, 1, 4, 5, 7, 8, 9])
    """

    hangs_on_end = False
    """As of a `UnreadOrder`."""

    def __init__(self, ranges: Sequence[tuple[int, int]], total: int) -> None:
        self.ranges = tuple(ranges)
        self.total = total

    @property
    def is_possible(self) -> bool:
        """True if the ranges are valid."""
        edges = [edge for pair in self.ranges for edge in pair]
        return bool(edges) and all(low < high for low, high in pairwise(edges)) and edges[-1] <= self.total

    @cached_property
    def _offsets(self) -> Positions:
        """The number that the map adds to an index after each of the ranges; 0 before the first."""
        return np.cumsum([0, *(stop - start for start, stop in self.ranges)], dtype=np.int64)

    @cached_property
    def _starts(self) -> Positions:
        """The index at which each range is passed."""
        return np.array([start for start, _ in self.ranges], dtype=np.int64) - self._offsets[:-1]

    @property
    def offset(self) -> int:
        """The number that the map adds to an index after all ranges."""
        return int(self._offsets[-1])

    @property
    def dense_index(self) -> int:
        """The index from which on the map only adds `offset`."""
        return int(self._starts[-1])

    @property
    def length(self) -> int:
        """The number of positions that are left."""
        return self.total - self.offset

    def offset_from(self, index: int) -> int | None:
        """The number that the map adds to every index from `index` on; None if there is not one number."""
        return self.offset if index >= self.dense_index else None

    def lowest_position(self, index: int) -> int:
        """A position that none from `index` on lies below."""
        return int(self.positions(np.array([index], dtype=np.int64))[0])

    def positions(self, indices: Positions) -> Positions:
        """The positions `int64[n]` at indices `int64[n]` in `[0, length)`, which are not checked."""
        return indices + self._offsets[np.searchsorted(self._starts, indices, side="right")]
