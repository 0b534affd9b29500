"""Connect the stages (groups of operations that run in one task) of a pipeline, and run them.

In: a pipeline, the cursor (a place in the stream) to start from, an executor. Out: elements in
order, each with its origin (the records it was made from, and the cursor after it).

    spans → Ordered → StageOutput [→ Regroup → Ordered → StageOutput for each next stage] → elements
                          └→ JoinedRuns, with the rows of other inputs ─┘

Spans are ranges of positions that one task reads each. `Ordered` submits tasks and returns their
results in order; `StageOutput` takes the rows out of the results; `Regroup` divides rows into
groups for the next tasks; `JoinedRuns` merges the rows of several streams.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from ..executors.protocol import Executor
from ..plan.cursor import Cursor, Leftover, Subtree
from ..plan.pipeline import Pipeline
from ..plan.stages import MIN_SPAN, Stage
from ..plan.steps.skipped import Ranges, without
from ..timing.observer import Observer
from ..timing.profiles import profiled
from ..work.tasks import Failure, Units
from .barren import EmptyStreamGuard
from .horizon import DecidedSpans, Horizon
from .join import CacheWriter, JoinedRuns
from .ordered import InOrder, Ordered, Results
from .regroup import Regroup
from .rows import AtHand, Pull, Request, Rows, StreamEnd, span_requests
from .stage_output import SkippedRecords, StageOutput
from .unfinished_runs import UnfinishedRuns


@dataclass(eq=False)
class RowStreams:
    """Opens the rows of a pipeline, or of a part of it, from a cursor (a place in the stream) on.

    Joins (merges of streams) keep this object, to open their inputs again. It has no reference to
    opened streams, so that no reference cycle keeps rows in memory.

    Attributes:
        pipeline: the pipeline.
        start: cursor from which the pipeline is run.
        executor: runs the tasks.
        skipped: counts skipped records.
        observer: gets the times of the work.
        unread: ranges of positions, counted on this shard, that are not read.
        planned: False: groups of rows, and tasks of sources without random access, have a length
            that depends on how long tasks take. True: they have the length from the plan, so that
            all shards divide their rows at the same places without communication.
        horizons: for each leaf (source with its sampler) whose order may change, by its index: an
            object that knows up to which position the order is final.
    """

    pipeline: Pipeline
    start: InitVar[Cursor]
    executor: Executor
    skipped: SkippedRecords
    observer: Observer
    unread: Ranges = ()
    planned: bool = False
    horizons: Mapping[int, Horizon] = field(default_factory=dict)

    def __post_init__(self, start: Cursor) -> None:
        self._whole = self.pipeline.whole_from(start)
        self._block_numbers = count()
        self._kept: dict[int, Sequence[Rows]] = {}  # by the index of the join that keeps them

    def open(self, start: Cursor) -> Pull[Rows]:
        """Return a supply of all rows of the pipeline from a cursor (place in the stream) on."""
        return self._rows(self.pipeline.top, start)

    def _rows(
        self,
        part: Subtree,
        start: Cursor,
        size: int = MIN_SPAN,
        former: int = 0,
        most: int | None = None,
    ) -> Pull[Rows]:
        """Return a supply of the rows of a part of the pipeline.

        The supply begins at the part's cursor (place in the stream). Rows that shards of an earlier
        run had begun and not delivered come first.

        Args:
            part: the part.
            start: cursor of the part.
            size: largest number of rows that a join takes at a time.
            former: number, from 1, of the shard of an earlier run to which the rows belong; 0 for
                this shard.
            most: largest number of this part's rows that are needed; None for all.
        """
        rests = [rest for rest in start.unfinished if rest.stage == part.stage]
        if not rests:
            return self._own_rows(part, start, size, former, most)
        left = start.with_unfinished(*(rest for rest in start.unfinished if rest not in rests))
        own = self._own_rows(part, left, size, former)
        return UnfinishedRuns(
            self.pipeline, part, tuple(rests), left, partial(self._rest, part, size), own
        )

    def _rest(self, part: Subtree, size: int, rest: Leftover) -> Pull[Rows]:
        return self._rows(part, rest.cursor, size, self.pipeline.former_of(rest))

    def _own_rows(
        self, part: Subtree, start: Cursor, size: int, former: int, most: int | None = None
    ) -> Pull[Rows]:
        if part.stage is None:
            return self._joined(part, start, size, former, most)
        pipeline, executor, stage = self.pipeline, self.executor, self.pipeline.stages[part.stage]
        leaf = pipeline.every_leaf[former * len(pipeline.leaves) + pipeline.leaf_number(stage)]
        # of a shard of an earlier run, work runs only to the end of what was begun, wherever that
        # is
        ahead = not former and executor.window(stage.number) > 1
        inputs = (
            None
            if most is None or not stage.one_to_one or pipeline.skips_errors
            else most * stage.unit
        )
        results: Results
        if leaf.in_order and stage.leaf is not None:
            results = InOrder(stage, start, executor, self.planned)
        else:
            requests = (
                self._spans(stage, start, former, inputs)
                if stage.input is None
                else self._groups(stage, start, former, inputs)
            )
            results = Ordered(requests, executor, stage.number, ahead)

        def make_guard(since: Cursor) -> EmptyStreamGuard:
            leaves = pipeline.every_leaf[former * len(pipeline.leaves) :][part.leaves]
            return EmptyStreamGuard(leaves, since, pipeline.repeats_in(part))

        return StageOutput(
            results, make_guard, start, self.skipped, self._block_numbers, self.observer, stage
        )

    def _groups(self, stage: Stage, start: Cursor, former: int, most: int | None) -> Pull[Request]:
        assert stage.input is not None, "rows are the input"
        pipeline = self.pipeline
        inputs = self._rows(stage.input, start.before(), max(stage.group, MIN_SPAN), former, most)
        whole = self._whole and (not pipeline.joins or stage.number == pipeline.top.stage)
        fixed = self.planned or former > 0
        size = (lambda: stage.group) if fixed else partial(self.executor.inputs, stage.number)
        # what was begun is finished in groups as planned
        prompt = bool(self.horizons and pipeline.joins) and not fixed
        return Regroup(inputs, pipeline, stage, start.before(), size, whole, former, prompt)

    def _joined(
        self, part: Subtree, start: Cursor, size: int, former: int, most: int | None
    ) -> Pull[Rows]:
        assert part.join is not None, "a part ends with a stage or a join"
        join = self.pipeline.joins_of(former)[part.join]
        wanted = join.rule.wanted(start.notes[-1], most)
        opens = [
            partial(self._rows, one, size=size, former=former, most=wanted) for one in join.inputs
        ]
        starts, cursors = (
            self.pipeline.inputs_at(join, at) for at in (self.pipeline.start_of(part), start)
        )
        runs = JoinedRuns(
            opens,
            cursors,
            starts,
            join.rule,
            start.notes[-1],
            lambda: min(size, self.executor.most_rows()),
            prompt=bool(self.horizons) and not former,
        )
        repeated = any(above.rule.restarts for above in self.pipeline.joins[join.number + 1 :])
        if not join.rule.keeps or not repeated or start != self.pipeline.start_of(part):
            return runs
        if (kept := self._kept.get(join.number)) is not None:
            return AtHand(iter(kept))
        return CacheWriter(runs, lambda rows: self._kept.update({join.number: rows}))

    def _spans(self, stage: Stage, start: Cursor, former: int, most: int | None) -> Pull[Request]:
        leaf, first = self.pipeline.read_by(stage.number, former), start.positions[0]
        left = self.pipeline.every_leaf[leaf].left_from(first)
        total = first + stage.useful(left if most is None or self.unread else min(left, most))

        def requests(begin: int, stop: int) -> Iterator[Request]:
            ranges = without(((begin, stop),), self.unread)
            return span_requests(stage, leaf, ranges, self.executor.inputs)

        if leaf not in self.horizons:  # former shards' leaves have higher indices
            return AtHand(requests(first, total))
        return DecidedSpans(requests, self.horizons[leaf], first, total, stage.unit)


class Flow:
    """One run of a pipeline, which yields the pipeline's elements.

    Args:
        pipeline: pipeline to run.
        start: cursor (place in the stream) to start from.
        executor: runs the tasks.
        skipped: counts skipped records.
        observer: gets the times of the work.
        unread: ranges of positions, counted on this shard, that are not read.
        planned: True: groups of rows have the length from the plan; False: a length that depends on
            how long tasks take.
        horizons: for each leaf (source with its sampler) whose order may change, by its index: an
            object that knows up to which position the order is final.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        start: Cursor,
        executor: Executor,
        skipped: SkippedRecords,
        observer: Observer,
        unread: Ranges = (),
        planned: bool = False,
        horizons: Mapping[int, Horizon] | None = None,
    ) -> None:
        streams = RowStreams(
            pipeline, start, executor, skipped, observer, unread, planned, horizons or {}
        )
        self._waits = observer.waits
        self._runs = streams.open(start)

    def begin(self) -> None:
        """Submit the first tasks, without waiting for their results."""
        self._runs.fill()

    def __iter__(self) -> Generator[tuple[Any, Rows, int], None, bool]:
        """Yield each element, the consecutive `Rows` that contain it, and its index in these rows.

        The `Rows` know the cursor (place in the stream) after each element. If a task failed, the
        exception of the task is raised at the place of the task's elements in the stream. Return
        True at the end of the stream.
        """
        waits = self._waits
        while True:
            waits.began = perf_counter()
            if "jax.profiler" in sys.modules:
                with profiled("next rows"):
                    run, rows = self._next()
            else:
                run, rows = self._next()
            if isinstance(run, Rows) and rows is not None and not isinstance(rows, list):
                failure = yield from self._made(run, rows)
                if failure is None:
                    continue
                run = StreamEnd(failure)
                del failure
            else:
                waits.end(perf_counter(), 0 if isinstance(run, StreamEnd) else run.stop - run.start)
            if isinstance(run, StreamEnd):
                if run.failure is None:
                    return True
                error = run.failure.take()
                self._runs = AtHand(iter(()))
                try:
                    raise error
                # The error's traceback holds this frame. With the error in it, both would be in a
                # reference cycle.
                finally:
                    del error, run
            if isinstance(rows, list):
                for row in range(run.start, run.stop):
                    yield rows.pop(), run, row
            else:
                for row in range(run.start, run.stop):
                    yield run.take(row), run, row

    def _made(
        self, run: Rows, units: Units
    ) -> Generator[tuple[Any, Rows, int], None, Failure | None]:
        """Make elements one by one, and yield each with `run` and its index in `run`.

        Return the failure if an element cannot be made, else None.

        Args:
            run: the `Rows` that contain the elements.
            units: makes an element when the generator is asked for it, in the thread that asks.
        """
        waits, made = self._waits, units.made
        for row in range(run.start, run.stop):
            if "jax.profiler" in sys.modules:
                with profiled("task"):
                    failure = units.make()
            else:
                failure = units.make()
            waits.end(perf_counter())
            if failure is not None:
                return failure
            while made:
                yield made.pop(0), run, row
            waits.began = perf_counter()
        return None

    def _next(self) -> tuple[Rows | StreamEnd, list[Any] | Units | None]:
        run = self._runs.next(wait=True)
        assert run is not None, "it was waited for"
        return run, None if isinstance(run, StreamEnd) else run.take_all()
