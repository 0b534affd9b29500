"""Steps that a run skips because the user asked for it; and ranges of steps or positions.

The user may skip steps, for example, after a loss spike.

In: half-open ranges of steps `[start, stop)`, counted over the whole stream. Out: sorted ranges
with gaps between them; the local positions of skipped steps, and of later steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ....common.messages import short_repr
from ....common.validation import whole_number

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges `[start, stop)`, sorted, with a gap between any two."""


MAX_STEP = (1 << 63) - 1


def ranges_of(values: Any) -> Ranges:
    """Check the ranges that a user passed, sort them, and join ranges that touch or overlap.

    Raises:
        TypeError: they are not pairs of integers.
        ValueError: a range is empty, or begins below 0.

    >>> ranges_of([(7, 9), (1, 3), (2, 5)])
    ((1, 5), (7, 9))
    """
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise TypeError(
            f"{short_repr(values)} is not a list of steps. Pass pairs, [(start_step, stop_step), "
            "…]."
        )
    return union(_range_of(pair) for pair in values)


def _range_of(pair: Any) -> tuple[int, int]:
    try:
        start, stop = pair
    except (TypeError, ValueError):
        raise TypeError(
            f"{short_repr(pair)} is not a range of steps. Pass pairs, [(start_step, stop_step), …]."
        ) from None
    start = whole_number("start_step", start, 0, None, "the first step to leave out")
    return start, whole_number(
        "stop_step", stop, start + 1, MAX_STEP, "the step after the last one to leave out"
    )


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges sorted, with ranges that touch or overlap merged into one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return tuple(joined)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Return `ranges` without the steps that are in `others`.

    >>> without(((0, 10),), ((2, 4), (9, 12)))
    ((0, 2), (4, 9))
    """
    left: list[tuple[int, int]] = []
    for start, stop in ranges:
        for first, last in others:
            if first < stop and last > start:
                left += [(start, first)] if start < first else []
                start = last
        left += [(start, stop)] if start < stop else []
    return tuple(left)


def within(ranges: Ranges, step: int) -> int | None:
    """Return the end (exclusive) of the range that contains a step; None if no range does."""
    return next((stop for start, stop in ranges if start <= step < stop), None)


def count_of(left_out: Ranges, steps: int) -> int:
    """Return how many of the first `steps` steps are in the ranges `left_out`."""
    return sum(max(min(stop, steps) - start, 0) for start, stop in left_out)


@dataclass(frozen=True)
class SkippedSteps:
    """The steps that a run skips.

    When the number of shards changes, skipped steps are removed from the order. They then have no
    positions any more, and are called absorbed.

    Attributes:
        steps: ranges of all skipped steps, absorbed or not.
        absorbed: ranges of the absorbed steps.
    """

    steps: Ranges = ()
    absorbed: Ranges = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def plus(self, steps: Ranges) -> SkippedSteps:
        return SkippedSteps(union((*self.steps, *steps)), self.absorbed) if steps else self

    @property
    def present(self) -> Ranges:
        """The skipped steps whose positions are still in the order.

        It no longer has the positions of absorbed steps.
        """
        return without(self.steps, self.absorbed)

    def position_of(self, step: int, at: tuple[int, int], unit: int) -> int:
        """Return the local position (of this shard) at which a step begins.

        Args:
            step: number of the step. It must not be an absorbed one, i.e. a skipped step without
                positions.
            at: local position and number of an earlier step.
            unit: number of positions in a step.
        """
        position, known = at
        return (
            position
            + (step - known - count_of(self.absorbed, step) + count_of(self.absorbed, known)) * unit
        )

    def positions(self, at: tuple[int, int], unit: int) -> Ranges:
        """Return the ranges of this shard's positions of the skipped steps from a known step on.

        Args:
            at: local position and number of the known step.
            unit: number of positions in a step.
        """
        return tuple(
            (self.position_of(max(start, at[1]), at, unit), self.position_of(stop, at, unit))
            for start, stop in self.present
            if stop > at[1]
        )


NONE_SKIPPED = SkippedSteps()
