"""What a feeder asks of what it reads from, whatever that is.

In: nothing. Out: one small face. A mark of the place that follows is taken for every batch, by the thread that reads; a state
is made of it only when the user asks, on the user's thread.
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
        """Where the stream stands."""

    def state_at(self, mark: Any) -> Any:
        """The state of the place of a mark."""

    def last_records(self, mark: Any) -> Any:
        """The keys of the records that the batch before a mark was made of."""

    def records_at(self, mark: Any, step: int) -> Any:
        """The keys of the records that a step after a mark will be made of."""

    def step(self, mark: Any) -> int:
        """The number of the step that comes after a mark."""

    def epoch(self, mark: Any) -> int:
        """The epoch of the record before a mark."""

    def part_epochs(self, mark: Any) -> dict[str, int]:
        """The epoch of each part of a mix at a mark."""

    def length(self, mark: Any) -> int:
        """The number of batches of the whole stream."""

    def description(self, mark: Any) -> str:
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
