"""What flows in the user's process is pulled: items, an end, or nothing yet.

In: an iterator. Out: `next(wait)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..work.tasks import Failure

T = TypeVar("T", covariant=True)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more comes: the stream is at its end, or `failure` says what stopped it."""

    failure: Failure | None = None


class Pull(Protocol[T]):
    """Where a stage gets its items from."""

    def next(self, wait: bool) -> T | Ended | None:
        """The next item; `Ended`, ever again; None if `wait` is False and there is none at hand."""


class FromIterator(Generic[Item]):
    """Items that are at hand."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items

    def next(self, wait: bool) -> Item | Ended:
        """The next item."""
        for item in self._items:
            return item
        return Ended()
