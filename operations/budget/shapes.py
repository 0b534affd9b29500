"""Shapes of batches within a budget of tokens: a few padded lengths, each with a number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.messages import short_repr
from ...common.validation import whole_number
from ..protocol import Operation

Ints = NDArray[np.int64]

# A jitted step compiles for each shape. A larger number is probably a padded length.
MOST_SHAPES = 64
"""Maximum number of shapes."""

# The choice among so many takes 30 ms.
CANDIDATES = 1024
"""Maximum number of lengths among which padded lengths are chosen.

More lengths are thinned out evenly by tokens.
"""

COUNTED = 1 << 20
"""Limit up to which lengths are counted in a table; above it, they are sorted.

If there are more lengths than this, the limit is their number.
"""


@dataclass(frozen=True)
class BatchShapes:
    """Shapes of batches, ascending by length.

    Attributes:
        lengths: padded lengths, ascending.
        rows: number of rows for each padded length.
    """

    lengths: tuple[int, ...]
    rows: tuple[int, ...]

    @classmethod
    def of(
        cls, lengths: Sequence[int], max_tokens: int, max_records: int | None, multiple_of: int
    ) -> BatchShapes:
        """Return the shapes with these padded lengths. Each has as many rows as the budget permits.

        Args:
            lengths: padded lengths, ascending.
            max_tokens: maximum of rows times padded length.
            max_records: maximum number of rows; None: no limit.
            multiple_of: the number of rows is a multiple of this.

        Raises:
            ValueError: a length has no row within the budget.
        """
        rows = []
        for length in lengths:
            most = (
                max_tokens // length
                if max_records is None
                else min(max_tokens // length, max_records)
            )
            rows.append(most // multiple_of * multiple_of)
            if not rows[-1]:
                if max_tokens < length * multiple_of:
                    for_multiple = f" for multiple_of={multiple_of}" if multiple_of > 1 else ""
                    lower = ", lower multiple_of=" if multiple_of > 1 else ""
                    raise ValueError(
                        f"a batch of padded length {length} needs {length * multiple_of} "
                        f"tokens{for_multiple}, more than max_tokens={max_tokens}. Raise "
                        f"max_tokens={lower}, or leave {length} out of pad_to= if it is there."
                    )
                raise ValueError(
                    f"multiple_of={multiple_of} is more than max_records={max_records}. Raise "
                    "max_records=, or lower multiple_of=."
                )
        return cls(tuple(lengths), tuple(rows))

    def check_stacked(self, by: Operation) -> None:
        """Raise ValueError if an operation would stack batches although they have several shapes.

        Args:
            by: the operation that comes after `BudgetBatch`.
        """
        if by.only_stacks and by.takes != 1 and len(self.lengths) > 1:
            raise ValueError(
                f"{short_repr(by)} after BudgetBatch would stack finished batches of "
                f"{len(self.lengths)} different shapes. Leave batch_size= (or the Batch) out, or "
                f"pass pad_to=({self.longest},) for a single shape."
            )

    def numbers(self, lengths: Any) -> Ints:
        """Return, for each length, the index of the smallest shape with space for it.

        The result is `len(self.lengths)` if no shape has space.

        Args:
            lengths: `int64[n]`.
        """
        numbers: Ints = np.searchsorted(np.array(self.lengths), lengths, side="left")
        return numbers

    @property
    def longest(self) -> int:
        """Largest padded length."""
        return self.lengths[-1]


def padded_lengths(pad_to: Any) -> int | tuple[int, ...]:
    """Return the argument `pad_to` after a check: a number of lengths, or sorted lengths.

    Raises:
        TypeError, ValueError: it is neither an int from 1 to 64 nor a list of ints of at least 1.
    """
    if isinstance(pad_to, Sequence) and not isinstance(pad_to, (str, bytes)):
        if not pad_to:
            raise ValueError(
                "pad_to=() is empty. Pass lengths, such as (128, 256, 512), or their number."
            )
        return tuple(
            sorted(
                {whole_number("pad_to", one, 1, None, "lengths of at least 1") for one in pad_to}
            )
        )
    return whole_number(
        "pad_to", pad_to, 1, MOST_SHAPES, "a tuple of lengths, (512,), or a small number of shapes"
    )


def chosen_lengths(lengths: Ints, count: int) -> tuple[int, ...]:
    """Return at most `count` padded lengths with which the records need the least memory.

    The longest record fits. The choice is optimal among the lengths that occur (if there are more
    than 1,024, among 1,024 of them). A padded length costs itself times the number of its records.

    Args:
        lengths: `int64[records]`.
        count: maximum number of padded lengths.

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
    """Return the lengths that occur, ascending, and the number of times that each occurs."""
    if int(lengths.max()) > max(len(lengths), COUNTED):
        return np.unique(lengths, return_counts=True)
    counts = np.bincount(lengths)
    values = np.flatnonzero(counts)
    return values, counts[values]
