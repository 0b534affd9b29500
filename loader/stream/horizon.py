"""Requests for positions of a growing source, up to the position at which its order is final.

In: a horizon, i.e. an object that knows up to which position the order will not change any more,
and can move this position forward. Out: requests for the positions before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ..work.tasks import Failure
from .rows import Pull, Request, StreamEnd


class Horizon(Protocol):
    """Interface of an object that knows up to which position a growing source's order is final.

    It is used on the thread that is inside `next`, whenever work can be planned. Positions are
    counted on this shard.
    """

    @property
    def stop(self) -> int | None:
        """Position before which the source's order is final; None if all of the order is final."""

    def advance(self, wait: bool) -> bool:
        """Move `stop` to a later position, after deciding if appended records come before that.

        Args:
            wait: True: wait until the decision is possible, for example for the writer of the
                source.

        Returns:
            True if `stop` was moved (to None, if the order will not change any more). False if the
            decision has to wait, and `wait` is False.

        Raises:
            Exception: if the order changes. The exception has the position and the new records.
        """


class DecidedSpans(Pull[Request]):
    """Supply of requests for the positions of a growing source, as soon as their order is final.

    Each request has the inputs of whole outputs. Only the last output of the order may be
    incomplete. All positions are counted on this shard.

    Args:
        requests: function that returns requests for positions `[start, stop)`.
        horizon: object that knows up to which position the order is final. When requests for all
            these positions have been made, the horizon is asked to decide the order of more
            positions.
        first: first position.
        total: end of the order, if the order does not change.
        unit: number of positions that make one output, counted from `first`.
    """

    def __init__(
        self,
        requests: Callable[[int, int], Iterator[Request]],
        horizon: Horizon,
        first: int,
        total: int,
        unit: int,
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
        """Prepare requests for the positions of a growing source whose order has become final.

        If an exception is raised while the order of more positions is decided (for example
        because the order has changed), the supply of requests ends with this exception.

        Args:
            wait: True: wait until the order of at least one more position is final.

        Returns:
            True if there are new requests, or the supply has ended. False if no more positions
            are final yet; this is possible only if `wait` is False.
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
