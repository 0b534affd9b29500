"""A shuffle that reads whole blocks of records, for stores where random reads are slow.

Blocks are permuted, and the records of several blocks (a window) are shuffled together.

In: places (indices within an epoch), and the epoch of each. Out: record keys. Pure arithmetic with
O(1) memory; each place has the same cost.

An epoch is divided into `lanes` equal lanes, which are read in turn, and a rest:

    places   0 1 2 3 4 5 …          lane = place % lanes, turn = place // lanes
    a lane   | window | window |    each of about `window` blocks, permuted together
    a block  `block` neighbouring records; a permutation of all blocks decides which ones

So a shard that reads every S-th place reads blocks that no other shard reads, if S divides `lanes`,
except in the rest, which all shards read.
The rest consists of the blocks that are not divided over the lanes: the last block of the source,
if it is smaller, and at least half a window of other blocks (all blocks, if the source is small).
It is one more window; in each epoch, it comes at a random point between the other windows. So
records at the end of the source are not always at the end of an epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ..common.validation import whole_number
from .permutation import permute, unpermute
from .protocol import Int64s

_BLOCKS, _RECORDS, _REST, _PLACES = (number << 32 for number in range(4))
"""Numbers added to a seed below 2^32, to get a different seed for each of the four permutations."""

_MOST = 1 << 20
"""Maximal value of `block`, `window` and `lanes`; products of the three stay below 2^63."""


@dataclass(frozen=True)
class BlockShuffle:
    """Shuffle blocks of neighbouring records (`IndexSampler(shuffle=…)`), for files in stores.

    Blocks are permuted; then the records of `window` blocks (a window) are shuffled together. For
    each of its lanes, a reader must fetch and keep the records of a window, about `block * window`.
    Larger windows shuffle better (docs/shuffle.md).

    Args:
        block: number of neighbouring records of the source in a block; default 1024. Reads are fast
            if a block has 1 MB or more.
        window: number of blocks whose records are shuffled together; default 16, at least 2.
        lanes: number of shards that can each read blocks of their own; default 1. Use the number of
            processes of the largest run, or a multiple of it. If the number of shards divides
            `lanes`, each process fetches blocks of its own; all fetch only the few blocks that
            cannot be divided over the lanes. In a source of few blocks, these may be all of them.
            If the number of shards does not divide `lanes`, a `DataLoader` on files in stores
            warns. Another value gives another order.

    Raises:
        ValueError: if a number is too small or too large.
        TypeError: if a number is not an integer.

    >>> import numpy as np
    >>> from headrace import IndexSampler
    >>> sampler = IndexSampler(24, shuffle=BlockShuffle(block=3, window=4), seed=0)
    >>> sampler.record_keys(np.arange(24)).tolist()
    [0, 6, 11, 8, 10, 2, 1, 9, 7, 16, 23, 15, 4, 3, 22, 5, 21, 17, 13, 18, 19, 20, 14, 12]
    """

    block: int = 1024
    window: int = 16
    lanes: int = 1

    def __post_init__(self) -> None:
        given = (("block", self.block, 1), ("window", self.window, 2), ("lanes", self.lanes, 1))
        for name, value, least in given:
            number = whole_number(name, value, least, _MOST, "a small positive int, such as 16")
            object.__setattr__(self, name, number)

    @property
    def parameters(self) -> dict[str, Any]:
        """The values `block`, `window` and `lanes` as a dict, for checkpoints."""
        return {"block": self.block, "window": self.window, "lanes": self.lanes}

    @property
    def records_at_hand(self) -> int:
        """Number of records in all windows read at the same time: `block * window * lanes`.

        A window is the `window` blocks whose records are shuffled together. Each lane reads one
        window.
        """
        return self.block * self.window * self.lanes

    def readers_of_a_block(self, shards: int) -> int:
        """Return how many of `shards` shards read records of the same block.

        The result is 1 if `shards` divides `lanes`; in general, it is `shards` divided by the
        greatest common divisor of `shards` and `lanes`. The few blocks that cannot be divided over
        the lanes do not count: all shards read them.

        >>> [BlockShuffle(lanes=4).readers_of_a_block(shards) for shards in (1, 4, 6, 8)]
        [1, 1, 3, 2]
        """
        return shards // gcd(shards, self.lanes)


class BlockOrder:
    """Order of a source's records in each epoch, shuffled by a `BlockShuffle`.

    Args:
        shuffle: block, window and lanes.
        records: number of records of the source.
        seed: in `[0, 2^32)`.
    """

    def __init__(self, shuffle: BlockShuffle, records: int, seed: int) -> None:
        self._block, self._lanes, self._seed = shuffle.block, shuffle.lanes, seed
        self._blocks = records // self._block
        """Number of whole blocks in the source."""
        per_lane = (self._blocks - shuffle.window // 2) // self._lanes
        self._per_lane = per_lane if 2 * per_lane >= shuffle.window else 0
        """Number of blocks in a lane; 0 if it would be less than half a window."""
        self._windows = -(-self._per_lane // shuffle.window)
        """Number of windows in a lane."""
        self._in_lanes = self._per_lane * self._lanes
        self._rest = records - self._in_lanes * self._block

    def record_keys(self, places: Int64s, epochs: Int64s) -> Int64s:
        """Return the record key that is read at each index within an epoch.

        Args:
            places: `int64[n]`, indices within an epoch, from 0.
            epochs: `int64[n]`, the epoch of each index.

        Returns:
            `int64[n]`, the record keys.
        """
        begin = self._rest_begins(epochs)
        in_rest = (places >= begin) & (places < begin + self._rest)
        before_rest = np.where(places < begin, places, places - self._rest)
        if not in_rest.any():
            return self._lane_keys(before_rest, epochs)
        keys = np.empty_like(places)
        keys[in_rest] = self._rest_keys((places - begin)[in_rest], epochs[in_rest])
        keys[~in_rest] = self._lane_keys(before_rest[~in_rest], epochs[~in_rest])
        return keys

    def places_of(self, keys: Int64s, epochs: Int64s) -> Int64s:
        """Return the index within an epoch, from 0, at which each record is read.

        Args:
            keys: `int64[n]`, the record keys.
            epochs: `int64[n]`, the epoch for each key.

        Returns:
            `int64[n]`, the indices.
        """
        blocks, records = np.divmod(keys, self._block)
        ranks = np.full_like(keys, self._blocks)
        whole = blocks < self._blocks
        ranks[whole] = unpermute(blocks[whole], epochs[whole], self._blocks, self._seed + _BLOCKS)
        begin, in_rest = self._rest_begins(epochs), ranks >= self._in_lanes
        places = np.empty_like(keys)
        within = (ranks - self._in_lanes) * self._block + records
        places[in_rest] = begin[in_rest] + unpermute(
            within[in_rest], epochs[in_rest], self._rest, self._seed + _REST
        )
        in_lanes = ~in_rest
        of_lanes = self._places_in_lanes(ranks[in_lanes], records[in_lanes], epochs[in_lanes])
        places[in_lanes] = of_lanes + np.where(of_lanes < begin[in_lanes], 0, self._rest)
        return places

    def _places_in_lanes(self, ranks: Int64s, records: Int64s, epochs: Int64s) -> Int64s:
        blocks, lanes = np.divmod(ranks, self._lanes)
        turns = self._moved(unpermute, blocks * self._block + records, lanes, epochs)
        return turns * self._lanes + lanes

    def _lane_keys(self, places: Int64s, epochs: Int64s) -> Int64s:
        turns, lanes = np.divmod(places, self._lanes)
        turns = self._moved(permute, turns, lanes, epochs)
        blocks = turns // self._block
        records = turns - blocks * self._block
        return self._block_at(blocks * self._lanes + lanes, epochs) * self._block + records

    def _moved(
        self,
        shuffle: Callable[[Int64s, Int64s, int, int], Int64s],
        turns: Int64s,
        lanes: Int64s,
        epochs: Int64s,
    ) -> Int64s:
        """Shuffle the records of each window among themselves, or undo this shuffle.

        A lane is every `lanes`-th index of an epoch. A window is some consecutive blocks of a lane.

        Args:
            shuffle: `permute` to shuffle, `unpermute` to undo the shuffle.
            turns: `int64[n]`, the index of each record within its lane.
            lanes: `int64[n]`, the lane of each record.
            epochs: `int64[n]`, the epoch of each record.

        Returns:
            `int64[n]`, the new index of each record within its lane.
        """
        windows = ((turns // self._block + 1) * self._windows - 1) // max(self._per_lane, 1)
        first = self._first_block(windows)
        sizes = self._first_block(windows + 1) - first
        numbers = (epochs * self._windows + windows) * self._lanes + lanes
        within = turns - first * self._block
        # windows have two sizes at most
        for size in {int(sizes.min()), int(sizes.max())} if len(sizes) else ():
            chosen = sizes == size
            within[chosen] = shuffle(
                within[chosen], numbers[chosen], size * self._block, self._seed + _RECORDS
            )
        return first * self._block + within

    def _rest_keys(self, places: Int64s, epochs: Int64s) -> Int64s:
        within = permute(places, epochs, self._rest, self._seed + _REST)
        blocks, records = np.divmod(within, self._block)
        blocks += self._in_lanes
        whole = blocks < self._blocks
        blocks[whole] = self._block_at(blocks[whole], epochs[whole])
        return blocks * self._block + records

    def _block_at(self, ranks: Int64s, epochs: Int64s) -> Int64s:
        return permute(ranks, epochs, self._blocks, self._seed + _BLOCKS)

    def _first_block(self, windows: Int64s) -> Int64s:
        """Return the number of the first block of each window, counted within the window's lane.

        Lane k reads the indices k, k + lanes, k + 2·lanes, … of an epoch, and has blocks of its
        own. A window is several consecutive blocks of a lane whose records are shuffled together.

        Args:
            windows: `int64[n]`, numbers of windows in their lanes.

        Returns:
            `int64[n]`, numbers of blocks.
        """
        # Windows of a lane differ by at most one block.
        return windows * self._per_lane // max(self._windows, 1)

    def _rest_begins(self, epochs: Int64s) -> Int64s:
        """Return the index within each epoch at which the rest of the epoch begins.

        All lanes (equal shares of the order, with blocks of their own) get the same number of whole
        blocks. The rest is the blocks that no lane gets.

        Args:
            epochs: `int64[n]`, numbers of epochs.

        Returns:
            `int64[n]`, an index for each epoch.
        """
        distinct, which = np.unique(epochs, return_inverse=True)
        turns = permute(np.zeros_like(distinct), distinct, self._windows + 1, self._seed + _PLACES)
        begins: Int64s = (self._first_block(turns) * self._block * self._lanes)[which]
        return begins
