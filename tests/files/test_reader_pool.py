"""Open readers on loan: how many stay open, and when they are closed."""

import gc
import os
import resource
import threading

import pytest
from support.source_conformance import exit_code

from headrace.files import reader_pool
from headrace.files.reader_pool import ReaderPool, open_file_limit


class Reader:
    """Counts how often it was closed."""

    nbytes = 10

    def __init__(self, number):
        self.number, self.closed = number, 0

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

        return ReaderPool(opener, limit, limit_bytes, keep_failed=False)

    return make


@pytest.mark.parametrize(
    ("limit", "limit_bytes", "left"), [(3, 1000, 3), (1, 1000, 1), (5, 20, 2), (5, 1, 1)]
)
def test_the_readers_used_last_stay_open_within_both_limits(
    pool_of, opened, limit, limit_bytes, left
):
    """So many, and so many bytes; one reader may be larger than that. All others are
    closed once.
    """
    pool = pool_of(limit, limit_bytes)
    for number in range(6):
        with pool.lend(number) as reader:
            assert reader.number == number
    assert len(pool) == left
    assert [reader.closed for reader in opened] == [1] * (6 - left) + [0] * left


def test_a_loan_that_fails_closes_its_reader(pool_of, opened):
    """Nobody gets a reader that was left in the middle of something; who has it keeps it, and the
    exception comes as it was.
    """
    pool = pool_of()
    with pool.lend(4):
        with pytest.raises(KeyError), pool.lend(4):
            raise KeyError("mine")
        assert [reader.closed for reader in opened] == [0]
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
        assert not busy.closed
        assert [reader.closed for reader in opened] == [1, 0]
    assert [reader.closed for reader in opened] == [1, 1]
    with pool.lend(1) as anew:
        assert not anew.closed


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_forked_child_has_readers_of_its_own(pool_of, opened):
    """Even if a thread of the parent holds the lock at that moment; the parent's are neither used
    nor closed there.
    """
    pool = pool_of()
    with pool.lend(1):
        pass
    held, done = threading.Event(), threading.Event()

    class Slow(int):
        """A number that takes long to look up, which is done under the lock."""

        def __hash__(self):
            held.set()
            done.wait(60)
            return 1

    def hold():
        """Another thread, which holds the lock."""
        with pool.lend(Slow(1)):
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pool.lend(1) as reader:
                status = int(reader is opened[0] or opened[0].closed)
        finally:
            os._exit(status)
    done.set()
    thread.join()
    assert exit_code(child) == 0
    with pool.lend(1) as reader:
        assert reader is opened[0]


@pytest.mark.slow
def test_pools_without_a_limit_share_one(opened, monkeypatch):
    """A thousand sources keep no more files open than one; a pool that dies or is closed takes only
    its own with it.
    """
    monkeypatch.setattr(reader_pool, "open_file_limit", lambda: 20)

    def opener(number):
        opened.append(Reader(number))
        return opened[-1]

    def count():
        return sum(not reader.closed for reader in opened)

    pools = [ReaderPool(opener, None) for _ in range(100)]
    for pool in pools:
        with pool.lend(0), pool.lend(1):
            assert count() <= 22
    assert 15 <= count() <= 20
    last, before = pools[-1], pools[-2]
    with last.lend(0) as used:
        pools.clear()
        del pool
        gc.collect()
        assert count() == 4  # of `last` and `before`
        last.close()
        assert count() == 3
    assert used.closed
    assert (len(last), len(before)) == (0, 2)


def test_a_pool_that_dies_while_its_lock_is_held_is_closed_afterwards(opened):
    """Garbage is collected on any thread at any moment, and never waits for a lock that this thread
    may hold.
    """

    def opener(number):
        opened.append(Reader(number))
        return opened[-1]

    dying, other = ReaderPool(opener, None), ReaderPool(opener, None)
    with dying.lend(1):
        pass

    class Fatal(int):
        """A number that lets the other pool die when it is looked up, under the lock."""

        def __hash__(self):
            pools.clear()
            return 2

    pools = [dying]
    del dying
    with other.lend(Fatal(2)):
        pass
    assert opened[0].closed
    other.close()


@pytest.mark.parametrize(("files", "expected"), [(256, 64), (1024, 256), (1 << 16, 256), (32, 16)])
def test_the_limit_follows_what_the_process_may_open(files, expected, monkeypatch):
    """A quarter of it, between 16 and 256."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert open_file_limit() == expected
