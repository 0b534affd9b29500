"""Runs a program as a shell would, and looks at its loops until one of them has made enough steps.

In: a program. Out: a `Diagnosis` of the loop that took most of the time.

A thread looks at the loops. When it has seen enough it interrupts the program as Ctrl-C does, so that whatever the program and
its loops do then is what they do for a user.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InUseError, ProgramError
from ...loader.timing.listeners import listening
from ..programs import Program, as_module, loaders_in
from .diagnose import Looks, diagnose
from .diagnosis import Diagnosis
from .measuring import Lock, closely, host_of, measured, of_all_loops

LOOK_SECONDS = 0.05  # Between two looks at the loops. Chosen: a few steps of most programs
SHORT_LOOPS = 3  # So many are seen at least, where no loop makes enough steps by itself
AGAIN_SECONDS = 3.0  # After which a program that goes on in spite of it is interrupted again
PATIENCE_SECONDS = 60.0  # After which a program that still goes on is ended. Chosen: time to save a checkpoint


class Enough(KeyboardInterrupt):
    """Enough was seen of the program."""


class Loops:
    """The loops that a program began.

    They are kept until the program ends. Most have ended by then; one that was left stays as it is, with its workers, until
    it is closed here.
    """

    def __init__(self, steps: int, *, expected: bool = True) -> None:
        self._steps, self._expected = steps, expected
        self._all: list[Looks] = []

    def begins(self, loop: Any) -> None:
        """A loop begins; called on its thread."""
        closely(loop)
        if not any(known.loop is loop for known in self._all):
            self._all.append(Looks(loop, self._steps))

    def stepped(self) -> bool:
        return any(each.steps for each in self._all)

    def have_enough(self) -> bool:
        """One has made the steps that are wanted; where none are expected, the first one is enough."""
        if (not self._expected and self.stepped()) or any(each.have_enough() for each in self._all[:]):
            return True
        alike = [each for each in self._all if each.alike(self._all[-1])]  # short loops over one loader
        return len(alike) > SHORT_LOOPS and sum(each.steps for each in alike) >= self._steps

    def close(self) -> None:
        """The program has ended: nobody reads any more, while the source is asked how fast it is."""
        for each in self._all:
            with suppress(InUseError):  # a thread of the program goes on
                each.loop.close()

    def of_users(self) -> list[Looks]:
        """The loops that made a step; a feeder, and not the loop that it feeds from."""
        inner = {id(host_of(each.loop)) for each in self._all if each.loop is not host_of(each.loop)}
        return [each for each in self._all if id(each.loop) not in inner and each.steps]


def diagnosed_program(
    program: Program, arguments: Sequence[str], steps: int, seconds: float, step_seconds: float | None = None
) -> Diagnosis:
    """Judge the steps of a program; if it makes none, its only loader, alone or beside `step_seconds`.

    Raises:
        ProgramError: the program fails, has no loop and no loader, makes no step in time, or makes steps of its own beside
            `step_seconds`.
    """
    loops, lock = Loops(steps, expected=step_seconds is None), Lock()
    with as_module(program.path, "__main__", arguments) as own:
        with listening(loops.begins), lock.watched():
            interrupted = _UntilEnough(loops, seconds).run(partial(program.execute, own))
        if not loops.stepped():
            if interrupted:
                raise ProgramError(_NO_STEP.format(program=program.path, seconds=seconds))
            known = loaders_in(vars(own))
            if len(known) == 1:
                return diagnose(vars(own)[known[0]], steps=steps, step_seconds=step_seconds, seconds=seconds)
            raise ProgramError(_NO_LOOP.format(program=program.path, name=known[-1] if known else "name"))
    if step_seconds is not None:
        raise ProgramError(_OWN_STEPS.format(program=program.path, seconds=step_seconds))
    users = loops.of_users()
    longest = max(users, key=lambda each: float(each.loop.snapshot().elapsed))
    looks, wholes = longest.best(), [each.whole() for each in users if each.alike(longest)]
    loops.close()
    found = measured(longest.loop, *looks, lock, step_known=True)
    found = of_all_loops(found, wholes) if len(wholes) > 1 else found
    return Diagnosis.of(replace(found, loops=len(users)))


_NO_STEP = (
    "{program} took no batch from a loader of headrace in {seconds:g} s; pass --seconds, or name one: {program}:name."
)

_NO_LOOP = (
    "{program} ran to its end and took no batch from a loader of headrace; pass the name of a loader in it, or of a function "
    "that makes one: {program}:{name}."
)

_OWN_STEPS = (
    "{program} makes its own steps, which take what they take: --step-seconds {seconds:g} has no effect on them. Leave it "
    "out; or name a loader to measure alone: {program}:name."
)

_GOES_ON = (
    "headrace: the program goes on, {seconds:g} s after it was interrupted as by Ctrl-C; let KeyboardInterrupt end it, or "
    "name a loader in it: PROGRAM.py:name.\n"
)


class _UntilEnough:
    """Runs a program until its loops have made enough steps, or for `seconds`.

    A thread looks, and interrupts the program. Whenever that comes, nobody takes it for somebody's Ctrl-C: before the end of
    the program it is `Enough`, after it nothing. One that goes on in spite of it is ended at last with the process, as
    nothing else ends it.
    """

    def __init__(self, loops: Loops, seconds: float) -> None:
        self._loops = loops
        self._late = time.monotonic() + seconds
        self._program = threading.get_ident()  # the thread that runs it
        self._enough = self._inside = False
        self._ended = threading.Event()

    def run(self, program: Callable[[], None]) -> bool:
        """Run it; True: it was interrupted."""
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
        except ProgramError:  # it caught the interrupt, and says by its exit status that it was stopped
            if not self._enough:
                raise
        finally:
            self._ended.set()
            thread.join()
            signal.signal(signal.SIGINT, former)
        return self._enough

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._enough = self._loops.have_enough() or time.monotonic() > self._late
            if self._enough:
                self._interrupt()
                return

    def _interrupt(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            signal.pthread_kill(self._program, signal.SIGINT)
            if self._ended.wait(AGAIN_SECONDS):
                return
        os.write(2, _GOES_ON.format(seconds=PATIENCE_SECONDS).encode())  # what Python writes to may be elsewhere
        os._exit(2)

    def _interrupted(self, number: int, frame: Any) -> None:
        if not self._enough:
            signal.default_int_handler(number, frame)
        if self._inside:
            raise Enough
