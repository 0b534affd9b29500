"""A pool of threads where the system gives no more threads."""

from __future__ import annotations

import threading

import pytest
from support.both import within

from headrace.loader.executors.thread_pool import Call, Pool


@pytest.mark.parametrize("given", [0, 1])
def test_a_pool_makes_do_with_the_threads_that_it_gets(given, monkeypatch):
    """One is enough; with none at all, the error of the system is raised."""
    started, start = [], threading.Thread.start

    def starts(thread):
        if thread.name.startswith("few_") and len(started) == given:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    pool = Pool(3, "few")
    if given:
        calls = [pool.submit(pow, 2, number) for number in range(4)]
        assert [call.result() for call in calls] == [1, 2, 4, 8]
        assert len(started) == 1
    else:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(pow, 2, 3)
    pool.close()
    for thread in started:
        thread.join()


def test_a_call_that_no_thread_makes_is_an_error():
    """Whoever waits for it gets it at once."""
    call = Call(len, ())
    closing = threading.Timer(0.05, call.give_up)
    closing.start()
    with within(10), pytest.raises(RuntimeError, match="was closed while its work waited"):
        call.result()
    assert call.ready()
    closing.join()
