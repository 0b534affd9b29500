"""What was found out of how many workers a loader needs, kept from one of its epochs to the next.

In: what an executor knew when its epoch ended. Out: the same, for the executor of the next epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tuned import TUNING_SECONDS
from .tuner import Tuner

Standing = tuple[float, int, int, float]
"""Seconds, inputs, tasks, and seconds that the user waited."""

NOTHING: Standing = (0.0, 0, 0, 0.0)


@dataclass
class Found:
    """What is known so far.

    Attributes:
        tuner: has the setting, and what is tried next.
        seconds_left: in which more may be tried.
        measured: of a stretch that an epoch's end cut short: it goes on in the next epoch.
    """

    tuner: Tuner
    seconds_left: float = TUNING_SECONDS
    measured: Standing = NOTHING


class Tuning:
    """What one loader's executors have found out. One of them has it at a time; others begin anew."""

    def __init__(self) -> None:
        self._found: Found | None = None

    def take(self) -> Found | None:
        """What is known; None: nothing, or another executor has it."""
        found, self._found = self._found, None
        return found

    def give_back(self, found: Found) -> None:
        """For the next epoch."""
        self._found = found

    def __reduce__(self) -> tuple[type[Tuning], tuple[()]]:
        return type(self), ()
