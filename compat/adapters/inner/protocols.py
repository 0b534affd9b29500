"""What Grain's private modules ask of functions and iterators, and tell of workers.

In: classes of the user's. Out: whether they have these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


class BatchFn(Protocol):
    """A function for `batch(batch_fn=…)` that tells the spec of its batches, too."""

    def __call__(self, elements: Sequence[Any]) -> Any:
        """The batch of these elements."""

    def output_spec(self, input_spec: Any, batch_size: int, drop_remainder: bool) -> Any:
        """The spec of batches, by that of elements."""


@runtime_checkable
class SupportsSlicedStateManagement(Protocol):
    """An iterator that tells the place in each of its streams."""

    def get_shard_states(self) -> Sequence[Any]:
        """The place in each."""

    def set_shard_states(self, shard_states: Sequence[Any]) -> None:
        """Go there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiprocessingContext:
    """The number of a worker, and of all: here, no stream depends on them."""

    process_index: int = 0
    process_count: int = 1
