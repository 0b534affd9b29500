"""Delay interrupts while processes, threads or descriptors are created or ended, so that none is left half-way.

The interrupt, or the exception of a signal handler, is raised at the end of the section.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

_PAUSES = (1e-4, 5e-3)
"""Minimum and maximum seconds between two checks of `wait_until`."""

_SIGNALS = tuple(sorted(signal.valid_signals(), key=lambda number: (number != signal.SIGINT, number)))
"""All signals, Ctrl-C first."""


class Uninterrupted:
    """Context manager in which a SIGINT is recorded. Its handler is called once, at the end. Other handlers are called at once.

    Exceptions of handlers are raised at the end. Handlers are exchanged instead of blocking signals, because another thread
    would get blocked signals, and Python would pass them to this one. Of nested sections the outermost counts. Nothing is done
    in threads other than the main one, where no handler runs, nor for handlers that are not Python's. After one interrupt
    was delayed, the next one passes through at once, so that nobody waits for ever.
    """

    holding: ClassVar[Uninterrupted | None] = None
    """Outermost section that the main thread is in."""

    came = False
    _error: BaseException | None = None

    def __init__(self) -> None:
        self._formers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def __enter__(self) -> None:
        if not _in_main_thread() or Uninterrupted.holding is not None:
            return
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._formers[number] = handler
                    signal.signal(number, self)
            Uninterrupted.holding = self
        except BaseException:  # of a handler that was not yet exchanged
            self.__exit__()
            raise

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        handler, is_second = self._formers[number], self.holds
        if number == signal.SIGINT and not is_second:
            self.came = True
            return
        try:
            handler(number, frame)
        except BaseException as error:
            if is_second or Uninterrupted.holding is not self:
                raise
            self._error = error

    @property
    def holds(self) -> bool:
        """True if an interrupt is being delayed."""
        return self.came or self._error is not None

    def __exit__(self, *_: object) -> None:
        if self._formers:
            try:
                self._give_back()
            finally:
                Uninterrupted.holding = None
                self._raise_held()

    def _give_back(self) -> None:
        try:
            for number, handler in self._formers.items():
                signal.signal(number, handler)
        except BaseException:  # of a handler that was given back
            self._give_back()
            raise

    def _raise_held(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # it knows this frame
            if self.came:
                self._formers[signal.SIGINT](signal.SIGINT, None)


def wait_until(condition: Callable[[], bool], seconds: float = float("inf")) -> bool:
    """Wait until a condition is true, at most `seconds`, or until an interrupt is delayed. Returns the condition."""
    until, (pause, longest) = time.monotonic() + seconds, _PAUSES
    while not condition():
        if time.monotonic() > until or _interrupted():
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return True


def _interrupted() -> bool:
    section = Uninterrupted.holding
    return section is not None and section.holds and _in_main_thread()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
