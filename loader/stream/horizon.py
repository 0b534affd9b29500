"""Requests for positions up to where the order of a growing source is decided.

In: a horizon, i.e. a position up to which the order will not change, which moves on. Out: requests
for positions before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ..work.tasks import Failure
from .rows import Pull, Request, StreamEnd


class Horizon(Protocol):
    """Interface of an object that knows up to which position the order of the stream is decided.

    It is used on the thread that is inside `next`, whenever work can be planned.
    """

    @property
    def stop(self) -> int | None:
        """Local position up to which the order is decided; None if it will not change until its end."""

    def advance(self, wait: bool) -> bool:
        """Decide the order up to a later position.

        Return True if that was done; False if it needs waiting and `wait` is False.

        Raises:
            Exception: the order changes. The exception says how.
        """


class DecidedSpans(Pull[Request]):
    """Requests for positions whose order is decided. Until the end of the order, they are for whole units only.

    A unit is the group of inputs that make one output.

    Args:
        requests: function that returns requests for local positions `[start, stop)`.
        horizon: knows up to which position the order is decided. It is asked for a later position
            when all positions before the present one are planned.
        first: first local position.
        total: end of the order, if it does not change.
        unit: number of positions that belong together, counted from `first`.
    """

    def __init__(
        self, requests: Callable[[int, int], Iterator[Request]], horizon: Horizon, first: int, total: int, unit: int
    ) -> None:
        self._requests, self._horizon = requests, horizon
        self._first = self._planned = first
        self._total, self._unit = total, unit
        self._now: Iterator[Request] = iter(())
        self._ended: StreamEnd | None = None

    def next(self, wait: bool) -> Request | StreamEnd | None:
        while True:
            request = next(self._now, None)
            if request is not None or self._ended is not None:
                return request or self._ended
            if not self._goes_further(wait):
                return None

    def _goes_further(self, wait: bool) -> bool:
        """Plan the positions that are decided now.

        Return True if there are new ones, or if the end is reached. Return False if that needs
        waiting, and `wait` is False. An exception of the horizon becomes the end.
        """
        try:
            while (stop := self._decided()) <= self._planned and self._horizon.stop is not None:
                if not self._horizon.advance(wait):
                    return False
        except Exception as error:
            self._ended = StreamEnd(Failure(error))
            return True
        if stop <= self._planned:
            self._ended = StreamEnd()
            return True
        self._now, self._planned = self._requests(self._planned, stop), stop
        return True

    def _decided(self) -> int:
        stop = self._horizon.stop
        if stop is None:
            return self._total
        return self._first + (min(stop, self._total) - self._first) // self._unit * self._unit
