"""Divide ordered rows into groups: the inputs of one or several outputs of the next stage.

A stage is a group of operations that run in one task. In: consecutive rows. Out: a request for each
group of rows; the last group may be smaller. Rows are only counted, with one exception: the first
row of a large batch is used to check that there is memory for the batch. The stream fails in two
cases: if there is not enough memory; or if a whole stream has too few rows for one group, and
groups that are not full are dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...errors import BatchMemoryError, EmptyStreamError
from ...operations.protocol import allocate_plainly
from ...operations.stacking import Layout
from ...operations.trees import flatten
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.explain import explained, name_of
from ..work.stacked_rows import StackedRows
from ..work.tasks import Failure, GroupTask
from .provenance import Provenance
from .rows import BlockRows, Pull, Request, Rows, RowsOf, StreamEnd

# Chosen: fewer rows are soon gathered.
MIN_ROWS = 1024
"""Batches with fewer rows are not checked for memory."""


@dataclass
class Regroup(Pull[Request]):
    """Divides rows into groups for the tasks of a stage, and supplies a request for each group.

    A stage is the operations that run in one task. If a stage makes each output of a single row,
    groups may have different numbers of rows: a state then counts the outputs since the beginning
    of a group.

    Attributes:
        runs: supply of the rows.
        pipeline: the pipeline.
        stage: the stage.
        start: cursor (place in the stream) before the next group.
        size: function that returns the number of rows of the next group.
        whole: True if the rows are all rows of a whole stream, which must not be empty.
        former: number, from 1, of the shard of an earlier run to which the rows belong; 0 for this
            shard.
        prompt: True: a group of whole outputs is supplied before the supply waits for more rows.
            This is needed if a source may wait until it grows.
    """

    runs: Pull[Rows]
    pipeline: Pipeline
    stage: Stage
    start: Cursor  # of the group
    size: Callable[[], int]
    whole: bool
    former: int
    prompt: bool
    _wanted: int = 0
    _stop: Cursor | None = None  # after the rows of the group
    _run: Rows | None = None
    _used: int = 0
    _parts: list[RowsOf] = field(default_factory=list)
    _count: int = 0
    _looked: bool = False  # for memory
    _ended: StreamEnd | None = None

    def next(self, wait: bool) -> Request | StreamEnd | None:
        self._wanted = self._wanted or self.size()
        while self._count < self._wanted:
            if self._run is None:
                ready = self.prompt and self._count > 0 and self._count % self.stage.unit == 0
                run = self._ended or self.runs.next(wait and not ready)
                if not self._looked and isinstance(run, Rows):
                    run, self._looked = self._with_room(run), True
                if run is None and ready and wait:
                    self._wanted = self._count
                    break
                if run is None:
                    return None
                if isinstance(run, StreamEnd):
                    self._ended = run
                    return run if self._count == 0 else self._last(run)
                self._run, self._used = run, run.start
            self._take(self._run)
        return self._group()

    def _with_room(self, run: Rows) -> Rows | StreamEnd:
        """Check that there is memory for a batch of rows like the first row of `run`.

        Return `run` if there is enough memory, otherwise the end of the stream with a failure.
        """
        batch = self.stage.operations[0]
        rows = (
            min(batch.takes or 1, _rows_to_come(self.pipeline, self.stage, self.start))
            if batch.only_stacks
            else 0
        )
        if rows < MIN_ROWS:
            return run
        (numbered, start, _), *_ = run.of_blocks(run.start, run.start + 1)[0]
        elements = numbered.block.look()
        first = (
            next(elements.elements(start, start + 1))
            if isinstance(elements, StackedRows)
            else elements[start]
        )
        try:
            _take_memory(first, rows)
        except BatchMemoryError as error:
            return StreamEnd(
                Failure(
                    explained(error, "for want of memory", name_of(self.pipeline, self.stage.first))
                )
            )
        return run

    def _last(self, ended: StreamEnd) -> Request | StreamEnd:
        """Return the request for the last group, which is not full.

        If the group is dropped, return `ended`, the end of the rows. If a whole stream has too few
        rows for one batch, return an end of the rows with a failure.
        """
        if ended.failure is not None:
            return ended if self.stage.groups else self._group()
        useful = self.stage.useful(self._count)
        if useful > 0:
            self._cut(useful)
            return self._group()
        operation, count = self.stage.starved(self._count)
        if not (self.whole and operation.needs_one):
            return ended
        return StreamEnd(
            Failure(
                EmptyStreamError(
                    f"the stream is empty: only {count} rows were made for a batch of "
                    f"{operation.takes}, and drop_remainder=True drops them. Pass a smaller "
                    "batch_size, or drop_remainder=False."
                )
            )
        )

    def _cut(self, count: int) -> None:
        while self._count > count:
            run, start, stop = self._parts.pop()
            over = min(self._count - count, stop - start)
            self._count -= over
            if over < stop - start:
                self._parts.append((run, start, stop - over))

    def _take(self, run: Rows) -> None:
        stop = min(run.stop, self._used + self._wanted - self._count)
        self._parts.append((run, self._used, stop))
        self._count += stop - self._used
        self._used = stop
        self._stop = run.origin.cursor_after(stop - 1)
        if stop == run.stop:
            self._run = None

    def _group(self) -> Request:
        parts, start, stop = self._parts, self.start, self._stop
        assert stop is not None, "a group has rows"
        self.start, self._parts, self._count, self.whole, self._wanted = stop, [], 0, False, 0
        rows, order = _of_blocks(parts)
        first, at, _ = parts[0]
        ranges = tuple((block.number, begin, end) for block, begin, end in rows)
        task = GroupTask(self.stage.number, ranges, order, first.number + at, self.former)
        inputs = tuple((run.origin, begin, end) for run, begin, end in parts)
        origin = Provenance(self.stage, start, stop, inputs=inputs)
        return Request(task, origin, {block.number: block.block for block, _, _ in rows})


def _of_blocks(parts: list[RowsOf]) -> tuple[list[BlockRows], bytes | None]:
    """Describe rows by ranges of rows inside blocks, and by their order within these ranges.

    A block is the rows that one task made.

    Returns:
        a list of the ranges; and, as the bytes of an `int32[rows]`, the index of each row among all
        rows of the ranges. The second result is None if the rows are in the order of the ranges.
    """
    found: list[BlockRows] = []
    orders: list[NDArray[np.int64]] = []
    done, as_they_stand = 0, True
    for run, start, stop in parts:
        blocks, order = run.of_blocks(start, stop)
        found += blocks
        as_they_stand = as_they_stand and order is None
        orders.append((np.arange(stop - start) if order is None else order) + done)
        done += stop - start
    return found, None if as_they_stand else np.concatenate(orders).astype(np.int32).tobytes()


def _take_memory(row: object, size: int) -> None:
    """Check that there is memory for a batch of `size` rows like `row`: allocate and release it.

    The memory is not written.

    Raises:
        BatchMemoryError: if there is not enough memory.
    """
    try:
        leaves, structure = flatten(row)
        layout = Layout(size, leaves, structure)
    except Exception:  # what is wrong with the row, the batch tells
        return
    layout.begin(structure, allocate_plainly)


def _rows_to_come(pipeline: Pipeline, stage: Stage, start: Cursor) -> int:
    """Return a lower bound of the number of rows that a stage gets after a cursor; 0 if unknown.

    A stage is the operations that run together in one task. A cursor is a place in the stream. It
    is assumed that no record is skipped.
    """
    below = stage.input
    assert below is not None, "rows are the input"
    leaves, joins = pipeline.leaves[below.leaves], pipeline.joins[below.joins]
    if any(leaf.in_order for leaf in leaves) or any(join.rule.limits for join in joins):
        return 0
    if all(leaf.endless for leaf in leaves):
        return sys.maxsize
    stages = [pipeline.stages[number] for number in below.stages]
    counts = not joins and all(one.one_to_one and not one.groups for one in stages)
    return leaves[0].left_from(start.positions[0]) if counts else 0
