"""Takes the next rows while the user is busy with those before, on a thread of its own.

In: the rows of the last stage. Out: the same, in the same order.

To take a message, answer it with the next task and decode a batch is 30 µs of work; but up to 400 µs after a step in which the
workers wrote megabytes, as nothing of ours is in the caches then. So it is done before the user asks, if rows last the user
for long enough. A loop that comes back soon does it itself: to be handed all rows would cost it a switch between threads. To
wake the thread would cost as much, so that it looks by itself whether there is something to do, about twice in that time.

No code of the user's runs on the thread, but for handlers of logging: rows with objects of the user's classes are left for the
user's own thread to decode.
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import cast
from weakref import finalize

from ..interrupts import Uninterrupted, wait_until
from ..work.tasks import Failure
from .pull import Ended
from .row_runs import RowRun, RowRuns

AWAY_SECONDS = 4e-3
"""If the user is busy with rows for at least as long, they are worth a thread."""

PAUSE_SECONDS = (1e-3, 1.0)
"""The least and the most time between two looks."""

CLOSE_SECONDS = 5.0
"""How long closing waits for a look to end. After it the thread finds everything closed, and ends."""


class Ahead:
    """A `Pull` of rows that takes one run ahead. Used by one thread at a time, beside its own."""

    def __init__(self, runs: RowRuns) -> None:
        self._runs = runs
        self._taken: RowRun | Ended | None = None  # set by the thread, and taken by the user
        self._turn = threading.Lock()  # whose it is to ask `runs`
        self._since = float("inf")  # when rows were taken last, here or there
        self._awake = self._closed = False
        self._pauses: SimpleQueue[float | None] = SimpleQueue()  # seconds to the first look, which awakes; None stops
        self._thread: threading.Thread | None = None

    def fill(self) -> None:
        """Have work begin, without waiting."""
        self._runs.fill()

    def next(self, wait: bool) -> RowRun | Ended | None:
        """The next rows: those that were taken ahead, or from the stage."""
        taken = self._taken
        if taken is not None:  # the way that must be short; the thread leaves alone what it has put there
            self._taken = None
            return taken
        away = time.monotonic() - self._since
        with self._turn:
            taken, self._taken = self._taken, None
            if taken is None:
                taken = self._runs.next(wait)
        if away > AWAY_SECONDS:
            self._wake(away / 2)
        else:
            self._awake = False
        self._since = time.monotonic()
        return taken

    def close(self) -> None:
        """Stop the thread. May be called twice, and on that thread, when it drops the last reference to an iterator."""
        self._closed = True
        if self._thread is not None:
            _stop(self._thread, self._pauses)

    def _wake(self, pause: float) -> None:
        if self._closed:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="millrace-ahead", daemon=True)
            try:
                with Uninterrupted():
                    thread.start()
                    self._thread = thread
                    finalize(self, _stop, thread, self._pauses)  # at exit, before the executor's, which is older
            except RuntimeError:  # the system gives no more threads, or is about to exit: this one does it all
                return
        self._awake = True
        self._pauses.put(pause)

    def _work(self) -> None:
        """What the thread does: look, and about every second time find that the user took what was there."""
        pause = self._pauses.get()
        while pause is not None:
            last = pause
            try:
                pause = self._pauses.get(timeout=last if self._awake else None)
            except Empty:
                pause = _limited(last * self._look())

    def _look(self) -> float:
        """Take a run if there is none and one is at hand. The factor for the time to the next look."""
        if self._taken is not None:
            return 1.25
        if self._closed or not self._turn.acquire(blocking=False):
            return 1.0
        try:
            taken = self._runs.next(wait=False)
            if taken is None:
                return 1.0
            if isinstance(taken, RowRun):
                taken.block.decode_plain()
            self._since = time.monotonic()
            self._taken = taken  # the user may have it from here on
        except BaseException as error:  # to be raised where the user asks
            self._taken = Ended(Failure(cast(Exception, error)))
        finally:
            self._turn.release()
        return 0.8


def _limited(pause: float) -> float:
    least, most = PAUSE_SECONDS
    return min(max(pause, least), most)


def _stop(thread: threading.Thread, pauses: SimpleQueue[float | None]) -> None:
    pauses.put(None)
    if thread is not threading.current_thread():
        wait_until(lambda: not thread.is_alive(), CLOSE_SECONDS)
