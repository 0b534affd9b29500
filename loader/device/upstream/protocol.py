"""What a feeder asks of what it reads from, whatever that is.

In: nothing. Out: one small face. A mark of the place that follows is taken for every batch, by the thread that reads; it is
asked only when the user asks, on the user's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class Upstream(Protocol):
    """What is read from."""

    @property
    def iterator(self) -> Iterator[Any]:
        """The iterator itself."""

    @property
    def batch_size(self) -> int | None:
        """Rows that a batch has, if that is known beforehand."""

    @property
    def goes_back(self) -> bool:
        """Whether `go_to` does anything."""

    def mark(self) -> Any:
        """Where the stream stands: what answers the questions of `Mark`, or refuses to."""

    def told_at(self, mark: Any) -> str:
        """What is read from and, if that is known, where a mark stands."""

    @property
    def skipped_count(self) -> int:
        """Records or batches left out because they failed."""

    def go_to(self, mark: Any) -> None:
        """Have the stream go on from a mark; nothing where that is impossible."""

    def set_state(self, state: Any, strict: bool) -> None:
        """Have the stream go on from a state."""

    def set_states(self, states: Sequence[Any], strict: bool) -> None:
        """Have it go on after a run on another number of shards."""

    def steady(self, mark: Any) -> int:
        """How many batches of equal length are certain: the one before the mark, and those that follow; at least 1."""
