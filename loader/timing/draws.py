"""Find operations that draw random numbers from global generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...common.generators.global_random import states
from ...operations.protocol import Element, Step

# Chosen: so many checks take less than a millisecond.
LOOKS = 24
"""Number of times that the generators' states are compared, in a worker's first task of a stage."""

NAMES = ("Python's `random`", "`np.random`", "`torch`")


class DrawWatch:
    """Finds operations that draw from global random generators.

    The states of the generators are compared before and after some calls of operations: `LOOKS`
    comparisons, in a worker's first task of a stage (operations that run in one task).
    """

    def __init__(self) -> None:
        self._left = LOOKS
        self._before: tuple[Any, ...] = ()
        self._drew: dict[int, str] = {}

    def around(self, step: Step, place: int) -> Step:
        """Wrap an operation, to detect whether it draws from a global random generator.

        The states of the global generators (Python's, NumPy's and torch's) are compared before and
        after each call of the operation. A change before the call is attributed to the previous
        operation, a change during the call to this operation.

        Args:
            step: function that processes an element with the operation.
            place: index of the operation in its stage (operations that run in one task).
        """

        def watched(element: Element) -> None:
            if self._left > 0:
                self._look(place - 1)
            step(element)
            if self._left > 0:
                self._look(place)

        return watched

    def begin(self, inputs: Iterator[Any]) -> None:
        self._before = _comparable()

    def end(self, inputs: int, tag_of: Callable[[int], int]) -> None:
        self._left = 0

    def _look(self, place: int) -> None:
        self._left -= 1
        now = _comparable()
        for name, before, after in zip(NAMES, self._before, now):
            if before != after and before != b"":  # what was just loaded was not drawn from
                self._drew.setdefault(place, name)
        self._before = now

    def take(self, operations: int) -> list[tuple[int, str]]:
        """Return which operations drew from global random generators, and forget these findings.

        Args:
            operations: number of operations of the stage (operations that run in one task). Only
                findings with an index below this number are returned.

        Returns:
            a list of pairs: an operation's index, and the name of the generator from which it drew.
        """
        drew, self._drew, self._left = self._drew, {}, 0
        return [(place, name) for place, name in sorted(drew.items()) if 0 <= place < operations]


def _comparable() -> tuple[Any, ...]:
    pythons, numpys, torchs = states()
    return pythons, b"" if numpys is None else _of_numpy(numpys), _bytes(torchs)


def _of_numpy(state: Any) -> Any:
    return _of_twister(state) if "key" in state["state"] else repr(state)


def _of_twister(state: Any) -> tuple[Any, ...]:
    inner = state["state"]
    return inner["key"].tobytes(), inner["pos"], state.get("has_gauss"), state.get("gauss")


def _bytes(state: Any) -> bytes:
    return b"" if state is None else bytes(np.asarray(state).data)
