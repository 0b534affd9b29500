"""Run functions that wait for a store on several threads, or in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ...errors import HeadraceError

_AT_ONCE = 16
"""Maximum number of requests of one call at the same time."""

_MOST_SHARES = 1024
"""Maximum number of shares into which items are divided."""

_MANY = 1000
"""Least number of items for which it is measured first if they wait or keep the CPU busy."""

_GLANCE_SECONDS = 0.005

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """Return the result of `work` for each item, in order.

    Several items are processed at the same time, on threads. If there are 1,000 items or more, they
    are processed one after the other in this thread as long as they only use the processor and do
    not wait.

    >>> in_parallel(len, ["a", "bc"])
    [1, 2]
    """
    if len(items) < 2:
        return [work(item) for item in items]
    if len(items) < _MANY:
        return _in_threads(work, items)
    done: list[ResultT] = []
    # some may wait and others not: a disk has a part of a folder in its memory
    while len(done) < len(items):
        done += _while_busy(work, items[len(done) :])
        done += _in_threads(work, items[len(done) : len(done) + _MANY])
    return done


def _while_busy(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """Process the first items in this thread until items wait for a file system.

    Return the results of these items.

    Items that do not wait are processed in this thread, because several threads would only slow
    each other down.
    """
    done: list[ResultT] = []
    while len(done) < len(items):
        began, busy = time.perf_counter(), time.thread_time()
        while len(done) < len(items) and time.perf_counter() - began < _GLANCE_SECONDS:
            done.append(work(items[len(done)]))
        if time.thread_time() - busy < (time.perf_counter() - began) / 4:
            break
    return done


def _in_threads(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    if not items:
        return []
    from concurrent.futures import ThreadPoolExecutor  # 2 ms of a worker's start

    # to hand over each of 100,000 items costs more than a look at a file
    size = -(-len(items) // _MOST_SHARES)
    shares = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(min(len(shares), _AT_ONCE), "headrace-request") as threads:
        return [
            result
            for found in threads.map(lambda share: [work(item) for item in share], shares)
            for result in found
        ]


def in_background(works: Sequence[Callable[[], object]]) -> None:
    """Start to run functions one after the other on a background thread.

    Errors of headrace are ignored.

    The end of the program stops the thread after the current function.
    """

    def run() -> None:
        for work in works:
            with suppress(HeadraceError):
                if threading.main_thread().is_alive():
                    work()

    if works:
        # No daemon: one that returned from a store's library after Python has ended would end the
        # process by a signal.
        threading.Thread(target=run, name="headrace-prefetch").start()
