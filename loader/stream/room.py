"""Says that a batch has no room in memory before its rows are gathered: when the first one is known.

In: runs of rows that are to become batches. Out: the same runs, or a failure in place of the first one.
"""

from __future__ import annotations

import sys

from ...errors import BatchMemoryError
from ...operations.protocol import allocate_plainly
from ...operations.stacking import Layout
from ...operations.trees import flatten
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.explain import explained, name_of
from ..work.stacked_rows import StackedRows
from ..work.tasks import Failure
from .pull import Ended, Pull
from .rows import Rows

MIN_ROWS = 1024
"""Batches of fewer rows are not looked at: these are soon gathered. Chosen."""


class WithRoom:
    """The rows that come to a `Batch` of `size` rows, the operation `number`; `name` tells it."""

    def __init__(self, runs: Pull[Rows], size: int, name: str) -> None:
        self._runs = runs
        self._size = size
        self._name = name
        self._looked = False

    def next(self, wait: bool) -> Rows | Ended | None:
        """The next rows; a failure where there is no memory for a batch of rows like the first one."""
        run = self._runs.next(wait)
        if self._looked or run is None or isinstance(run, Ended):
            return run
        self._looked = True
        try:
            _take_memory(_first_of(run), self._size)
        except BatchMemoryError as error:
            return Ended(Failure(explained(error, "for want of memory", self._name)))
        return run


def _first_of(run: Rows) -> object:
    (numbered, start, _), *_ = run.of_blocks(run.start, run.start + 1)[0]
    elements = numbered.block.elements
    return next(elements.elements(start, start + 1)) if isinstance(elements, StackedRows) else elements[start]


def _take_memory(row: object, size: int) -> None:
    """Take the memory of a batch of rows like this one, and let go of it: no page of it is written."""
    try:
        leaves, structure = flatten(row)
        layout = Layout(size, leaves, structure)
    except Exception:  # what is wrong with the row, the batch tells
        return
    layout.begin(structure, allocate_plainly)


def with_room(runs: Pull[Rows], pipeline: Pipeline, stage: Stage, start: Cursor) -> Pull[Rows]:
    """Rows that come to a stage; looked at, if it begins with a plain `Batch` and it is known how many it will get."""
    batch = stage.operations[0]
    size = min(batch.takes or 1, _rows_to_come(pipeline, stage, start)) if batch.only_stacks else 0
    return WithRoom(runs, size, name_of(pipeline, stage.first)) if size >= MIN_ROWS else runs


def _rows_to_come(pipeline: Pipeline, stage: Stage, start: Cursor) -> int:
    """The least number of rows that will come to a stage; 0 if it is not known."""
    below = stage.input
    assert below is not None, "rows are the input"
    leaves, joins = pipeline.leaves[below.leaves], pipeline.joins[below.joins]
    if any(leaf.in_order for leaf in leaves) or any(join.rule.limits for join in joins):
        return 0
    if all(leaf.endless for leaf in leaves):
        return sys.maxsize
    stages = [pipeline.stages[number] for number in below.stages]
    if joins or not all(one.one_to_one and not one.groups for one in stages):
        return 0
    return leaves[0].left_from(start.positions[0])
