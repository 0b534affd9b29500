"""Readers that serve one thread at a time: who has them, how many stay open, and when they are closed."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from source_conformance import exit_code

from headrace.files.exclusive_pool import ExclusivePool


class Reader:
    """Notes whether it is closed, and whether two threads use it at the same time."""

    nbytes = 10

    def __init__(self, number):
        self.number, self.closed = number, 0
        self._mine = threading.Lock()

    def use(self):
        """A read, which another one must not disturb."""
        assert self._mine.acquire(blocking=False)
        assert not self.closed
        self._mine.release()

    def close(self):
        """Counts."""
        self.closed += 1


@pytest.fixture
def opened():
    """All readers that were opened."""
    return []


@pytest.fixture
def pool_of(opened):
    """Makes a pool of such readers."""

    def make(limit=3, limit_bytes=1000):
        def opener(number):
            opened.append(Reader(number))
            return opened[-1]

        return ExclusivePool(opener, limit, limit_bytes)

    return make


def test_a_reader_is_lent_again_but_never_to_two_at_a_time(pool_of, opened):
    """Who comes after its loan gets the same reader; who comes meanwhile gets another one of the same file."""
    pool = pool_of()
    with pool.lend(1) as first:
        pass
    with pool.lend(1) as second, pool.lend(1) as third:
        assert second is first
        assert third is not first
        assert third.number == 1
    assert len(opened) == len(pool) == 2


@pytest.mark.parametrize(("limit", "limit_bytes", "left"), [(3, 1000, 3), (0, 1000, 0), (5, 20, 2), (5, 1, 1)])
def test_the_readers_used_last_stay_open_within_both_limits(pool_of, opened, limit, limit_bytes, left):
    """So many, and so many bytes; one reader may be larger than that. All others are closed once."""
    pool = pool_of(limit, limit_bytes)
    for number in range(6):
        with pool.lend(number) as reader:
            reader.use()
    assert len(pool) == left
    assert [reader.closed for reader in opened] == [1] * (6 - left) + [0] * left


def test_a_loan_that_fails_closes_its_reader(pool_of, opened):
    """Nobody gets a reader that was left in the middle of something; the exception comes as it was."""
    pool = pool_of()
    with pytest.raises(KeyError), pool.lend(4):
        raise KeyError("mine")
    with pool.lend(4) as reader:
        assert reader is opened[1]
    assert [reader.closed for reader in opened] == [1, 0]


def test_close_reaches_a_reader_on_loan_at_its_end(pool_of, opened):
    """The loan is not disturbed; afterwards all are closed, and the pool can be used."""
    pool = pool_of()
    with pool.lend(1):
        pass
    with pool.lend(2) as busy:
        pool.close()
        busy.use()
        assert [reader.closed for reader in opened] == [1, 0]
    assert [reader.closed for reader in opened] == [1, 1]
    with pool.lend(1) as anew:
        anew.use()


def test_eight_threads_never_share_a_reader(pool_of, opened):
    """Of few files, with fewer readers kept than there are threads, and closed now and then."""
    pool = pool_of(limit=2)

    def work(seed):
        for turn in range(300):
            with pool.lend((seed + turn) % 3) as reader:
                assert reader.number == (seed + turn) % 3
                reader.use()
            if turn % 50 == seed:
                pool.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert max(reader.closed for reader in opened) == 1
    assert sum(not reader.closed for reader in opened) == len(pool) <= 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_forked_child_has_readers_of_its_own(pool_of, opened):
    """Even if a thread of the parent holds the lock at that moment; the parent's are neither used nor closed there."""
    pool = pool_of()
    with pool.lend(1):
        pass
    with pool._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pool.lend(1) as reader:
                    status = int(reader is opened[0] or opened[0].closed)
            finally:
                os._exit(status)
    assert exit_code(child) == 0
    with pool.lend(1) as reader:
        assert reader is opened[0]
