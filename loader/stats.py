"""How much of a loop's time its batches took, as a table and a word on what to do.

In: when the user waited. Out: seconds, and lines of text. Noted for each block of rows that is waited for, never for a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LITTLE = 0.05
"""Of the time: a loop that waits for less gains nothing by faster batches."""


class Waits:
    """When the user's thread was in `next`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = self._until = 0.0

    def note(self, began: float, ended: float) -> None:
        """It was there from `began` to `ended`, in seconds of `time.perf_counter`."""
        self._since = self._since or began
        self._until = ended
        self.seconds += ended - began

    @property
    def elapsed(self) -> float:
        """Seconds from the first wait to the end of the last."""
        return self._until - self._since


@dataclass(frozen=True)
class IteratorStats:
    """What `iterator.stats()` tells; `print` it for a table.

    Attributes:
        steps: elements that you received since the start, or since `set_state`.
        elapsed: seconds in which you received them, your own work in between included.
        waited: seconds of these that you spent in `next`. Without workers your thread does the operations there.
        worker_count: of the loader.
        skipped: records or batches left out because they failed.
    """

    steps: int
    elapsed: float
    waited: float
    worker_count: int
    skipped: int

    def __str__(self) -> str:
        rows = [("waited in next()", self.waited), ("your own work", self.elapsed - self.waited)]
        return "\n".join(
            [
                *table(f"{self.steps:,} steps", self.elapsed, rows),
                f"  {'workers':27} {self.worker_count:9}",
                f"  {'left out, as they failed':27} {self.skipped:9}",
                f"What to do: {self._advice()}",
            ]
        )

    def _advice(self) -> str:
        if self.waited <= LITTLE * self.elapsed:
            return "nothing; batches are there when you ask for them."
        if self.worker_count == 0:
            return "your thread reads and transforms; pass worker_count=, or make operations and source faster."
        return "workers are slower than your loop; pass a larger worker_count=, or make operations and source faster."


def table(what: str, elapsed: float, rows: Sequence[tuple[str, float]]) -> list[str]:
    r"""Seconds, and the shares of the time that they are.

    >>> print("\n".join(table("3 steps", 2.0, [("waited", 0.5), ("your own work", 1.5)])))
    3 steps in 2.000 s              seconds   share
      waited                          0.500   25.0%
      your own work                   1.500   75.0%
    """
    title = f"{what} in {elapsed:.3f} s"
    shares = [seconds / elapsed if elapsed else 0.0 for _, seconds in rows]
    return [
        f"{title:31} seconds   share",
        *(f"  {name:27} {seconds:9.3f} {share:7.1%}" for (name, seconds), share in zip(rows, shares)),
    ]
