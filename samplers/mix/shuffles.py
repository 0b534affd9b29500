"""Compute record keys of elements of many parts of a mix in one call.

This works for parts of which each epoch is one shuffle of the whole part: without blocks, omitted
records, or draws by weight. In: for each element, the index of its part, and its index in the
part's order. Out: record keys within the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..permutation import (
    BLOCK,
    ROUNDS,
    ROUNDS_SMALL,
    SMALL,
    Hashed,
    encipher,
    round_keys,
    table_shape,
)
from ..protocol import Int64s, VectorSampler, Words

FEW = 512
"""From this number of elements of one part on, the part is computed by a call of its own."""


class PartShuffles:
    """The shuffles of the parts of a mix for which each epoch is one shuffle of all records.

    `has` returns True for these parts. It returns False for parts that are shuffled in blocks, or
    drawn by weights.

    Args:
        parts: the samplers of all parts, in the order of their indices.
    """

    def __init__(self, parts: Sequence[VectorSampler]) -> None:
        self._number = {
            place: number
            for number, place in enumerate(
                p for p, part in enumerate(parts) if part.facts.is_one_shuffle
            )
        }
        plain = [parts[place] for place in self._number]
        sizes = [part.epoch_length for part in plain]
        self._sizes = np.array(sizes, np.int64)
        self._of_part = np.full(len(parts), -1)
        self._of_part[list(self._number)] = np.arange(len(plain))
        self._shuffles = Shuffles(sizes, [part.seed or 0 for part in plain])

    def has(self, part: int) -> bool:
        return part in self._number

    def keys(self, parts: Int64s, indices: Int64s) -> Int64s:
        """Return the record key, within its part, of each element.

        Args:
            parts: `int64[n]`, the index of the part of each element; `has` must be True for each
                part.
            indices: `int64[n]`, the index of each element in the order of its part.

        Returns:
            `int64[n]`.
        """
        which = self._of_part[parts]
        sizes = self._sizes[which]
        epochs = indices // sizes
        return self._shuffles.permute(indices - epochs * sizes, epochs, which)


class Shuffles:
    """Shuffles of several sizes and seeds. Each shuffle has another order in each epoch.

    In the example, the places are 0, 1, 2 of shuffle 0 in epoch 0, of shuffle 1 in epoch 0, and of
    shuffle 1 in epoch 1.

    Args:
        sizes: number of records of each shuffle, 1 to 2^55.
        seeds: seed of each shuffle.

    >>> places = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    >>> epochs = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
    >>> which = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    >>> Shuffles([8, 3], [1, 1]).permute(places, epochs, which).tolist()
    [7, 0, 4, 1, 0, 2, 0, 2, 1]
    """

    def __init__(self, sizes: list[int], seeds: list[int]) -> None:
        self._sizes, self._seeds = np.array(sizes, np.uint64), np.array(seeds, np.uint64)
        self._shapes = np.array([table_shape(size) for size in sizes], np.uint64).reshape(-1, 2).T
        self._rounds = np.where(self._sizes < SMALL, ROUNDS_SMALL, ROUNDS)

    def permute(self, places: Int64s, epochs: Int64s, which: Int64s) -> Int64s:
        """Permute places (indices within an epoch), each by its own shuffle and epoch.

        Args:
            places: `int64[n]`, each below the size of its shuffle.
            epochs: `int64[n]`, the epoch of each place.
            which: `int64[n]`, the number of each place's shuffle, an index in `sizes`.

        Returns:
            `int64[n]`, the permuted places.
        """
        out, rounds = np.empty(len(places), np.int64), self._rounds[which]
        for number in (ROUNDS_SMALL, ROUNDS):
            own = np.flatnonzero(rounds == number)
            for start in range(0, len(own), BLOCK):
                block = own[start : start + BLOCK]
                out[block] = self._permuted(
                    places[block].astype(np.uint64), epochs[block], which[block], number
                )
        return out

    def _permuted(self, numbers: Words, epochs: Int64s, which: Int64s, rounds: int) -> Words:
        begins = np.concatenate([[True], (which[1:] != which[:-1]) | (epochs[1:] != epochs[:-1])])
        # Of the keys: one for each run of places of one shuffle and epoch.
        column = np.cumsum(begins) - 1
        keys = round_keys(self._seeds[which[begins]], epochs[begins], rounds)
        sizes, going = self._sizes[which], np.arange(len(numbers))
        while going.size:
            rows, columns = self._shapes[:, which[going]]
            shifts = Hashed(keys, (rows, columns))
            numbers[going] = encipher(numbers[going], shifts, column[going], (rows, columns))
            going = going[numbers[going] >= sizes[going]]
        return numbers
