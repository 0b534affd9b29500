"""Steps that a run leaves out on purpose, after a loss spike for example.

In: ranges of steps, as the whole stream counts them. Out: the local positions that these are, and where other steps begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ranges import Ranges, count_of, union, within, without


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
