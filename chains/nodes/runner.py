"""Apply an operation to elements outside the engine, as random access to a `MapDataset` does.

In: an operation, and consecutive elements with the position of the first. Out: the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...operations import Operation
from ...operations.protocol import Context

Run: TypeAlias = Callable[[Sequence[Any], int, int], list[Any]]
"""Function that takes consecutive elements, and the position and row of the first. It returns the results for them."""


class Runner:
    """Applies an operation to elements, outside the engine. Only one thread at a time may use it."""

    def __init__(self, operation: Operation) -> None:
        self._found: list[Any] = []
        self._context = Context()
        self._step = operation.connect(self._found.append, self._context, 0)
        self._at_end = self._context.take_hooks().at_end

    def __call__(self, elements: Sequence[Any], position: int, row: int) -> list[Any]:
        """Return the operation's results for consecutive elements; `position` and `row` of the first decide random numbers."""
        context, step = self._context, self._step
        context.position, context.row, context.most = position, row, len(elements)
        for element in elements:
            step(element)
        for finish in self._at_end:
            finish()
        found = self._found.copy()
        self._found.clear()
        return found


def run_on_idle(
    operation: Operation, idle: list[Runner], elements: Sequence[Any], position: int, row: int
) -> list[Any]:
    """Apply an operation by a runner that no other thread uses: one of `idle`, or a new one, which becomes one of them."""
    try:
        runner = idle.pop()  # taken out while it runs, since its function may ask the same node for another element
    except IndexError:
        runner = Runner(operation)
    found = runner(elements, position, row)
    idle.append(runner)  # one that failed is not used again
    return found
