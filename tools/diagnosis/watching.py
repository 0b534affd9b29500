"""Run a program as a shell would, and watch its loops until one of them has made enough steps.

The result is a `Diagnosis` of the loop that took most of the time. A thread watches. When it has
measured enough, it interrupts the program as Ctrl-C does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InUseError, ProgramError
from ...loader.timing.listeners import listening
from ..programs import Program, as_module, loaders_in
from .diagnose import Looks, diagnose
from .diagnosis import Diagnosis
from .hang_notes import HangNotes
from .interrupting import UntilEnough
from .measuring import Lock, closely, host_of, measured, of_all_loops, tell_of_hangs

SHORT_LOOPS = (
    3  # if no loop makes enough steps, more than this number of loops over one loader are measured
)


class Loops:
    """The loops that a program has begun, kept until the program ends.

    Most have ended by then. A loop that the program left open keeps its workers until it is closed
    here.

    Args:
        steps: number of steps to measure.
        seconds: largest number of seconds to measure.
        expected: True if the program is expected to make steps of its own.
    """

    def __init__(self, steps: int, seconds: float, *, expected: bool = True) -> None:
        self._steps, self._seconds, self._expected = steps, seconds, expected
        self._all: list[Looks] = []

    def begins(self, loop: Any) -> None:
        """Add a loop when it begins.

        Set its options to time every task and to report tasks that take too long.

        Called on the thread of the loop.
        """
        closely(loop)
        tell_of_hangs(loop, self._seconds)
        if not any(known.loop is loop for known in self._all):
            self._all.append(Looks(loop, self._steps))

    def stepped(self) -> bool:
        """Return True if any loop has made a step."""
        return any(each.steps for each in self._all)

    def have_enough(self) -> bool:
        """Return True if enough steps were measured, in one or several loops over a loader.

        If the program is not expected to make steps, the first step is enough.
        """
        if (not self._expected and self.stepped()) or any(
            each.have_enough() for each in self._all[:]
        ):
            return True
        # short loops over one loader
        alike = [each for each in self._all if each.alike(self._all[-1])]
        return len(alike) > SHORT_LOOPS and sum(each.steps for each in alike) >= self._steps

    def close(self) -> None:
        """Close all loops after the program has ended.

        None of them must read while the source is measured.
        """
        for each in self._all:
            with suppress(InUseError):  # a thread of the program goes on
                each.loop.close()

    def of_users(self) -> list[Looks]:
        """Return the observations of the loops that delivered at least one batch to the program.

        A loader's loop from which a device feeder reads is left out, because the feeder's loop is
        observed.
        """
        inner = {
            id(host_of(each.loop)) for each in self._all if each.loop is not host_of(each.loop)
        }
        return [each for each in self._all if id(each.loop) not in inner and each.steps]


def diagnosed_program(
    program: Program,
    arguments: Sequence[str],
    steps: int,
    seconds: float,
    step_seconds: float | None = None,
) -> Diagnosis:
    """Run a program, and return the diagnosis of its steps.

    If the program makes no steps, its only loader is measured alone, or with `step_seconds` for a
    step.

    Args:
        program: the program.
        arguments: its command line arguments.
        steps: number of steps to measure.
        seconds: largest number of seconds to measure.
        step_seconds: duration of a step, if the program makes none; None: unknown.

    Raises:
        ProgramError: the program fails; or has no loop and not exactly one loader; or makes no step
            in time, or too few; or makes its own steps although `step_seconds` is given.
    """
    loops, lock = Loops(steps, seconds, expected=step_seconds is None), Lock()
    with as_module(program.path, "__main__", arguments) as own:
        with listening(loops.begins), lock.watched(), HangNotes() as hangs:
            interrupted = UntilEnough(loops.have_enough, seconds).run(partial(program.execute, own))
        if not loops.stepped():
            if interrupted:
                no_step = _NO_STEP.format(program=program.path, seconds=seconds) + hangs.sentence
                raise ProgramError(no_step)
            known = loaders_in(vars(own))
            if len(known) == 1:
                return diagnose(
                    vars(own)[known[0]], steps=steps, step_seconds=step_seconds, seconds=seconds
                )
            raise ProgramError(
                _NO_LOOP.format(program=program.path, name=known[-1] if known else "name")
            )
    if step_seconds is not None:
        raise ProgramError(_OWN_STEPS.format(program=program.path, seconds=step_seconds))
    users = loops.of_users()
    longest = max(users, key=lambda each: float(each.loop.snapshot().elapsed))
    looks, wholes = longest.best(), [each.whole() for each in users if each.alike(longest)]
    loops.close()
    found = measured(longest.loop, *looks, lock, step_known=True)
    found = of_all_loops(found, wholes) if len(wholes) > 1 else found
    return Diagnosis.of(replace(found, loops=len(users), hangs=hangs.sentence.strip()))


_NO_STEP = (
    "{program} took no batch from a loader of headrace in {seconds:g} s; pass a larger --seconds, "
    "or name a loader: {program}:name."
)

_NO_LOOP = (
    "{program} ran to its end and took no batch from a loader of headrace; pass the name of a "
    "loader in it, or of a function that makes one: {program}:{name}."
)

_OWN_STEPS = (
    "{program} makes its own steps, so --step-seconds {seconds:g} has no effect on them. Leave it "
    "out; or name a loader to measure alone: {program}:name."
)
