"""The queue between two threads of a running feeder, and what passes through it.

In: a batch on the host, a batch on its devices, the end, or an error. Out: the same, in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple


class Times(NamedTuple):
    """When things happened to one batch, in seconds of `time.perf_counter`."""

    read_from: float
    read_to: float
    transformed: float
    agree_from: float
    agreed: float
    transferred: float


@dataclass(slots=True)
class Loaded:
    """A batch on the host, transformed."""

    batch: Any
    mark: Any  # where the upstream iterator stands after it
    made: tuple[float, float, float]  # when it was asked for, when it came, and when `transform` had returned


@dataclass(slots=True)
class Delivered:
    """A batch on its devices."""

    batch: Any
    mask: Any  # `bool[rows]` on the same devices, False where a row was filled in; None if nobody asked for one
    mark: Any  # where the upstream iterator stands after it
    times: Times
    empty: bool  # it is filling alone: other hosts have a batch, and this one has none


@dataclass(slots=True)
class End:
    """The upstream iterator has ended, or the run has."""

    mark: Any = None  # where the upstream iterator stands


@dataclass(slots=True)
class Failed:
    """There is an error in place of a batch."""

    error: BaseException
    final: bool = True  # the run ends with it; otherwise the next batch follows


class HandOver:
    """A queue of at most `limit` items, from one thread to one other; any thread may close it.

    Who takes an item looks at it first, and removes it when all else is done: by `del items[0]` and `taken += 1`, which call
    nothing, so that no signal's handler runs there. An interrupt before them loses nothing, as the item is still there.

    Waiting is done in `SimpleQueue.get`. What rings (`put`) may be called from anywhere, finalizers in the middle of a garbage
    collection included.

    Races:
    * Who changes something rings after that; who waits looks again after each ring. A ring too many costs one look.
    * Nobody rings where a ring waits to be heard: it will be heard after the change.
    * An interrupt between `make_room` and the removal gives the room early, not twice: there is one item too many for a while.
    """

    def __init__(self, limit: int) -> None:
        self.items: deque[Any] = deque()  # that were put and not taken
        self.taken = 0  # how many were
        self.closed = False  # nothing is to be put or taken any more
        self._limit = limit
        self._put = 0
        self._given_room = 0  # to those that were taken, and the one that is about to be
        self._filled: SimpleQueue[None] = SimpleQueue()
        self._freed: SimpleQueue[None] = SimpleQueue()

    def wait_for_room(self) -> bool:
        """Wait until there is room for one more, or it is closed; whether there is room."""
        while self._put - self._given_room >= self._limit and not self.closed:
            self._freed.get()
        return not self.closed

    def wait_for_close(self) -> None:
        """For the thread that puts, when it has nothing more to put."""
        while not self.closed:
            self._freed.get()

    def put(self, item: Any) -> None:
        """Put an item; there is room for it."""
        self._put += 1
        self.items.append(item)
        _ring(self._filled)

    def first(self) -> Any:
        """Wait for an item, and leave it there; None if it is closed."""
        while not self.items and not self.closed:
            self._filled.get()
        return None if self.closed else self.items[0]

    def make_room(self) -> None:
        """The first item is about to be removed."""
        self._given_room = self.taken + 1
        _ring(self._freed)

    def remove(self) -> None:
        """Remove the first item; for threads that no interrupt comes to."""
        self.make_room()
        del self.items[0]
        self.taken += 1

    def close(self) -> None:
        """Have both threads wait no longer."""
        self.closed = True
        _ring(self._filled)
        _ring(self._freed)


def _ring(bell: SimpleQueue[None]) -> None:
    if bell.empty():
        bell.put(None)
