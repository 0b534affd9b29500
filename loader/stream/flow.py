"""Puts the stages of a running pipeline together.

In: a pipeline, the cursor to start from, an executor. Out: elements in order, each with the cursor that follows it.

    spans → Ordered → RowRuns  [→ Rebatch → Ordered → RowRuns  for every further segment]  → elements
"""

from __future__ import annotations

import time
from collections.abc import Generator
from itertools import chain
from typing import Any

from ..executors import Executor
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.ranges import Ranges, kept
from ..plan.stages import spans
from ..stats import Waits
from ..work.tasks import Task
from .ahead import Ahead
from .ordered import stage
from .pull import Ended, FromIterator, Pull
from .regroup import Rebatch
from .row_runs import RowRun, RowRuns
from .skipped import SkippedRecords


class Flow:
    """One run of a pipeline, from a cursor on, without the ranges of local positions in `unread`.

    With `ahead`, rows that come from other processes are taken before they are asked for.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        start: Cursor,
        executor: Executor,
        skipped: SkippedRecords,
        waits: Waits,
        unread: Ranges = (),
        ahead: bool = True,
    ) -> None:
        total = start.position + pipeline.segments[0].useful(pipeline.total - start.position)
        tasks: Pull[Task] = FromIterator(
            chain.from_iterable(
                spans(*part, pipeline.span, lambda: executor.units) for part in kept(unread, start.position, total)
            )
        )
        runs = RowRuns(stage(tasks, executor, 0), pipeline, 0, start, skipped)
        whole = (
            pipeline.shard.shard_count == 1 and not pipeline.lineage.layers and not any((start.position, *start.skips))
        )
        for number, segment in enumerate(pipeline.segments[1:], start=1):
            at = Cursor(start.position, start.skips[:number])
            tasks = Rebatch(runs, number, segment, at, whole)
            runs = RowRuns(stage(tasks, executor, number), pipeline, number, start, skipped)
        self._waits = waits
        self._ahead = Ahead(runs) if ahead and executor.elsewhere else None
        self._runs = self._ahead or runs

    def begin(self) -> None:
        """Have work begin ahead of the first element, without waiting."""
        self._runs.fill()

    def close(self) -> None:
        """Stop what was begun here; the executor is its owner's to close."""
        if self._ahead is not None:
            self._ahead.close()

    def __iter__(self) -> Generator[tuple[Any, RowRun, int], None, None]:
        """Elements, each with its run and its place there, which know the cursor that follows it.

        Raises what a task failed with, at its place in the stream.
        """
        while True:
            began = time.perf_counter()
            run = self._runs.next(wait=True)
            self._waits.note(began, time.perf_counter())
            if isinstance(run, RowRun):
                for index in range(run.start, run.stop):
                    yield run.take(index), run, index
            else:
                assert isinstance(run, Ended)
                if run.failure is not None:
                    raise run.failure.error
                return
