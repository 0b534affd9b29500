"""Puts the stages of a running pipeline together.

In: a pipeline, the cursor to start from, an executor. Out: elements in order, each with where it comes from.

    spans → Ordered → RowRuns  [→ Regroup → Ordered → RowRuns  for every further stage]  → elements
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Any

from ..executors.protocol import Executor
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.ranges import Ranges, kept
from ..plan.stages import Stage, spans
from ..stats import Waits
from ..work.tasks import SpanTask
from .ordered import results
from .pull import Ended, FromIterator, Pull
from .regroup import Regroup
from .requests import Request, SpanRequest
from .row_runs import RowRuns
from .rows import RowRun
from .skipped import SkippedRecords


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
        self._runs = self._rows(pipeline.stages[-1], start, unread)

    def _rows(self, stage: Stage, start: Cursor, unread: Ranges) -> RowRuns:
        """The rows that come out of a stage, which begins at a cursor."""
        if stage.leaf is not None:
            requests: Pull[Request] = FromIterator(self._spans(stage, stage.leaf, start.positions[0], unread))
        else:
            before = Cursor(start.positions, start.skips[:-1])
            inputs = self._rows(self._pipeline.stages[stage.number - 1], before, unread)
            requests = Regroup(inputs, stage, before, self._whole)
        results_ = results(requests, self._executor, stage.number)
        return RowRuns(results_, self._pipeline, stage, start, self._skipped)

    def _spans(self, stage: Stage, leaf: int, start: int, unread: Ranges) -> Iterator[SpanRequest]:
        total = start + stage.useful(self._pipeline.leaves[leaf].left_from(start))
        length, unit = self._pipeline.span, stage.unit
        parts = (spans(*part, length, lambda: self._executor.units) for part in kept(unread, start, total))
        for span in chain.from_iterable(parts):
            yield SpanRequest(SpanTask(stage.number, *span), leaf, unit)

    def begin(self) -> None:
        """Have work begin ahead of the first element, without waiting."""
        self._runs.fill()

    def __iter__(self) -> Generator[tuple[Any, RowRun, int], None, None]:
        """Elements, each with its run and its row there, which know the cursor that follows it.

        Raises what a task failed with, at its place in the stream.
        """
        while True:
            began = time.perf_counter()
            run = self._runs.next(wait=True)
            self._waits.note(began, time.perf_counter())
            if isinstance(run, RowRun):
                for row in range(run.start, run.stop):
                    yield run.take(row), run, row
            else:
                assert isinstance(run, Ended)
                if run.failure is not None:
                    raise run.failure.error
                return
