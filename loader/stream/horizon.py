"""Spans up to where the order is decided. In: a horizon that moves on. Out: requests for positions that stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ..work.tasks import Failure
from .rows import Pull, Request, StreamEnd


class Horizon(Protocol):
    """Tells how far the order is decided. Asked on the thread that is in `next`, whenever there is work to be planned."""

    @property
    def stop(self) -> int | None:
        """The local position up to which it is decided; None: it stays what it is to the end."""

    def advance(self, wait: bool) -> bool:
        """Decide up to a later position. False: nothing can be said yet, and `wait` is False.

        Raises:
            Exception: the order changes, in a way that the exception tells.
        """


class DecidedSpans(Pull[Request]):
    """Requests for whole units of decided positions, and at the end for the rest.

    Args:
        requests: for spans of local positions `[start, stop)`.
        horizon: asked when the positions before it are planned.
        first: local position.
        total: where the order ends, if it does not change.
        unit: positions that belong together, counted from the first one.
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
        """Plan what is decided by now; False: nothing more is."""
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
