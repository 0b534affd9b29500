"""Where the user's waiting time went.

In: for each batch, when the user waited and when it was read, transformed, agreed on and transferred. Out: seconds of waiting
for each of these. What of the wait falls into none of them is hand-over: queues and the waking up of threads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

KEPT = 1000
"""Steps of which `FeederStats.last` tells."""


class Times(NamedTuple):
    """When things happened to one batch, in seconds of `time.perf_counter`."""

    read_from: float
    read_to: float
    transformed: float
    agree_from: float
    agreed: float
    transferred: float


class StepTimes(NamedTuple):
    """Seconds for which the user waited, and what for; the parts add up to `waited`.

    Attributes:
        waited: in `next`.
        reading: the host iterator had yet to give the batch.
        transforming: `transform` had yet to return.
        agreeing: other hosts had yet to say what they have.
        transfer: the batch was on its way to the devices.
        hand_over: the rest: queues and the waking up of threads.
    """

    waited: float
    reading: float
    transforming: float
    agreeing: float
    transfer: float
    hand_over: float


@dataclass(frozen=True)
class FeederStats:
    """What `feeder.stats()` tells.

    Attributes:
        steps: batches that the user received.
        total: of all of them.
        last: of each of the last 1,000, oldest first.
    """

    steps: int
    total: StepTimes
    last: tuple[StepTimes, ...]


def split(began: float, ended: float, times: Times) -> StepTimes:
    """What a wait from `began` to `ended` was spent on.

    >>> split(10.0, 20.0, Times(8.0, 13.0, 14.0, 14.0, 14.0, 19.5))
    StepTimes(waited=10.0, reading=3.0, transforming=1.0, agreeing=0.0, transfer=5.5, hand_over=0.5)
    """
    if times.transferred <= began:  # it was ready: the common case, and the one that must cost little
        return StepTimes(ended - began, 0.0, 0.0, 0.0, 0.0, ended - began)

    def within(start: float, stop: float) -> float:
        return max(0.0, min(stop, ended) - max(start, began))

    parts = (
        within(times.read_from, times.read_to),
        within(times.read_to, times.transformed),
        within(times.agree_from, times.agreed),
        within(times.agreed, times.transferred),
    )
    return StepTimes(ended - began, *parts, ended - began - sum(parts))


class Watch:
    """Adds up; used by the consumer's thread alone. Sums are made when somebody asks, as `next` should cost little."""

    def __init__(self) -> None:
        self._steps = 0
        self._total = [0.0] * len(StepTimes._fields)
        self._last: deque[StepTimes] = deque(maxlen=KEPT)
        self._noted: list[tuple[float, float, Times]] = []

    def note(self, began: float, ended: float, times: Times) -> None:
        """The user waited from `began` to `ended` for a batch."""
        self._noted.append((began, ended, times))
        if len(self._noted) >= KEPT:
            self._add_up()

    def _add_up(self) -> None:
        noted, self._noted = self._noted, []
        for began, ended, times in noted:
            step = split(began, ended, times)
            self._total = [total + seconds for total, seconds in zip(self._total, step)]
            self._last.append(step)
        self._steps += len(noted)

    def stats(self) -> FeederStats:
        """All of it."""
        self._add_up()
        return FeederStats(self._steps, StepTimes(*self._total), tuple(self._last))
