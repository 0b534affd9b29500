"""Runs tasks: reads records, pushes them through the operations, keeps the rows that come out.

In: a task. Out: a block. Each thread that works has a `Worker` of its own; nothing here knows of threads or processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from ...operations.protocol import Allocate, Element
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage, spans
from .chain import Chain
from .explain import told
from .notices import Notices
from .reader import ColumnReader, readers_of
from .run_through import RunThrough, run_throughs_of
from .slabs import SlabPool
from .stacked_rows import RowStack
from .stopwatch import OperationClock, Stopwatch
from .tasks import NO_BLOCKS, Block, Blocks, Failure, GroupTask, RowTags, SpanTask, Task, input_count, single_rows


def _not_ahead() -> None:
    """The records of no task were read ahead."""


class Worker:
    """A pipeline made ready to run in one thread.

    Args:
        pipeline: to be run.
        allocate: gives the memory of batches.
        stacks_rows: rows may be put into columns, to go to another process.
        stopwatch: makes what times the tasks of a stage. None: nothing is timed.
        run_throughs: what reads sources that can only be run through, where several threads share it.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        allocate: Allocate | None = None,
        stacks_rows: bool = False,
        stopwatch: Callable[[], Stopwatch] | None = None,
        run_throughs: dict[int, RunThrough] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._stopwatches = [] if stopwatch is None else [stopwatch() for _ in pipeline.stages]
        # Tasks of each stage up to the next that is timed. A stopwatch would be memory that no cache holds, for each batch.
        self._until_timed = [1 if self._stopwatches else sys.maxsize] * len(pipeline.stages)
        self._timing = False  # the task that is being done …
        self._reading = 0.0  # … in which so many seconds were spent on reading …
        self._inputs = 0  # … so many positions; or it is about so many rows
        self._stacks_rows = [stacks_rows and _makes_rows(pipeline, stage) for stage in pipeline.stages]
        self._readers = readers_of(pipeline)
        self._run_throughs = run_throughs_of(pipeline) if run_throughs is None else run_throughs
        self._allocate = allocate or SlabPool().allocate
        self._columns = ColumnReader.of(pipeline, self._allocate)
        self._notices = Notices()
        self._chains = [self._chain(number) for number in range(len(pipeline.stages))]
        self._timed: dict[int, tuple[Chain, OperationClock]] = {}  # by the number of the stage

    def _chain(self, stage: int, clock: OperationClock | None = None) -> Chain:
        chain = Chain(self._pipeline, self._pipeline.stages[stage], self._allocate, self._notices.tell, clock)
        if stage == 0 and self._columns is not None:
            chain.enter_after_batch(self._columns.batch_size)
        return chain

    def run(
        self, task: Task, blocks: Blocks = NO_BLOCKS, read_ahead: Callable[[], Sequence[Any] | None] = _not_ahead
    ) -> Block:
        """Do a task. What goes wrong in it stands in the block, after the rows that came before.

        Its blocks are among `blocks`; `read_ahead` gives the records of its span, where somebody is reading them already.
        """
        stage = task.stage
        self._until_timed[stage] -= 1
        if self._until_timed[stage] > 0:
            return self._do(task, blocks, read_ahead)
        stopwatch = self._stopwatches[stage]
        stopwatch.begin()
        self._reading, self._inputs, self._timing = 0.0, input_count(task), True
        block = self._do(task, blocks, read_ahead)
        self._timing = False
        look = self._timed[stage][1].take() if stage in self._timed else None
        batches = self._pipeline.stages[stage].groups
        block.times = stopwatch.end(block, self._inputs, batches, self._reading, look)
        self._until_timed[stage] = stopwatch.every
        return block

    def _do(self, task: Task, blocks: Blocks, read_ahead: Callable[[], Sequence[Any] | None]) -> Block:
        if isinstance(task, SpanTask) and task.stage in self._run_throughs:
            return self._run_through(task)
        began = perf_counter()
        records = read_ahead()
        self._reading += perf_counter() - began
        block = self._run_whole(task, blocks, records)
        if block.failure is not None and self._pipeline.skips_errors:
            block = self._without_failures(task, blocks, block.failure)
        block.notices = self._notices.take()
        return block

    def close(self) -> None:
        """Stop the work that sources have others do."""
        for source in self._run_throughs.values():
            source.close()

    def _run_through(self, task: SpanTask) -> Block:
        """Do a task on a source that can only be run through."""
        reader = self._run_throughs[task.stage]
        began = perf_counter()
        records, failure, stand = reader.read(task)
        self._reading, self._inputs = perf_counter() - began, len(records)
        block = self._run_whole(task, NO_BLOCKS, records)
        if block.failure is not None and self._pipeline.skips_errors:
            block = self._without_failures(task, NO_BLOCKS, block.failure, records)
        if block.failure is None and failure is not None:
            block.failure = Failure(failure)
        block.stand = stand
        block.notices = self._notices.take()
        return block

    def _run_whole(self, task: Task, blocks: Blocks, records: Sequence[Any] | None) -> Block:
        """Do a task up to a failure."""
        failed = True
        try:
            if isinstance(task, GroupTask):
                parts = [(blocks[rows.block], rows.start, rows.stop) for rows in task.rows]
                block = self._chain_for(task.stage, input_count(task)).run_group(task, parts)
            elif records is None and task.stop - task.start > self._span(task):
                block = self._run_one_by_one(task)
            else:
                block = self._run(task, records)
            failed = block.failure is not None
        finally:
            if failed:  # the chain is in the middle of something: the next task gets a new one
                self._chains[task.stage] = self._chain(task.stage)
                self._timed.pop(task.stage, None)
        return block

    def _chain_for(self, stage: int, inputs: int) -> Chain:
        """The chain of a stage; now and then the one that times its operations."""
        if not self._timing:
            return self._chains[stage]
        if stage not in self._timed:
            operations = self._pipeline.stages[stage].operations
            single = next((n for n, one in enumerate(operations) if one.takes is not None), len(operations))
            clock = OperationClock(len(operations), single)
            self._timed[stage] = self._chain(stage, clock), clock
        timed, clock = self._timed[stage]
        return timed if self._stopwatches[stage].may_look(clock.calls(inputs)) else self._chains[stage]

    def _run_one_by_one(self, task: SpanTask) -> Block:
        """Several of the plan's spans, each read when it is its turn: its records are in the caches then."""
        whole = Block([], None if self._pipeline.aligned else RowTags())
        self._readers[self._pipeline.read_by(task.stage, task.former)].expect(task)
        stacks, unit = self._stacks_rows[task.stage], self._pipeline.stages[task.stage].unit
        rows: Any = RowStack(task.stop - task.start, self._allocate) if stacks else []
        for span in spans(task.start, task.stop, self._span(task)):
            block = self._run(task._replace(start=span.start, stop=span.stop), None)
            rows.extend(block.elements)
            if whole.tags is not None and block.tags is not None:
                whole.tags.extend(block.tags, (span.start - task.start) // unit)
            if block.failure is not None:
                whole.failure = block.failure
                break
        whole.elements = rows.finish() if stacks else rows
        return whole

    def _span(self, task: SpanTask) -> int:
        """Positions in a span of the plan."""
        leaf = self._pipeline.stages[task.stage].leaf
        assert leaf is not None, "only stages on leaves are given spans"
        return self._pipeline.spans[leaf]

    def _without_failures(
        self, task: Task, blocks: Blocks, failure: Failure, records: Sequence[Any] | None = None
    ) -> Block:
        """The same task without what fails, one position or row after the other; a group that makes one unit as a whole."""
        tried: list[Block] = []
        if isinstance(task, SpanTask):
            for position in range(task.start, task.stop):
                place = position - task.start
                one = None if records is None else records[place : place + 1]
                tried.append(self._run_whole(task._replace(start=position, stop=position + 1), NO_BLOCKS, one))
        elif self._pipeline.stages[task.stage].groups or input_count(task) == 1:
            tried.append(Block([], RowTags(), failure))
        else:
            for group in single_rows(task):
                tried.append(self._run_whole(group, blocks, None))
        elements: list[Element] = []
        tags, skipped = RowTags(), []
        for number, block in enumerate(tried):
            if block.failure is not None:
                skipped.append(told(block.failure.error))
                continue
            assert block.tags is not None, "what may be skipped is tagged"
            elements += block.elements
            tags.extend(block.tags, number)
        return Block(elements, tags, skipped=skipped)

    def _run(self, task: SpanTask, records: Sequence[Any] | None) -> Block:
        failure = None
        if records is None or self._columns is not None:
            began = perf_counter()
            records, failure = self._records(task)
            self._reading += perf_counter() - began
        block = self._chain_for(task.stage, len(records)).run_span(task, records, failure)
        leaf = self._pipeline.every_leaf[self._pipeline.read_by(task.stage, task.former)]
        return _without_delivered(leaf, task, block) if leaf.lineage.skips else block

    def _records(self, task: SpanTask) -> tuple[Sequence[Any], Exception | None]:
        """The records of a span, or batches of columns; after a failure those before it, and why."""
        reader = self._readers[self._pipeline.read_by(task.stage, task.former)]
        try:
            if self._columns is not None:
                return self._columns.batches(reader.keys(task)), None
            return reader.records(task), None
        except Exception as error:
            records, failure = reader.records_before_failure(task, error)
            return [] if self._columns is not None else records, failure


def _without_delivered(leaf: Leaf, task: SpanTask, block: Block) -> Block:
    """A block without the rows that a shard of a former run delivered."""
    if block.tags is None:
        return block
    delivered = dict(leaf.lineage.skips)
    kept, seen = [], dict[int, int]()
    positions = leaf.positions(task.start, task.stop).tolist()
    for number, unit in enumerate(block.tags.units):
        seen[unit] = seen.get(unit, 0) + 1
        if seen[unit] > delivered.get(positions[unit], 0):
            kept.append(number)
    if len(kept) < block.count:
        block.elements = [block.elements[number] for number in kept]
        block.tags = block.tags.some(kept)
    return block


def _makes_rows(pipeline: Pipeline, stage: Stage) -> bool:
    """Whether a stage makes rows of a leaf, no batches, which another stage puts into batches."""
    return stage.leaf is not None and stage.number in pipeline.regrouped and not stage.groups
