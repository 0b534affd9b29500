"""In: file numbers to read. Out: open readers on loan, each to one thread at a time; some of them stay open in between.

For readers that serve one thread only: those of one file are several, where several threads read it at the same time. (A
reader that serves several threads is lent by `reader_pool.py`.)

* A reader that is lent is not in the table, so no other loan can find it, and nobody can close it.
* A loan that ends in an exception closes its reader: it may have been left in the middle of something.
* Opening and closing take place outside the lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from .reader_pool import forget_after_fork, keep_inherited


class SizedReader(Protocol):
    """A reader that a pool keeps."""

    nbytes: int
    """The memory that it takes while it is open."""

    def close(self) -> Any:
        """Closes the file; called once, when no thread uses the reader."""
        ...


ReaderT = TypeVar("ReaderT", bound=SizedReader)


class ExclusivePool(Generic[ReaderT]):
    """Open readers by file number, each for one thread at a time. Thread-safe, safe to fork.

    Args:
        open_reader: opens the file of a number; called without the lock, on the thread that asks.
        limit: how many readers stay open while no one uses them; 0: none.
        limit_bytes: how much memory these take; one of them may take more.

    >>> class Reader:
    ...     nbytes = 8
    ...     def __init__(self, number): ...
    ...     def close(self): ...
    >>> pool = ExclusivePool(Reader, limit=2, limit_bytes=2**20)
    >>> with pool.lend(7) as first, pool.lend(7) as second:
    ...     first is second
    False
    >>> len(pool)
    2
    >>> pool.close()
    """

    _idle: OrderedDict[int, list[ReaderT]]
    """The readers that no one uses; the file that was used last is the last one."""

    def __init__(self, open_reader: Callable[[int], ReaderT], limit: int, limit_bytes: int) -> None:
        self._open = open_reader
        self._limit, self._limit_bytes = limit, limit_bytes
        self._closings = 0
        self._lock = threading.Lock()
        self._empty()
        forget_after_fork(self)

    def __len__(self) -> int:
        """The number of readers that no one uses."""
        return self._count

    @contextmanager
    def lend(self, number: int) -> Iterator[ReaderT]:
        """Lends a reader of file `number`, opening one if need be, for the `with` block and this thread alone."""
        closings = self._closings
        reader = self._borrow(number) or self._open(number)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._give_back(number, reader, closings)

    def close(self) -> None:
        """Closes every reader, those in use when their loan ends. The pool stays usable."""
        with self._lock:
            self._closings += 1
            idle = [reader for readers in self._idle.values() for reader in readers]
            self._empty()
        _close_all(idle)

    def forget(self) -> None:
        """Drops every reader of the parent process without closing it; called in the child right after a fork."""
        keep_inherited(self._idle)
        self._lock = threading.Lock()
        self._empty()

    def _empty(self) -> None:
        self._idle = OrderedDict()
        self._count = self._bytes = 0

    def _borrow(self, number: int) -> ReaderT | None:
        with self._lock:
            return self._take(number) if number in self._idle else None

    def _give_back(self, number: int, reader: ReaderT, closings: int) -> None:
        with self._lock:
            if closings == self._closings:
                self._idle.setdefault(number, []).append(reader)
                self._idle.move_to_end(number)
                self._count, self._bytes = self._count + 1, self._bytes + reader.nbytes
                surplus = self._surplus()
            else:
                surplus = [reader]
        _close_all(surplus)

    def _surplus(self) -> list[ReaderT]:
        """Takes what is over the limits out of the table; the caller holds the lock, and closes them after it."""
        surplus = []
        while self._count > self._limit or (self._bytes > self._limit_bytes and self._count > 1):
            surplus.append(self._take(next(iter(self._idle))))
        return surplus

    def _take(self, number: int) -> ReaderT:
        readers = self._idle[number]
        reader = readers.pop()
        if not readers:
            del self._idle[number]
        self._count, self._bytes = self._count - 1, self._bytes - reader.nbytes
        return reader


def _close_all(readers: list[Any]) -> None:
    for reader in readers:
        reader.close()
