"""Apply operations outside the engine, for random access to a `MapDataset` and planned batches.

In: operations, and consecutive elements with the position of the first. Out: the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .protocol import Context, Operation


class Runner:
    """Applies operations to elements, outside the engine.

    Several threads may call it at the same time. Connected steps of the operations are kept for
    later calls.

    Args:
        operations: the operations, in order.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = tuple(operations)
        self._idle: list[_Steps] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}

    def __call__(
        self,
        elements: Sequence[Any],
        position: int,
        row: int,
        seed: int = 0,
        key: int | None = None,
    ) -> list[Any]:
        """Return the results for consecutive elements.

        Args:
            elements: the elements.
            position: position of the first element. Random numbers depend on it and on `row`.
            row: row of the first element.
            seed: seed of the operations that have no seed of their own.
            key: record key. If an operation fails, a note with the operation and this key is added
                to the exception. None (default): no note.
        """
        try:
            # Not in the list while in use, since an operation's function may call this object.
            steps = self._idle.pop()
        except IndexError:
            steps = _Steps(self._operations)
        try:
            found = steps.run(elements, position, row, seed)
        except Exception as error:
            if key is not None:
                number = steps.context.fault.number if steps.context.fault else 0
                failed = self._operations[number]
                error.add_note(
                    f"headrace: operation {number}, {failed!r}, failed on record key {key}."
                )
            raise
        self._idle.append(steps)  # steps that failed are not used again
        return found


class _Steps:
    """Operations that are connected to each other. Not safe for several threads at a time."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._found: list[Any] = []
        self.context = Context()
        step = self._found.append
        for number, operation in reversed(list(enumerate(operations))):
            step = operation.connect(step, self.context, number)
        self._step = step
        self._at_end = self.context.take_hooks().at_end

    def run(self, elements: Sequence[Any], position: int, row: int, seed: int) -> list[Any]:
        context, step = self.context, self._step
        context.seed, context.position, context.row, context.most = (
            seed,
            position,
            row,
            len(elements),
        )
        for element in elements:
            step(element)
        for finish in self._at_end:
            finish()
        found = self._found.copy()
        self._found.clear()
        return found
