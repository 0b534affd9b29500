"""In: file numbers to read. Out: open readers on loan, of which a bounded number stays open, closed when no one reads.

A reader may serve several threads at the same time, so there is one per file. Pools without a limit of their own share one
table, so that a thousand sources keep no more files open than one; pools of mapped files, which cost no descriptor, share
another. The race that matters is closing one reader under another thread that still reads; it is settled by counting:

* a loan raises the reader's `users`, its end lowers it, both under the table's lock;
* only a reader with no users is closed, least recently used first, and it has left the table before, so that no new
  loan can find it;
* a reader that a pool gives up after an exception leaves the table at once, and its last user closes it;
* when all are in use the table grows past its limit, by at most one reader per reading thread, and shrinks afterwards;
* opening takes place outside the lock; of two threads that open the same file, the second closes its own copy;
* a pool may die on any thread, one that holds the lock too: it only notes that, and who can have the lock closes its readers.

After a fork the child starts with an empty table and a new lock: the old one may be held by a thread that is no more.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

ReaderT = TypeVar("ReaderT")

Place: TypeAlias = tuple[int, int]
"""The number of a pool, and that of a file in it."""

_MOST_OPEN = 256

MOST_MAPPED = 4096
"""A reader holds one mapping or two, and Linux gives a process 65,530 of them. Documents that users hold keep theirs."""


@dataclass
class _Loan(Generic[ReaderT]):
    reader: ReaderT
    nbytes: int
    users: int = 0
    retired: bool = False
    """It has left the table: the last user closes it."""


class ReaderPool(Generic[ReaderT]):
    """Open readers by file number. Thread-safe.

    Args:
        open_reader: opens the file of a number; called without the lock, on the thread that asks. The reader's `close` is
            called once, when no thread uses it.
        limit: how many readers stay open while no one uses them; at least 1. None: as many as `open_file_limit` says, of all
            pools without a limit together.
        limit_bytes: how much memory those of this pool take, by their `nbytes`; one of them may take more. Default: any.
        keep_failed: a reader is lent again after a loan that ended in an exception. Default True.
        mapped: its readers hold no descriptor. Default False.

    >>> import io
    >>> pool = ReaderPool(lambda number: io.BytesIO(b"file %d" % number), limit=2)
    >>> with pool.lend(7) as reader:
    ...     reader.getvalue()
    b'file 7'
    >>> pool.close()
    """

    def __init__(
        self,
        open_reader: Callable[[int], ReaderT],
        limit: int | None,
        limit_bytes: float = math.inf,
        keep_failed: bool = True,
        mapped: bool = False,
    ) -> None:
        self._open, self._keep_failed, self._limit_bytes = open_reader, keep_failed, limit_bytes
        self._table: _Table = (_mapped if mapped else _shared) if limit is None else _Table(limit)
        self._number = next(_numbers)
        weakref.finalize(self, self._table.drop, self._number).atexit = False

    def __len__(self) -> int:
        return len(self._table.places_of(self._number))

    @contextmanager
    def lend(self, number: int) -> Iterator[ReaderT]:
        """Lends the reader of file `number`, opening it if need be; it stays open for the `with` block."""
        place, table = (self._number, number), self._table
        loan: _Loan[ReaderT] = table.borrow(place) or table.insert(place, self._open(number), self._limit_bytes)
        try:
            yield loan.reader
        except BaseException:
            if not self._keep_failed:
                table.retire(place, loan)
            raise
        finally:
            table.give_back(loan)

    def close(self) -> None:
        """Closes every reader: now if no one uses it, else when its last user is done. The pool stays usable."""
        self._table.drop(self._number, wait=True)


class _Table:
    """The open readers of some pools, by `Place`; the least recently used comes first."""

    loans: OrderedDict[Place, _Loan[Any]]

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._dropped: deque[int] = deque()
        """Numbers of pools whose readers are still to be closed."""
        self._empty()
        forget_after_fork(self)

    def _empty(self) -> None:
        self._lock, self.loans = threading.Lock(), OrderedDict()

    def forget(self) -> None:
        """Drops every reader of the parent process without closing it; called in the child right after a fork.

        Their threads do not exist here, and one may have been forked in the middle of a read, with its locks held: so
        they are neither closed nor destroyed. What they cost the child is their memory and descriptors.
        """
        _inherited.append(self.loans)
        self._empty()

    def places_of(self, pool: int) -> list[Place]:
        with self._lock:
            return [place for place in self.loans if place[0] == pool]

    def borrow(self, place: Place) -> _Loan[Any] | None:
        with self._lock:
            loan = self.loans.get(place)
            if loan is not None:
                loan.users += 1
                self.loans.move_to_end(place)
            return loan

    def insert(self, place: Place, reader: Any, limit_bytes: float) -> _Loan[Any]:
        """Lend a reader that was opened, or another of the same file that was opened meanwhile."""
        mine, limit = _Loan(reader, getattr(reader, "nbytes", 0)), self._limit or open_file_limit()
        with self._lock:
            loan = self.loans.setdefault(place, mine)
            loan.users += 1
            surplus = self._surplus(limit)
            if limit_bytes < math.inf:
                surplus += self._surplus_bytes(place[0], limit_bytes)
        _close_all(surplus if loan is mine else [*surplus, mine])
        return loan

    def retire(self, place: Place, loan: _Loan[Any]) -> None:
        """Take a reader out of the table; its last user closes it."""
        with self._lock:
            loan.retired = True
            if self.loans.get(place) is loan:
                del self.loans[place]

    def give_back(self, loan: _Loan[Any]) -> None:
        limit = self._limit or _MOST_OPEN  # enough to shrink a table that had grown; to insert asks the system
        with self._lock:
            loan.users -= 1
            surplus = self._surplus(limit)
            if loan.retired and not loan.users:
                surplus.append(loan)
        _close_all(surplus)
        self._sweep()

    def drop(self, pool: int, wait: bool = False) -> None:
        """Close all readers of a pool, those in use at their end. Without `wait`, who holds the lock may be left to do it."""
        self._dropped.append(pool)
        self._sweep(wait)

    def _sweep(self, wait: bool = False) -> None:
        while self._dropped and self._lock.acquire(blocking=wait):
            try:
                pools = {self._dropped.popleft() for _ in range(len(self._dropped))}
                found = [place for place in self.loans if place[0] in pools]
                loans = [self.loans.pop(place) for place in found]
                for loan in loans:
                    loan.retired = True
                idle = [loan for loan in loans if not loan.users]
            finally:
                self._lock.release()
            _close_all(idle)

    def _surplus(self, limit: int) -> list[_Loan[Any]]:
        """Takes the readers over the limit out of the table; the caller holds the lock and closes them after it."""
        return self._taken(len(self.loans) - limit, self.loans) if len(self.loans) > limit else []

    def _surplus_bytes(self, pool: int, limit: float) -> list[_Loan[Any]]:
        own = [place for place in self.loans if place[0] == pool]
        surplus: list[_Loan[Any]] = []
        while len(own) > 1 and sum(self.loans[place].nbytes for place in own) > limit:
            taken = self._taken(1, own)
            if not taken:
                break
            surplus += taken
            own = [place for place in own if place in self.loans]
        return surplus

    def _taken(self, count: int, places: Iterable[Place]) -> list[_Loan[Any]]:
        unused = (place for place in places if not self.loans[place].users)
        return [self.loans.pop(place) for place in list(itertools.islice(unused, count))]


def open_file_limit() -> int:
    """The number of files that all sources of a process may keep open: a quarter of what it may open, 16 to 256."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError):
        return 64
    return _MOST_OPEN if soft == resource.RLIM_INFINITY else min(max(soft // 4, 16), _MOST_OPEN)


def _close_all(loans: list[_Loan[Any]]) -> None:
    for loan in loans:
        loan.reader.close()


def forget_after_fork(thing: Any) -> None:
    """Have `thing.forget()` called in each child right after it was forked, as long as the thing lives."""
    _forgetful.add(thing)


_forgetful: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[Any] = []


def _forget_all() -> None:
    for thing in list(_forgetful):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


_numbers = itertools.count()
_shared, _mapped = _Table(None), _Table(MOST_MAPPED)
