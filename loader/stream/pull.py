"""What flows in the user's process is pulled: items, an end, or nothing yet.

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
    """Where a stage gets its items from."""

    def next(self, wait: bool) -> T | Ended | None:
        """The next item; `Ended`, ever again; None if `wait` is False and there is none at hand."""
