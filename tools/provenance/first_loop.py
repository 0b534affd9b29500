"""Runs a program as a shell would, up to its first loop over a loader.

In: a program, and its arguments. Out: the iterator or feeder of that loop, which has not begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import ProgramError
from ...loader.timing.listeners import listening
from ..programs import Program


class FirstLoop(BaseException):
    """A loop would begin: what was wanted is there. No `except Exception` of a program's takes it."""


@contextmanager
def first_loop(program: Program, arguments: Sequence[str]) -> Iterator[Any]:
    """Within it the loop can be asked; it is closed at the end.

    Raises:
        ProgramError: the program fails before, or has no loop.
    """
    loop = _found(program, arguments)
    try:
        yield loop
    finally:
        loop.close()


def _found(program: Program, arguments: Sequence[str]) -> Any:
    loops: list[Any] = []

    def begins(loop: Any) -> None:
        loops.append(loop)
        raise FirstLoop

    try:
        with listening(begins), program.run("__main__", arguments):
            pass
    except (FirstLoop, ProgramError):
        if not loops:
            raise
    if not loops:
        raise ProgramError(
            f"{program.path} ran to its end and took no batch from a loader of headrace; name a loader in it."
        )
    return loops[0]
