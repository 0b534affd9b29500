"""Runs tasks: reads records, pushes them through the operations, keeps the rows that come out.

In: a task. Out: a block. Each thread that works has a `Worker` of its own; nothing here knows of threads or processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...operations.protocol import Allocate, Element
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage, spans
from .chain import Chain
from .explain import told
from .notices import Notices
from .reader import ColumnReader, readers_of
from .slabs import SlabPool
from .stacked_rows import RowStack
from .tasks import NO_BLOCKS, Block, Blocks, Failure, GroupTask, RowTags, SpanTask, Task


class Worker:
    """A pipeline made ready to run in one thread.

    Args:
        pipeline: what is to be done.
        allocate: gives the memory of batches.
        stacks_rows: whether rows may be put into columns, to travel to another process.
    """

    def __init__(self, pipeline: Pipeline, allocate: Allocate | None = None, stacks_rows: bool = False) -> None:
        self._pipeline = pipeline
        self._stacks_rows = [stacks_rows and _makes_rows(pipeline, stage) for stage in pipeline.stages]
        self._readers = readers_of(pipeline)
        self._allocate = allocate or SlabPool().allocate
        self._columns = ColumnReader.of(pipeline, self._allocate)
        self._notices = Notices()
        self._chains = [self._chain(number) for number in range(len(pipeline.stages))]

    def _chain(self, stage: int) -> Chain:
        chain = Chain(self._pipeline, self._pipeline.stages[stage], self._allocate, self._notices.tell)
        if stage == 0 and self._columns is not None:
            chain.enter_after_batch(self._columns.batch_size)
        return chain

    def run(self, task: Task, blocks: Blocks = NO_BLOCKS, records: Sequence[Any] | None = None) -> Block:
        """Do a task. What goes wrong in it stands in the block, after the rows that came before.

        Args:
            task: a span of positions, or rows of earlier blocks.
            blocks: has these blocks.
            records: the span's records, where somebody has read them already.
        """
        block = self._run_whole(task, blocks, records)
        if block.failure is not None and self._pipeline.skips_errors:
            block = self._without_failures(task, block.failure)
        block.notices = self._notices.take()
        return block

    def _run_whole(self, task: Task, blocks: Blocks, records: Sequence[Any] | None) -> Block:
        """Do a task up to a failure."""
        failed = True
        try:
            if isinstance(task, GroupTask):
                parts = [(blocks[rows.block], rows.start, rows.stop) for rows in task.rows]
                block = self._chains[task.stage].run_group(parts)
            elif records is None and task.stop - task.start > self._pipeline.span:
                block = self._run_one_by_one(task)
            else:
                block = self._run(task, records)
            failed = block.failure is not None
        finally:
            if failed:  # the chain is in the middle of something: the next task gets a new one
                self._chains[task.stage] = self._chain(task.stage)
        return block

    def _run_one_by_one(self, task: SpanTask) -> Block:
        """Several of the plan's spans, each read when it is its turn: its records are in the caches then."""
        whole = Block([], None if self._pipeline.aligned else RowTags())
        stacks, unit = self._stacks_rows[task.stage], self._pipeline.stages[task.stage].unit
        rows: Any = RowStack(task.stop - task.start, self._allocate) if stacks else []
        for span in spans(task.start, task.stop, self._pipeline.span):
            block = self._run(SpanTask(task.stage, *span), None)
            rows.extend(block.elements)
            if whole.tags is not None and block.tags is not None:
                whole.tags.extend(block.tags, (span.start - task.start) // unit)
            if block.failure is not None:
                whole.failure = block.failure
                break
        whole.elements = rows.finish() if stacks else rows
        return whole

    def _without_failures(self, task: Task, failure: Failure) -> Block:
        """The same task without what fails: a span position by position, a group as a whole."""
        if isinstance(task, GroupTask):
            return Block([], RowTags(), skipped=[told(failure.error)])
        elements: list[Element] = []
        tags, skipped = RowTags(), []
        for position in range(task.start, task.stop):
            block = self._run(SpanTask(task.stage, position, position + 1), None)
            if block.failure is not None:
                skipped.append(told(block.failure.error))
                self._chains[task.stage] = self._chain(task.stage)
                continue
            assert block.tags is not None, "what may be skipped is tagged"
            elements += block.elements
            tags.extend(block.tags, position - task.start)
        return Block(elements, tags, skipped=skipped)

    def _run(self, task: SpanTask, records: Sequence[Any] | None) -> Block:
        reader, failure = self._readers[task.stage], None
        try:
            if self._columns is not None:
                records = self._columns.batches(reader.keys(task))
            elif records is None:
                records = reader.records(task)
        except Exception as error:
            records, failure = reader.records_before_failure(task, error)
            records = [] if self._columns is not None else records
        assert records is not None
        block = self._chains[task.stage].run_span(task, records, failure)
        leaf = self._pipeline.leaf_of(self._pipeline.stages[task.stage])
        return _without_delivered(leaf, task, block) if leaf.lineage.skips else block


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
    return stage.leaf is not None and stage.number + 1 < len(pipeline.stages) and not stage.groups
