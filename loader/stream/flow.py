"""Puts the stages of a running pipeline together.

In: a pipeline, the cursor to start from, an executor. Out: elements in order, each with where it comes from.

    spans → Ordered → RowRuns  [→ Regroup → Ordered → RowRuns  for every further stage]  → elements
                       └→ JoinedRuns, with those of other inputs ─┘
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Any, TypeAlias

from ..executors.protocol import Executor
from ..plan.cursor import Cursor
from ..plan.joins import Part
from ..plan.pipeline import Pipeline
from ..plan.ranges import Ranges, kept
from ..plan.stages import MIN_SPAN, Stage, spans
from ..stats import Waits
from ..work.tasks import SpanTask
from .in_order import InOrder
from .join import JoinedRuns
from .kept import Keeping, Kept
from .ordered import results
from .pull import Ended, FromIterator, Pull
from .regroup import Regroup
from .requests import Request, Results, SpanRequest
from .row_runs import RowRuns
from .rows import Rows
from .skipped import SkippedRecords

Runs: TypeAlias = RowRuns | JoinedRuns | Keeping | Kept


class Flow:
    """One run of a pipeline, from a cursor on, without the ranges of local positions in `unread`."""

    def __init__(
        self,
        pipeline: Pipeline,
        start: Cursor,
        executor: Executor,
        skipped: SkippedRecords,
        waits: Waits,
        unread: Ranges = (),
    ) -> None:
        self._pipeline = pipeline
        self._executor = executor
        self._skipped = skipped
        self._waits = waits
        self._whole = pipeline.whole_from(start)
        self._unread = unread
        self._block_numbers = count()
        self._kept: dict[int, Sequence[Rows]] = {}  # by the number of the join that keeps them
        self._runs = self._rows(pipeline.top, start)

    def _rows(self, part: Part, start: Cursor, size: int = MIN_SPAN) -> Runs:
        """The rows that come out of a part, which begins at a cursor; of a join, so many at a time."""
        if part.stage is None:
            return self._joined(part, start, size)
        stage = self._pipeline.stages[part.stage]
        if stage.leaf is not None and self._pipeline.leaves[stage.leaf].in_order:
            results_: Results = InOrder(self._pipeline, stage, start, self._executor)
            return RowRuns(results_, self._pipeline.leaves[stage.leaf], start, self._skipped, self._block_numbers)
        if stage.leaf is not None:
            requests: Pull[Request] = FromIterator(self._spans(stage, stage.leaf, start.positions[0]))
        else:
            before = Part(None if stage.join is not None else stage.number - 1, stage.join, part.size)
            inputs = self._rows(before, start.before(), max(stage.group, MIN_SPAN))
            whole = self._whole and (not self._pipeline.joins or stage.number == self._pipeline.top.stage)
            requests = Regroup(inputs, stage, start.before(), whole)
        results_ = results(requests, self._executor, stage.number)
        leaf = self._pipeline.leaf_of(stage)
        return RowRuns(results_, leaf, start, self._skipped, self._block_numbers)

    def _joined(self, part: Part, start: Cursor, size: int) -> Runs:
        assert part.join is not None, "a part ends with a stage or a join"
        join = self._pipeline.joins[part.join]
        sizes = [one.size for one in join.inputs]
        opens = [partial(self._rows, one, size=size) for one in join.inputs]
        starts = self._pipeline.start_of(part).parts(sizes)
        runs = JoinedRuns(opens, start.parts(sizes), starts, join.rule, start.notes[-1], size)
        repeated = any(above.rule.restarts for above in self._pipeline.joins[join.number + 1 :])
        if not join.rule.keeps or not repeated or start != self._pipeline.start_of(part):
            return runs
        if (kept := self._kept.get(join.number)) is not None:
            return Kept(kept)
        return Keeping(runs, lambda rows: self._kept.update({join.number: rows}))

    def _spans(self, stage: Stage, leaf: int, start: int) -> Iterator[SpanRequest]:
        total = start + stage.useful(self._pipeline.leaves[leaf].left_from(start))
        length, unit = self._pipeline.spans[leaf], stage.unit
        units = partial(self._executor.units, stage.number)
        parts = (spans(*part, length, units) for part in kept(self._unread, start, total))
        for span in chain.from_iterable(parts):
            yield SpanRequest(SpanTask(stage.number, *span), leaf, unit)

    def begin(self) -> None:
        """Have work begin ahead of the first element, without waiting."""
        self._runs.fill()

    def __iter__(self) -> Generator[tuple[Any, Rows, int], None, None]:
        """Elements, each with its run and its row there, which know the cursor that follows it.

        Raises what a task failed with, at its place in the stream.
        """
        while True:
            began = time.perf_counter()
            run = self._runs.next(wait=True)
            self._waits.note(began, time.perf_counter())
            assert run is not None, "it was waited for"
            if isinstance(run, Ended):
                if run.failure is not None:
                    raise run.failure.error
                return
            for row in range(run.start, run.stop):
                yield run.take(row), run, row
