"""The queue between two threads of a device feeder, and its items.

In: a batch on the host, a batch on its devices, the end of the stream, or an error. Out: the same
items, in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Times of the steps in making one batch on devices.

    All times are in seconds of `time.perf_counter`.

    Attributes:
        read_from: time at which the reader thread asked its iterator for the batch.
        read_to: time at which the iterator returned the batch.
        transformed: time at which the function `transform` had ended.
        agree_from: time at which the agreement with other processes began.
        agreed: time at which the agreement ended.
        transferred: time at which the batch was on its devices.
    """

    read_from: float
    read_to: float
    transformed: float
    agree_from: float
    agreed: float
    transferred: float


@dataclass(slots=True)
class Loaded:
    """A batch on the host, after the function `transform`.

    Attributes:
        batch: the batch.
        mark: position after this batch, in the iterator that the feeder reads.
        made: three times in seconds of `time.perf_counter`: when the batch was requested from the
            iterator, when the iterator returned it, and when `transform` had ended.
    """

    batch: Any
    mark: Any
    made: tuple[float, float, float]


@dataclass(slots=True)
class Delivered:
    """A batch on its devices, or on the host in a feeder without devices.

    Attributes:
        batch: the batch.
        mask: array `bool[rows]` in the same place as the batch, False for rows that were filled in.
            None unless `on_uneven` is "pad" or "repeat" and an array of the batch has an axis.
        mark: position after this batch, in the iterator that the feeder reads.
        times: times of the steps in making the batch.
        empty: True if all rows were filled in, because this host has no more data and others have.
        at: if `empty`, the number of steps, up to and including this batch, of the hosts that have
            data; otherwise 0.
        last: True if a host was asked to end, so that all hosts end their loops after this batch.
    """

    batch: Any
    mask: Any
    mark: Any
    times: Times
    empty: bool
    at: int
    last: bool


@dataclass(slots=True)
class End:
    """The end of the iterator that a feeder reads, or of the feeder's run.

    Attributes:
        mark: position of the iterator.
        at: if the streams of all hosts have ended, the number of steps of the longest stream;
            otherwise 0.
    """

    mark: Any = None
    at: int = 0


@dataclass(slots=True)
class Failed:
    """An error in place of a batch.

    Attributes:
        error: the error.
        final: True if the error ends the run; False if the next batch follows it.
    """

    error: BaseException
    final: bool = True


class HandOver:
    """A queue of at most `limit` items from one thread to one other thread.

    Any thread may close it. The receiver first gets an item without removing it. Later it removes
    the item, by `del items[0]` and `taken += 1`. These two statements call no function, so no
    signal handler runs between them. If an interrupt comes before them, the item is still in the
    queue.

    A thread waits in `SimpleQueue.get`. It is woken ("rung") by a `put`, which may be called from
    anywhere, also from finalizers during garbage collection.

    Why no change is missed when threads run at the same time:

    * A thread that changes something rings afterwards; a waiting thread checks again after each
      ring. An additional ring costs one check.
    * No thread rings if an earlier ring has not been noticed yet: the waiting thread will notice
      that ring after the change.
    * After an interrupt between `make_room` and the removal, the queue has one item too many for a
      while; calling `make_room` again makes no further room.
    """

    def __init__(self, limit: int) -> None:
        self.items: deque[Any] = deque()  # items that were put and not taken
        self.taken = 0  # number of items that were taken
        self.closed = False  # True: nothing is put or taken any more
        self._limit = limit
        self._put = 0
        self._given_room = 0  # number of items taken, plus one if an item is about to be taken
        self._filled: SimpleQueue[None] = SimpleQueue()
        self._freed: SimpleQueue[None] = SimpleQueue()

    def wait_for_room(self) -> bool:
        """Wait for room for one more item, and return True. Return False if the queue is closed."""
        while self._put - self._given_room >= self._limit and not self.closed:
            self._freed.get()
        return not self.closed

    def wait_for_close(self) -> None:
        """Wait until the queue is closed. Called by the sending thread after its last item."""
        while not self.closed:
            self._freed.get()

    def put(self, item: Any) -> None:
        """Append an item to the queue. The caller must have waited for room (`wait_for_room`)."""
        self._put += 1
        self.items.append(item)
        _ring(self._filled)

    def first(self) -> Any:
        """Wait for an item, and return it without removing it; None if the queue was closed."""
        while not self.items and not self.closed:
            self._filled.get()
        return None if self.closed else self.items[0]

    def make_room(self) -> None:
        """Let the sender put one more item, because the first one is about to be removed."""
        self._given_room = self.taken + 1
        _ring(self._freed)

    def remove(self) -> None:
        """Remove the first item of the queue. Called by threads that signals never interrupt."""
        self.make_room()
        del self.items[0]
        self.taken += 1

    def close(self) -> None:
        """Close the queue, and wake all threads that wait for its items or for room."""
        self.closed = True
        _ring(self._filled)
        _ring(self._freed)


def _ring(bell: SimpleQueue[None]) -> None:
    if bell.empty():
        bell.put(None)
