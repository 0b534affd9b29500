"""Delay interrupts while processes, threads or descriptors are created or ended.

Without the delay, this work could be left half done. The interrupt, or the exception of a signal
handler, is raised at the end of the section (a `with Uninterrupted()` block).
"""

from __future__ import annotations

import functools
import signal
import threading
import time

# That of `signal` makes an enum of each result, which takes 20 times as long. Records that fail and
# are skipped call it.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable
from traceback import walk_tb
from types import CodeType, FrameType, MethodType
from typing import Any, ClassVar

_PAUSES = (1e-4, 5e-3)
"""Smallest and largest seconds between two checks in `wait_until`."""

_SIGNALS = tuple(
    sorted(signal.valid_signals(), key=lambda number: (number != signal.SIGINT, number))
)
"""All signals, SIGINT (Ctrl-C) first."""


class Uninterrupted:
    """Context manager that delays Ctrl-C and exceptions of signal handlers until its end.

    A SIGINT is recorded, and the SIGINT handler is called once at the end. Handlers of other
    signals are called at once; their exceptions are raised at the end. If sections (`with` blocks)
    are nested, interrupts are delayed until the end of the outermost section. After one interrupt
    was delayed, the next one is handled at once, so that the user can end a section that does not
    return.

    The context manager has no effect in threads other than the main thread, where no handlers run,
    and on handlers that are not Python functions. It replaces handlers, and does not block signals:
    another thread would get a blocked signal, and Python would pass the signal to the main thread.
    """

    holding: ClassVar[Uninterrupted | None] = None
    """Outermost section that the main thread is in; None if it is in no section."""

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
        """Handle a signal during a section (a `with Uninterrupted()` block).

        A first SIGINT is recorded, and handled at the end of the section. For any other signal, the
        original handler is called at once, and its exception is raised at the end of the section.
        If an interrupt or exception is already delayed, the next signal is handled at once, and the
        exception of its handler is raised at once.

        Args:
            number: number of the signal.
            frame: frame that the signal interrupted.
        """
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
        """True if an interrupt, or an exception of a signal handler, is being delayed."""
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
    """Wait until `condition()` is True, and return True.

    Return False if this takes more than `seconds`. Also return False if the main thread waits
    inside an `Uninterrupted` section, and the section has delayed an interrupt such as Ctrl-C.
    """
    until, (pause, longest) = time.monotonic() + seconds, _PAUSES
    while not condition():
        if time.monotonic() > until or _interrupted():
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return True


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return True if an exception was raised by a signal handler, or by a function that it called.

    Only handlers that are Python functions, methods or objects with `__call__` are recognized. In
    threads other than the main thread, where no handlers run, return False.
    """
    if not _in_main_thread():
        return False
    # by which Python replaces an exception that comes inside some functions in C
    if isinstance(error, SystemError):
        error = error.__cause__ or error
    codes = {code_of(handler) for handler in map(getsignal, _SIGNALS) if callable(handler)} - {None}
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def raise_if_of_signal_handler(error: BaseException) -> None:
    """Raise an exception again if a signal handler raised it; otherwise do nothing.

    Such an exception is not caused by an operation or a record.
    """
    try:
        if raised_by_signal_handler(error):
            raise error
    finally:
        del error  # it knows this frame


def code_of(function: Any) -> CodeType | None:
    """Return the code object of a function, method, partial function or object with `__call__`.

    Return None if the function is not implemented in Python.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, (MethodType, staticmethod)):
        function = function.__func__
    # `__code__` is also in functions of other libraries, such as compiled ones
    own: CodeType | None = getattr(function, "__code__", None)
    return getattr(type(function).__call__, "__code__", None) if own is None else own


def _interrupted() -> bool:
    section = Uninterrupted.holding
    return section is not None and section.holds and _in_main_thread()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
