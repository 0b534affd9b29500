"""Run a function until enough is known about it, or for a limited time.

Then interrupt it as Ctrl-C does.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ...errors import ProgramError

LOOK_SECONDS = 0.05  # between two checks of the loops. Chosen: a few steps of most programs
AGAIN_SECONDS = 3.0  # if the program is still running after this, it is interrupted another time
# if the program is still running after this, it is ended. Chosen: time to save a checkpoint
PATIENCE_SECONDS = 60.0
_GOES_ON = (
    "headrace: the program still runs {seconds:g} s after it was interrupted as by Ctrl-C. Let "
    "KeyboardInterrupt end it, or name a loader in it: PROGRAM.py:name.\n"
)


class Enough(KeyboardInterrupt):
    """Raised in a program when enough is known about it, or when its time is over."""


class UntilEnough:
    """Runs a program on the main thread until enough is known about it, or until its time is over.

    A thread watches, and interrupts the program by the exception `Enough`. The interrupt is not
    mistaken for the user's Ctrl-C: after the end of the program it is dropped.

    Args:
        have_enough: function that returns True when enough is known.
        seconds: largest number of seconds for the program.
        ends_process: True: if the program ignores the interrupt for a minute, this process is
            ended.
    """

    def __init__(
        self, have_enough: Callable[[], bool], seconds: float, ends_process: bool = True
    ) -> None:
        self._ends_process = ends_process
        self._have_enough = have_enough
        self._late = time.monotonic() + seconds
        self._program = threading.get_ident()  # the thread that runs it
        self._enough = self._inside = False
        self._ended = threading.Event()

    def run(self, program: Callable[[], None]) -> bool:
        """Run the program.

        It must be called on the main thread, whose handler of SIGINT is replaced meanwhile.

        Exceptions of the program are raised, also the KeyboardInterrupt of the user's Ctrl-C; but
        not a ProgramError after the interrupt.

        Returns:
            True if the program was interrupted because enough was known or its time was over; False
            if it ended by
                itself.
        """
        thread = threading.Thread(target=self._look, name="headrace-bench", daemon=True)
        former = signal.signal(signal.SIGINT, self._interrupted)
        thread.start()
        try:
            try:
                self._inside = True
                program()
            finally:
                self._inside = False
        except Enough:
            return True
        except (
            ProgramError
        ):  # it caught the interrupt, and says by its exit status that it was stopped
            if not self._enough:
                raise
        finally:
            self._ended.set()
            thread.join()
            signal.signal(signal.SIGINT, former)
        return self._enough

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._enough = self._have_enough() or time.monotonic() > self._late
            if self._enough:
                self._interrupt()
                return

    def _interrupt(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            signal.pthread_kill(self._program, signal.SIGINT)
            if self._ended.wait(AGAIN_SECONDS):
                return
        if not self._ends_process:
            return
        # what Python writes to may be elsewhere
        os.write(2, _GOES_ON.format(seconds=PATIENCE_SECONDS).encode())
        os._exit(2)

    def _interrupted(self, number: int, frame: Any) -> None:
        if not self._enough:
            signal.default_int_handler(number, frame)
        if self._inside:
            raise Enough
