"""The few shapes that batches have: padded lengths, and for each the number of rows. Pure arithmetic.

In: a budget, and padded lengths or the lengths of records. Out: shapes; of each length the number of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.messages import short_repr
from ..protocol import Operation

Ints = NDArray[np.int64]

MOST_SHAPES = 64
"""A larger number is taken for a padded length that was meant. A step compiles as often as there are shapes."""

CANDIDATES = 1024
"""Lengths among which the padded ones are chosen; of more, those that part the tokens evenly. The choice takes 30 ms."""

COUNTED = 1 << 20
"""Lengths up to it are counted in a table: without sorting them."""


@dataclass(frozen=True)
class BatchShapes:
    """The shapes of batches, the shortest first.

    Attributes:
        lengths: padded, ascending.
        rows: of a batch of each length.
    """

    lengths: tuple[int, ...]
    rows: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Sequence[int], max_tokens: int, max_records: int | None, multiple_of: int) -> BatchShapes:
        """The shapes of these padded lengths, each with the most rows that fit the budget.

        Raises:
            ValueError: a batch of one of them has no row.
        """
        rows = []
        for length in lengths:
            most = max_tokens // length if max_records is None else min(max_tokens // length, max_records)
            rows.append(most // multiple_of * multiple_of)
            if not rows[-1]:
                limit = (
                    f"max_tokens={max_tokens}" if max_tokens < length * multiple_of else f"max_records={max_records}"
                )
                raise ValueError(
                    f"pad_to: {multiple_of} records of length {length} are over {limit}; raise it, or leave that length out."
                )
        return cls(tuple(lengths), tuple(rows))

    def check_stacked(self, by: Operation) -> None:
        """Refuse to stack batches of several shapes. Raises ValueError: the operation after them does so."""
        if by.only_stacks and by.takes != 1 and len(self.lengths) > 1:
            raise ValueError(
                f"{short_repr(by)} after BudgetBatch would stack batches of {len(self.lengths)} shapes, which are whole "
                f"already; leave batch_size= (or the Batch) out, or make one shape of them, pad_to=({self.longest},)."
            )

    def numbers(self, lengths: Any) -> Ints:
        """The number of the smallest shape that holds each length; `len(self.lengths)` for one that none holds."""
        numbers: Ints = np.searchsorted(np.array(self.lengths), lengths, side="left")
        return numbers

    @property
    def longest(self) -> int:
        """The largest padded length."""
        return self.lengths[-1]


def chosen_lengths(lengths: Ints, count: int) -> tuple[int, ...]:
    """The padded lengths, `count` at most, with which the records need the least memory; the largest record fits.

    An exact choice by dynamic programming over the lengths that occur: the cost of a padded length is itself times the
    records that have it.

    >>> chosen_lengths(np.array([1, 2, 2, 9, 10]), 2)
    (2, 10)
    """
    values, counts = _counted(np.maximum(lengths, 1))
    below = np.concatenate([[0], np.cumsum(counts)])
    if len(values) > CANDIDATES:
        tokens = np.cumsum(values * counts)
        parts = np.searchsorted(tokens, np.linspace(0, tokens[-1], CANDIDATES + 1)[1:], side="left")
        chosen = np.array(distinct(np.minimum(parts, len(values) - 1)))
        values, below = values[chosen], np.concatenate([[0], below[chosen + 1]])
    count = min(count, len(values))
    cost = (values * below[1:]).astype(np.float64)
    origins = []
    for _ in range(count - 1):
        before = np.zeros(len(values), np.int64)
        next_cost = cost.copy()
        for last in range(1, len(values)):
            found = cost[:last] + (below[last + 1] - below[1 : last + 1]) * float(values[last])
            best = int(np.argmin(found))
            if found[best] < next_cost[last]:
                before[last], next_cost[last] = best + 1, found[best]
        origins.append(before)
        cost = next_cost
    picked, last = [int(values[-1])], len(values) - 1
    for before in reversed(origins):
        if before[last]:
            last = int(before[last]) - 1
            picked.append(int(values[last]))
    return tuple(reversed(picked))


def _counted(lengths: Ints) -> tuple[Ints, Ints]:
    """The lengths that occur, ascending, and how often."""
    if int(lengths.max()) > max(len(lengths), COUNTED):
        return np.unique(lengths, return_counts=True)
    counts = np.bincount(lengths)
    values = np.flatnonzero(counts)
    return values, counts[values]
