"""The rows that Grain delivered inside flat maps, from the counts in its state.

In: a pipeline, the record from which the flat maps began, and how many elements each gave since. Out: the record that they
had reached, and the number of its rows that were delivered.

Each flat map of Grain counts what it gave of its element, and the state says where that was read. So the count of the first one
begins at the record; the count of each later one at what the former gave next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loader.plan.pipeline import Pipeline
from ..operations.protocol import Context, Step
from ..sources import reader_of


class _Counts:
    """Elements that each flat map gave and that are still to be seen, from the first to the last."""

    def __init__(self, given: Sequence[int]) -> None:
        self._left = list(given)
        self._at = 0
        self._pass_by()

    @property
    def are_reached(self) -> bool:
        return self._at == len(self._left)

    def after(self, number: int, then: Step) -> Step:
        """The step that counts what a flat map gives, when it has become rows."""

        def counting_step(element: Any) -> None:
            then(element)
            if number == self._at:
                self._left[number] -= 1
                self._pass_by()

        return counting_step

    def _pass_by(self) -> None:
        while not self.are_reached and not self._left[self._at]:
            self._at += 1


def reached_by(pipeline: Pipeline, start: int, given: Sequence[int]) -> tuple[int, int]:
    """The local position of the record, or of a batch of them, in which flat maps have given so much; and its rows so far.

    Records are read from the start on, and run through the operations, until that is so: mostly one of them.

    Args:
        pipeline: whose first stage has as many flat maps.
        start: local position of the first record.
        given: by each flat map, from the first to the last.
    """
    stage, leaf, counts = pipeline.stages[0], pipeline.leaf, _Counts(given)
    rows, flat_maps, context = 0, len(given), Context(seed=leaf.sampler.seed or 0)

    def count_row(_: Any) -> None:
        nonlocal rows
        rows += not counts.are_reached

    step: Step = count_row
    for number, operation in reversed([*enumerate(stage.operations, stage.first)]):
        if operation.method == "flat_map":
            flat_maps -= 1
            step = counts.after(flat_maps, step)
        step = operation.connect(step, context, number)
    read = reader_of(leaf.source)
    for first in range(start, leaf.total, stage.unit):
        rows = 0
        positions = leaf.positions(first, min(first + stage.unit, leaf.total))
        context.most = len(positions)
        for context.position, element in zip(positions.tolist(), read(leaf.record_keys(positions))):
            step(element)
        for finish in reversed(context.at_end):
            finish()
        if counts.are_reached:
            return first, rows
    return leaf.total, 0
