"""Find the record that Grain had reached inside flat maps, from the counts in Grain's state.

In: a pipeline, the record from which the flat maps began, and the number of elements that each flat
map has made since. Out: the record that the flat maps had reached, and how many of its rows were
delivered.

Each flat map of Grain counts the elements that it has made of its current input element. So the
first flat map counts the elements of the record; each later one counts the elements of the last
element of the flat map before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loader.plan.pipeline import Pipeline
from ..operations.protocol import Context, Step
from ..sources import reader_of


class _Counts:
    """Counts down the elements that each flat map gave, from the first flat map to the last.

    Args:
        given: number of elements that each flat map gave.
    """

    def __init__(self, given: Sequence[int]) -> None:
        self._left = list(given)
        self._at = 0
        self._pass_by()

    @property
    def are_reached(self) -> bool:
        return self._at == len(self._left)

    def after(self, number: int, then: Step) -> Step:
        """Return a step that calls `then`, and then counts the element for flat map `number`.

        It is counted only if all flat maps before this one have reached their counts, and this one
        has not.
        """

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
    """Return the record at which the flat maps have made these numbers of elements.

    Records from `start` on are read and run through the operations until the numbers are reached;
    usually this is one record.

    Args:
        pipeline: a pipeline whose first stage has one flat map for each number in `given`.
        start: local position of the first record.
        given: number of elements that each flat map gave, from the first to the last.

    Returns:
        the local position of the record, or of the first record of a batch; and the number of its
        rows delivered so far. If the numbers are not reached, the end of the shard, and 0.
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
    read, hooks = reader_of(leaf.source), context.take_hooks()
    for first in range(start, leaf.total, stage.unit):
        rows = 0
        positions = leaf.positions(first, min(first + stage.unit, leaf.total))
        context.most = len(positions)
        for context.position, element in zip(positions.tolist(), read(leaf.record_keys(positions))):
            step(element)
        for finish in reversed(hooks.at_end):
            finish()
        if counts.are_reached:
            return first, rows
    return leaf.total, 0
