"""Protocols that programs import from Grain's private modules, and the context of a worker.

In: an object of a user's class. Out: True if it has the methods of a protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


class BatchFn(Protocol):
    """A function for `batch(batch_fn=…)` that can also describe its batches."""

    def __call__(self, elements: Sequence[Any]) -> Any:
        """Return the batch made of these elements."""

    def output_spec(self, input_spec: Any, batch_size: int, drop_remainder: bool) -> Any:
        """Return the spec (tree of shapes and dtypes) of batches, given that of the elements."""


@runtime_checkable
class SupportsSlicedStateManagement(Protocol):
    """An iterator that has a separate state for each of its streams."""

    def get_shard_states(self) -> Sequence[Any]:
        """Return the state of each stream."""

    def set_shard_states(self, shard_states: Sequence[Any]) -> None:
        """Restore the state of each stream.

        `shard_states` has one for each, in the order of `get_shard_states`.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiprocessingContext:
    """Index of a worker process, and number of workers.

    In headrace, no stream depends on these numbers.

    Attributes:
        process_index: number of the worker, from 0.
        process_count: number of workers.
    """

    process_index: int = 0
    process_count: int = 1
