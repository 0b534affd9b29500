"""In: file numbers to read. Out: open readers on loan, at most `limit` of them kept, closed when no one reads.

A reader may serve several threads at the same time, so there is one per file. The race that matters is closing one
under another thread that still reads; it is settled by counting:

* a loan raises the reader's `users`, its end lowers it, both under the lock;
* only a reader with no users is closed, least recently used first, and it has left the table before, so that no new
  loan can find it;
* a reader that a pool gives up after an exception leaves the table at once, and its last user closes it;
* when all are in use the pool grows past its limit, by at most one reader per reading thread, and shrinks afterwards;
* opening takes place outside the lock; of two threads that open the same file, the second closes its own copy.

After a fork the child starts with an empty table and a new lock: the old one may be held by a thread that is no more.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

ReaderT = TypeVar("ReaderT")


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
        limit: how many readers stay open while no one uses them; at least 1. None: as `open_file_limit` says.
        limit_bytes: how much memory these take, by their `nbytes`; one of them may take more. Default: any.
        keep_failed: a reader is lent again after a loan that ended in an exception. Default True.

    >>> import io
    >>> pool = ReaderPool(lambda number: io.BytesIO(b"file %d" % number), limit=2)
    >>> with pool.lend(7) as reader:
    ...     reader.getvalue()
    b'file 7'
    >>> pool.close()
    """

    _loans: OrderedDict[int, _Loan[ReaderT]]

    def __init__(
        self,
        open_reader: Callable[[int], ReaderT],
        limit: int | None,
        limit_bytes: float = math.inf,
        keep_failed: bool = True,
    ) -> None:
        self._open, self._keep_failed = open_reader, keep_failed
        self._limit, self._limit_bytes = limit or open_file_limit(), limit_bytes
        self._lock = threading.Lock()
        self._empty()
        forget_after_fork(self)

    def __len__(self) -> int:
        return len(self._loans)

    @contextmanager
    def lend(self, number: int) -> Iterator[ReaderT]:
        """Lends the reader of file `number`, opening it if need be; it stays open for the `with` block."""
        loan = self._borrow(number) or self._insert(number, self._open(number))
        try:
            yield loan.reader
        except BaseException:
            if not self._keep_failed:
                with self._lock:
                    loan.retired = True
                    if self._loans.get(number) is loan:
                        self._pop(number)
            raise
        finally:
            self._give_back(loan)

    def close(self) -> None:
        """Closes every reader: now if no one uses it, else when its last user is done. The pool stays usable."""
        with self._lock:
            idle = [loan for loan in self._loans.values() if not loan.users]
            for loan in self._loans.values():
                loan.retired = True
            self._empty()
        _close_all(idle)

    def forget(self) -> None:
        """Drops every reader of the parent process without closing it; called in the child right after a fork.

        Their threads do not exist here, and one may have been forked in the middle of a read, with its locks held: so
        they are neither closed nor destroyed. What they cost the child is their memory and descriptors.
        """
        _inherited.append(self._loans)
        self._lock = threading.Lock()
        self._empty()

    def _empty(self) -> None:
        self._loans, self._nbytes = OrderedDict(), 0

    def _borrow(self, number: int) -> _Loan[ReaderT] | None:
        with self._lock:
            loan = self._loans.get(number)
            if loan is not None:
                loan.users += 1
                self._loans.move_to_end(number)
            return loan

    def _insert(self, number: int, reader: ReaderT) -> _Loan[ReaderT]:
        mine = _Loan(reader, getattr(reader, "nbytes", 0))
        with self._lock:
            loan = self._loans.setdefault(number, mine)
            if loan is mine:
                self._nbytes += mine.nbytes
            loan.users += 1
            surplus = self._take_surplus()
        _close_all(surplus if loan is mine else [*surplus, mine])
        return loan

    def _give_back(self, loan: _Loan[ReaderT]) -> None:
        with self._lock:
            loan.users -= 1
            surplus = self._take_surplus()
            if loan.retired and not loan.users:
                surplus.append(loan)
        _close_all(surplus)

    def _take_surplus(self) -> list[_Loan[ReaderT]]:
        """Takes the readers over the limit out of the table; the caller holds the lock and closes them after it."""
        surplus: list[_Loan[ReaderT]] = []
        while self._is_over():
            unused = next((number for number, loan in self._loans.items() if not loan.users), None)
            if unused is None:
                break
            surplus.append(self._pop(unused))
        return surplus

    def _is_over(self) -> bool:
        return len(self._loans) > self._limit or (self._nbytes > self._limit_bytes and len(self._loans) > 1)

    def _pop(self, number: int) -> _Loan[ReaderT]:
        loan = self._loans.pop(number)
        self._nbytes -= loan.nbytes
        return loan


def open_file_limit() -> int:
    """The number of readers that a pool may keep: a quarter of the files that this process may open, 16 to 1024."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError):
        return 64
    return 1024 if soft == resource.RLIM_INFINITY else min(max(soft // 4, 16), 1024)


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
