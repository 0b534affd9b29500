"""Holds Ctrl-C back while something is made or ended that must not be left half-way: processes, threads, descriptors.

In: a short section. Out: the same, as a whole, and after it the interrupt that came meanwhile.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_PAUSES = (1e-4, 5e-3)
"""Seconds between two looks of `wait_until`, at first and at most."""


class Uninterrupted:
    """Within it a SIGINT is noted; its handler is called at the end, once.

    The handler is exchanged, not the signal blocked: another thread would get that, and Python hand it to this one. Of nested
    ones the outermost counts. Nothing is done in threads other than the main one, where no handler runs, and where the
    handler is none of Python's. A second SIGINT goes through at once, so that nobody waits for ever.
    """

    _former: Callable[[int, FrameType | None], Any] | None = None
    came = False

    def __enter__(self) -> None:
        former = signal.getsignal(signal.SIGINT)
        if not callable(former) or isinstance(former, Uninterrupted) or not _in_main_thread():
            return
        try:
            self._former = former
            signal.signal(signal.SIGINT, self)
        except BaseException:  # of another signal's handler
            signal.signal(signal.SIGINT, former)
            raise

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Be the handler."""
        if self.came and self._former is not None:
            signal.signal(signal.SIGINT, self._former)
            self._former(number, frame)
        self.came = True

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)
            if self.came:
                self._former(signal.SIGINT, None)


def wait_until(condition: Callable[[], bool], seconds: float = float("inf")) -> bool:
    """Whether a condition comes true; waits for that, no longer than `seconds`, or until an interrupt is held back."""
    until, (pause, longest) = time.monotonic() + seconds, _PAUSES
    while not condition():
        if time.monotonic() > until or _interrupted():
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return True


def _interrupted() -> bool:
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, Uninterrupted) and handler.came and _in_main_thread()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
