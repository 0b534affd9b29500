"""Lend open readers by file number. A bounded number stays open, and a reader is closed only when no thread uses it.

A reader may serve several threads at the same time, so there is one per file. Pools without a limit of their own share one
table, so that a thousand sources keep no more files open than one. Pools of mapped files, which cost no descriptor, share
another table. The race to avoid is closing a reader while another thread still reads; counting settles it:

* a loan raises the reader's `users`, its end lowers it, both under the table's lock;
* only a reader without users is closed, least recently used first. It has left the table before, so that no new loan can
  find it;
* a reader that a pool drops after an exception leaves the table at once, and its last user closes it;
* if all readers are in use, the table grows past its limit, by at most one reader per reading thread, and shrinks later;
* files are opened outside the lock. If two threads open the same file, the second closes its own reader;
* a pool may be destroyed on any thread, even on one that holds the lock. It only records that, and the next thread that can
  take the lock closes its readers.

After a fork the child starts with an empty table and a new lock: the old lock may be held by a thread that no longer exists.
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
"""Number of a pool, and number of a file in it."""

_MOST_OPEN = 256

MOST_MAPPED = 4096
"""Maximum number of mapped readers. Each has one or two mappings, and Linux allows 65,530 in a process. Documents that a user
holds keep their mappings beside these.
"""


@dataclass
class _Loan(Generic[ReaderT]):
    reader: ReaderT
    nbytes: int
    users: int = 0
    retired: bool = False
    """True once the reader has left the table. Then its last user closes it."""


class ReaderPool(Generic[ReaderT]):
    """Open readers by file number. Thread-safe.

    Args:
        open_reader: opens the file of a number, without the lock, on the thread that asks. The reader's `close` is called
            once, when no thread uses it.
        limit: number of unused readers that stay open, at least 1. None: all pools without a limit together keep as many as
            `open_file_limit` returns.
        limit_bytes: maximum memory of the readers of this pool, by their `nbytes`. A single reader may exceed it. Default:
            no limit.
        keep_failed: True (default): lend a reader again after a loan that ended in an exception.
        mapped: True: readers hold no descriptor. Default False.

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
        """Lend the reader of a file, opening it if necessary. It stays open during the `with` block."""
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
        """Close every reader now, or when its last user is done. The pool stays usable."""
        self._table.drop(self._number, wait=True)


class _Table:
    """Open readers of several pools by `Place`, least recently used first."""

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
        """Drop all readers of the parent process without closing them. Called in a child right after a fork.

        The threads that use them do not exist in the child, and a reader may have been forked in the middle of a read, with
        its locks held. So readers are neither closed nor destroyed; the child loses their memory and descriptors.
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
        """Lend a reader that was just opened, or another reader of the same file that was opened meanwhile."""
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
        """Remove a reader from the table. Its last user closes it."""
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
        """Close all readers of a pool, those in use when they are done. Without `wait`, the thread with the lock may do it."""
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
        """Remove the readers over the limit from the table. The caller holds the lock, and closes them after releasing it."""
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
    """Return how many files all sources of a process may keep open: a quarter of the process's limit, between 16 and 256."""
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
    """Call `thing.forget()` in each child right after a fork, as long as `thing` lives."""
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
