"""Items are pulled through the user's process: an item, the end, or nothing yet.

In: nothing. Out: `next(wait)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..work.tasks import Failure

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more comes: the stream is at its end, or `failure` says what stopped it."""

    failure: Failure | None = None


class Pull(Protocol[T]):
    """A supply of items for a stage."""

    def next(self, wait: bool) -> T | Ended | None:
        """The next item; `Ended`, ever again; None if `wait` is False and there is none at hand."""
