"""Runs a program as a shell would, and looks at its loops until one of them has made enough steps.

In: a program. Out: a `Diagnosis` of the loop that took most of the time.

A thread looks at the loops. When it has seen enough it interrupts the program as Ctrl-C does, so that whatever the program and
its loops do then is what they do for a user.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import ProgramError
from ...loader.observing.listeners import listening
from ...wording import first_few
from ..programs import Program, as_module, loaders_in
from .diagnose import Looks, diagnose
from .diagnosis import Diagnosis
from .measuring import Lock, closely, host_of, measured, steps_of

LOOK_SECONDS = 0.05
"""Between two looks at the loops. Chosen: a few steps of most programs."""

AGAIN_SECONDS = 3.0
"""After which a program that goes on in spite of it is interrupted again."""


class Enough(KeyboardInterrupt):
    """Enough was seen of the program."""


class Loops:
    """The loops that a program began.

    They are kept until the program ends. Most have ended by then; one that was left stays as it is, with its workers.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._all: list[Looks] = []

    def begins(self, loop: Any) -> None:
        """A loop begins; called on its thread."""
        closely(loop)
        if not any(known.loop is loop for known in self._all):
            self._all.append(Looks(loop, self._steps))

    def stepped(self) -> bool:
        """Whether one made a step."""
        return any(steps_of(each.loop) for each in self._all)

    def have_enough(self) -> bool:
        """Whether one has made as many steps as are wanted."""
        return any(each.have_enough() for each in self._all[:])

    def longest(self) -> Looks:
        """That of the loop that took most of the time; what feeds from another one stands for both."""
        inner = {id(host_of(each.loop)) for each in self._all if each.loop is not host_of(each.loop)}
        users = [each for each in self._all if id(each.loop) not in inner]
        return max(users, key=lambda each: float(each.loop.stats().elapsed))


def diagnosed_program(program: Program, arguments: Sequence[str], steps: int, seconds: float) -> Diagnosis:
    """What the steps of a program wait for; if it makes none, how fast its only loader is.

    Raises:
        ProgramError: the program fails, has no loop and no loader, or makes no step in time.
    """
    loops, lock = Loops(steps), Lock()
    with as_module(program.path, "__main__", arguments) as own:
        with listening(loops.begins), lock.watched():
            interrupted = _run_until_enough(partial(program.execute, own), loops, seconds)
        if not loops.stepped():
            if interrupted:
                raise ProgramError(_NO_STEP.format(program=program.path, seconds=seconds))
            return _of_only_loader(program, vars(own), steps, seconds)
    longest = loops.longest()
    return Diagnosis.of(measured(longest.loop, *longest.best(), lock, step_known=True))


_NO_STEP = (
    "{program} took no batch from a loader of millrace in {seconds:g} s; pass --seconds, or name one: {program}:name."
)


def _of_only_loader(program: Program, names: Mapping[str, Any], steps: int, seconds: float) -> Diagnosis:
    known = loaders_in(names)
    if len(known) == 1:
        return diagnose(names[known[0]], steps=steps, seconds=seconds)
    raise ProgramError(
        f"{program.path} ran to its end and took no batch from a loader of millrace; pass the name of a loader in it, or of a "
        f"function that makes one: {program.path}:{first_few(known, 1) if known else 'name'}."
    )


def _run_until_enough(run: Callable[[], None], loops: Loops, seconds: float) -> bool:
    """Run a program until its loops have made enough steps, or for so many seconds; whether it was interrupted then.

    The interrupt is taken for Ctrl-C by nobody, whenever it comes: before, it is none; after the program, it does nothing.
    """
    ended, late = threading.Event(), time.monotonic() + seconds
    enough = inside = False

    def look() -> None:
        nonlocal enough
        while not ended.wait(LOOK_SECONDS):
            enough = enough or loops.have_enough() or time.monotonic() > late
            if enough:
                signal.pthread_kill(main, signal.SIGINT)
                ended.wait(AGAIN_SECONDS)

    def interrupted(number: int, frame: Any) -> None:
        if not enough:
            signal.default_int_handler(number, frame)
        if inside:
            raise Enough

    main = threading.get_ident()
    thread = threading.Thread(target=look, name="millrace-bench", daemon=True)
    former = signal.signal(signal.SIGINT, interrupted)
    thread.start()
    try:
        try:
            inside = True
            run()
        finally:
            inside = False
    except Enough:
        return True
    except ProgramError:  # it caught the interrupt, and says by its exit status that it was stopped
        if not enough:
            raise
        return True
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, former)
    return False
