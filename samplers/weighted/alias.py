"""The alias table: a record by its weight, for a word, in O(1).

In: weights. Out: a table of 12 bytes a record; from words, records.

Each record has a column of the same width. A column belongs to its record up to a threshold, and to one other record, its
alias, from there on (Walker 1977; Vose 1991). Vose fills columns one by one. Here running sums of what light records lack and
of what heavy ones have to spare say the same for all columns at once. All of it is done in integers: no weight of 0 is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .draws import Int64s, Words, columns

_WORD = np.uint64


@dataclass(frozen=True, eq=False)
class AliasTable:
    """A column for each record.

    Attributes:
        thresholds: `uint64[n]`, in units of 2^-64 of a column.
        aliases: `uint32[n]`.
    """

    thresholds: Words
    aliases: NDArray[np.uint32]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> AliasTable:
        """The table of weights that are finite, at least 0, and not all 0; fewer than 2^32 of them."""
        count = len(weights)
        bits = 62 - max(count - 1, 1).bit_length()
        one = 1 << bits
        units = _in_units(weights, bits)
        heavy = np.flatnonzero(units >= one).astype(np.uint32)
        light = np.flatnonzero(units < one).astype(np.uint32)
        spare = np.cumsum(units[heavy] - one)
        lacking = np.cumsum(one - units[light])
        aliases = np.arange(count, dtype=np.uint32)
        thresholds = units
        if len(light):
            before = lacking - (one - units[light])
            aliases[light] = heavy[np.searchsorted(spare, before, side="left")]
            del before
            _hand_on(thresholds, aliases, heavy, spare, lacking, one)
        full = thresholds >= one
        aliases[full] = np.flatnonzero(full)
        thresholds[full] = 0
        thresholds <<= 64 - bits  # of less than one, so that it fits 64 bits
        return cls(thresholds.view(_WORD), aliases)

    def records(self, drawn: Words) -> Int64s:
        """The record of each word."""
        column, fraction = columns(drawn, len(self.aliases))
        aliases = self.aliases.take(column, mode="clip").astype(np.int64)
        return np.where(fraction < self.thresholds.take(column, mode="clip"), column, aliases)


def _hand_on(
    thresholds: Int64s, aliases: NDArray[np.uint32], heavy: NDArray[np.uint32], spare: Int64s, lacking: Int64s, one: int
) -> None:
    """A heavy record that gave more than it has to spare is filled up by the next heavy one."""
    after = np.searchsorted(lacking, spare, side="right")
    gives = after < len(lacking)
    overdrawn = lacking[np.minimum(after, len(lacking) - 1)] - spare
    thresholds[heavy] = np.where(gives, one - overdrawn, one)
    following = np.minimum(np.arange(1, len(heavy) + 1), len(heavy) - 1)
    aliases[heavy] = heavy[following]


def _in_units(weights: NDArray[np.float64], bits: int) -> Int64s:
    """Integers in proportion to weights, whose mean is `2^bits`; at least 1 for a weight above 0."""
    scaled = weights / weights.max()
    scaled *= len(weights) * 2.0**bits / scaled.sum()
    units: Int64s = np.rint(scaled, out=scaled).astype(np.int64)
    np.maximum(units, weights > 0, out=units)
    units[int(units.argmax())] += (len(weights) << bits) - int(units.sum())
    return units
