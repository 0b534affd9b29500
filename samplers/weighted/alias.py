"""An alias table: draw a record in proportion to weights from one random word, in O(1).

In: weights. Out: a table of 12 bytes per record; from words, records.

Each record has a column, and all columns have the same width. A column belongs to its record up to
a threshold, and above it to one other record, its alias (Walker 1977; Vose 1991).
"""
# Vose fills columns one by one. Here, running sums of what light records lack and of what heavy
# ones have to spare give all columns at once. The arithmetic is in integers, so that no record of
# weight 0 is drawn.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..protocol import Int64s, Words
from .draws import columns

_WORD = np.uint64


@dataclass(frozen=True, eq=False)
class AliasTable:
    """Table from which records are drawn in proportion to weights, from one random word each.

    Each record has a column of equal width. Below a threshold, the column draws the record itself;
    above it, another record, its alias.

    Attributes:
        thresholds: `uint64[n]`, in units of 2^-64 of a column.
        aliases: `uint32[n]`.
    """

    thresholds: Words
    aliases: NDArray[np.uint32]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> AliasTable:
        """Return the alias table that draws records in proportion to `weights`.

        Args:
            weights: `float64[n]`, fewer than 2^32, finite, 0 or more, and not all 0; not checked.
        """
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
        """Return the record `int64[n]` that each random word `uint64[n]` draws."""
        column, fraction = columns(drawn, len(self.aliases))
        aliases = self.aliases.take(column, mode="clip").astype(np.int64)
        return np.where(fraction < self.thresholds.take(column, mode="clip"), column, aliases)


def _hand_on(
    thresholds: Int64s,
    aliases: NDArray[np.uint32],
    heavy: NDArray[np.uint32],
    spare: Int64s,
    lacking: Int64s,
    one: int,
) -> None:
    """Set the thresholds and aliases of the heavy records of an alias table.

    Each record has a column of equal width. A heavy record has more weight than one column; the
    excess fills the columns of light records. If a heavy record gives away too much, the next heavy
    record fills the gap in its column.

    Args:
        thresholds: threshold of each column; changed in place.
        aliases: alias of each column; changed in place.
        heavy: the records with at least the weight of one column, ascending.
        spare: running sum of the weight that each heavy record has beyond one column.
        lacking: running sum of the weight that each other record lacks to fill one column.
        one: weight of a column.
    """
    after = np.searchsorted(lacking, spare, side="right")
    gives = after < len(lacking)
    overdrawn = lacking[np.minimum(after, len(lacking) - 1)] - spare
    thresholds[heavy] = np.where(gives, one - overdrawn, one)
    following = np.minimum(np.arange(1, len(heavy) + 1), len(heavy) - 1)
    aliases[heavy] = heavy[following]


def _in_units(weights: NDArray[np.float64], bits: int) -> Int64s:
    """Convert weights `float64[n]` to proportional ints with a mean of `2^bits`.

    A weight above 0 becomes at least 1.
    """
    scaled = weights / weights.max()
    scaled *= len(weights) * 2.0**bits / scaled.sum()
    units: Int64s = np.rint(scaled, out=scaled).astype(np.int64)
    np.maximum(units, weights > 0, out=units)
    units[int(units.argmax())] += (len(weights) << bits) - int(units.sum())
    return units
