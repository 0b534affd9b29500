"""Work on many items at the same time: in their order, by threads where it waits."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.files.remote.parallel import in_parallel

COUNTS = [0, 1, 2, 999, 1000, 5000]


@pytest.mark.parametrize("count", COUNTS)
def test_results_are_in_the_order_of_the_items(count):
    """Also of those that are found before it is known that work waits."""
    assert in_parallel(lambda item: -item, range(count)) == [-item for item in range(count)]


def test_many_items_that_wait_are_done_by_several_threads():
    """Whether it waits is found out with the first ones; later ones may wait, too."""

    def work(item):
        if item > 1500:
            time.sleep(1e-3)
        return threading.get_ident()

    done_by = in_parallel(work, range(2500))
    assert len(done_by) == 2500
    assert len(set(done_by[2000:])) > 1


@pytest.mark.parametrize("bad", [0, 700, 1999])
def test_an_error_of_the_work_comes_out(bad):
    """Whoever does it."""

    def work(item):
        if item == bad:
            raise OSError(f"item {item}")

    with pytest.raises(OSError, match=f"item {bad}"):
        in_parallel(work, range(2000))


def test_after_items_that_waited_one_thread_goes_on():
    """One of them in front leaves the most to it: threads cost more where nothing waits."""

    def work(item):
        if item < 3:
            time.sleep(0.05)
        return threading.get_ident()

    done_by = in_parallel(work, range(9000))
    assert done_by.count(threading.get_ident()) >= 3000
