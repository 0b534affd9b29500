"""Find operations of a stage (operations that run in one task) that draw from global random generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...common.generators.global_random import states
from ...operations.protocol import Element, Step

# Chosen: the draws of some records take less than a millisecond.
LOOKS = 24
"""Number of checks of the generators in a worker's first task of a stage (operations that run in one task)."""

NAMES = ("Python's `random`", "`np.random`", "`torch`")


class DrawWatch:
    """Finds operations that draw from global random generators: it compares the generators' states around calls."""

    def __init__(self) -> None:
        self._left = LOOKS
        self._before: tuple[Any, ...] = ()
        self._drew: dict[int, str] = {}

    def around(self, step: Step, place: int) -> Step:
        """Wrap the step of operation `place` (an index in the stage) with checks of the generators' states.

        A change before the step is charged to the operation before it, a change during the step to
        the step's own operation.
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
        """Return (index, generator's name) of each of the first `operations` operations that drew numbers."""
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
