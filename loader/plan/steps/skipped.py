"""Steps that a run leaves out on purpose, after a loss spike for example; and ranges of steps or positions, as values.

In: half-open ranges of steps `[start, stop)`, as the whole stream counts them. Out: such ranges again, ascending, with
something between each two; the local positions that these are, and where other steps begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ....common.messages import short_repr
from ....common.validation import whole_number

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges `[start, stop)`, ascending, with something between each two."""


MAX_STEP = (1 << 63) - 1


def ranges_of(values: Any) -> Ranges:
    """Check ranges that a user passed, sort them, and join those that touch.

    Raises:
        TypeError: they are no pairs of whole numbers.
        ValueError: one is empty or begins below 0.

    >>> ranges_of([(7, 9), (1, 3), (2, 5)])
    ((1, 5), (7, 9))
    """
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise TypeError(f"{short_repr(values)} is no list of steps; pass pairs, [(start_step, stop_step), …].")
    return union(_range_of(pair) for pair in values)


def _range_of(pair: Any) -> tuple[int, int]:
    try:
        start, stop = pair
    except (TypeError, ValueError):
        raise TypeError(f"{short_repr(pair)} is no range of steps; pass pairs, [(start_step, stop_step), …].") from None
    start = whole_number("start_step", start, 0, None, "the first step to leave out")
    return start, whole_number("stop_step", stop, start + 1, MAX_STEP, "the step after the last one to leave out")


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All that lies in any of the ranges."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return tuple(joined)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """The ranges without the others.

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
    """The end of the range that a step lies in; None if it lies in none."""
    return next((stop for start, stop in ranges if start <= step < stop), None)


def count_of(left_out: Ranges, steps: int) -> int:
    """The number of steps among the first `steps` that are left out."""
    return sum(max(min(stop, steps) - start, 0) for start, stop in left_out) if left_out else 0


def kept(left_out: Ranges, start: int, stop: int) -> Sequence[tuple[int, int]]:
    """The parts of `[start, stop)` that are in none of the ranges."""
    return without(((start, stop),), left_out) if start < stop else ()


@dataclass(frozen=True)
class SkippedSteps:
    """The steps that are left out."""

    steps: Ranges = ()  # all of them
    absorbed: Ranges = ()  # those that take no positions any more, as they left the order when the shards changed

    def __bool__(self) -> bool:
        return bool(self.steps)

    def plus(self, steps: Ranges) -> SkippedSteps:
        return SkippedSteps(union((*self.steps, *steps)), self.absorbed) if steps else self

    def end_of(self, step: int) -> int | None:
        return within(self.steps, step)

    @property
    def present(self) -> Ranges:
        """Those that are still in the order."""
        return without(self.steps, self.absorbed)

    def position_of(self, step: int, at: tuple[int, int], unit: int) -> int:
        """The local position at which a later step begins.

        Args:
            step: which; it is not absorbed.
            at: the local position and number of an earlier step.
            unit: positions in a step.
        """
        position, known = at
        return position + (step - known - count_of(self.absorbed, step) + count_of(self.absorbed, known)) * unit

    def positions(self, at: tuple[int, int], unit: int) -> Ranges:
        """The local positions of the steps that are still to come and left out; arguments as for `position_of`."""
        return tuple(
            (self.position_of(max(start, at[1]), at, unit), self.position_of(stop, at, unit))
            for start, stop in self.present
            if stop > at[1]
        )


NONE_SKIPPED = SkippedSteps()
