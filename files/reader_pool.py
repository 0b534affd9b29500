"""Pool of open readers of files, limited in number. No reader is closed while a thread uses it.

A reader may serve several threads at the same time, so there is one for each file. All pools
without their own limit share one table of readers. So a thousand sources keep no more files open
than one. Pools of mapped files, which need no descriptor, share another table.

No reader may be closed while another thread reads. Therefore:

* lending a reader raises its count of users, and the end of the loan lowers it; both hold the
  table's lock;
* only a reader without users is closed, the least recently used first. It is removed from the table
  before, so it cannot be lent again;
* a reader that is dropped after an exception is removed from the table at once. Its last user
  closes it;
* if all readers are in use, the table exceeds its limit, by at most one reader for each reading
  thread, and shrinks later;
* files are opened without holding the lock. If two threads open the same file, the second one
  closes its own reader;
* a pool may be destroyed on any thread, even on one that holds the lock. This is only recorded; the
  next thread that gets the lock closes the pool's readers.

After a fork, the child has an empty table and a new lock, because a thread that does not exist
there may hold the old one.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from ..common.system import after_fork

ReaderT = TypeVar("ReaderT")

Place: TypeAlias = tuple[int, int]
"""Key of a reader: number of the pool, and index of the file in it."""

_MOST_OPEN = 256

# Each has one or two mappings, and Linux allows 65,530 in a process. Documents that a user holds
# keep theirs besides.
MOST_MAPPED = 4096
"""Maximum number of mapped readers in a process."""


@dataclass
class _Loan(Generic[ReaderT]):
    reader: ReaderT
    nbytes: int
    users: int = 0
    retired: bool = False
    """True if the reader was removed from the table. Then its last user closes it."""


class ReaderPool(Generic[ReaderT]):
    """Pool of open readers, by the index of the file. Thread-safe.

    Args:
        open_reader: function that takes the index of a file and opens it. It is called on the
            thread that borrows the reader, without the lock. The reader needs a method `close`,
            which is called once, when no thread uses the reader.
        limit: maximum number of readers that stay open, at least 1; only readers in use exceed it.
            None: all pools with `limit=None` share one limit, `open_file_limit()` readers. Of these
            pools, the ones with `mapped=True` have their own common limit instead, `MOST_MAPPED`
            readers.
        limit_bytes: maximum memory of the readers of this pool, by their attribute `nbytes`. A
            single reader, and readers in use, may exceed it. Default: no limit.
        keep_failed: True (default): keep a reader after a loan that ended with an exception. False:
            close it.
        mapped: True: readers need no file descriptor. Default False.

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
        """Lend the reader of a file.

        It is opened if necessary, and stays open during the `with` block.

        Raises:
            Exception: whatever `open_reader` raises.
        """
        place, table = (self._number, number), self._table
        loan: _Loan[ReaderT] = table.borrow(place) or table.insert(
            place, self._open(number), self._limit_bytes
        )
        try:
            yield loan.reader
        except BaseException:
            if not self._keep_failed:
                table.retire(place, loan)
            raise
        finally:
            table.give_back(loan)

    def close(self) -> None:
        """Close each reader now, or when its last user is done. The pool stays usable."""
        self._table.drop(self._number, wait=True)


class _Table:
    """Table of the open readers of several pools, by pool and file, least recently used first."""

    loans: OrderedDict[Place, _Loan[Any]]

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._dropped: deque[int] = deque()
        """Numbers of destroyed pools whose readers must still be closed."""
        self._empty()
        forget_after_fork(self)

    def _empty(self) -> None:
        self._lock, self.loans = threading.Lock(), OrderedDict()

    def forget(self) -> None:
        """Remove all readers of the parent process without closing them.

        Called in a child right after a fork.

        The threads that use them do not exist in the child, and a reader may have been copied in
        the middle of a read, with its locks held. So readers are neither closed nor destroyed; the
        child does not get back their memory and descriptors.
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
        """Lend a new reader, or the reader of a thread that has opened the file meanwhile.

        Args:
            place: number of the pool, and index of the file.
            reader: the reader that was just opened. If it is not lent, it is closed.
            limit_bytes: maximum memory of the pool's readers.
        """
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
        # enough to shrink a table that had grown; to insert asks the system
        limit = self._limit or _MOST_OPEN
        with self._lock:
            loan.users -= 1
            surplus = self._surplus(limit)
            if loan.retired and not loan.users:
                surplus.append(loan)
        _close_all(surplus)
        self._sweep()

    def drop(self, pool: int, wait: bool = False) -> None:
        """Close all readers of a pool; readers in use are closed when they are returned.

        Args:
            pool: number of the pool.
            wait: True: wait for the lock. False: if another thread has the lock, that thread closes
                the readers.
        """
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
        """Remove unused readers above the limit from the table, and return them.

        The caller holds the lock, and closes the readers after releasing it.
        """
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
    """Return the number of files that all sources of a process may keep open.

    It is a quarter of the limit of the process, from 16 to 256.

    The result is 64 where the limit is unknown (Windows).
    """
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
    """Call `thing.forget()` right after a fork, in each child. Does not keep `thing` alive."""
    _forgetful.add(thing)


_forgetful: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[Any] = []


def _forget_all() -> None:
    for thing in list(_forgetful):
        thing.forget()


after_fork(_forget_all)


_numbers = itertools.count()
_shared, _mapped = _Table(None), _Table(MOST_MAPPED)
