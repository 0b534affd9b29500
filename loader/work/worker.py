"""Runs tasks: reads records, pushes them through the operations, keeps the rows that come out.

In: a task. Out: a block. Each thread that works has a `Worker` of its own; nothing here knows of threads or processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...operations import Batch
from ...operations.protocol import Allocate, Element
from ..plan.pipeline import Pipeline
from ..plan.stages import Segment, Span, spans
from .chain import Chain
from .columns import ColumnReader
from .explain import told
from .notices import Notices
from .reader import Reader
from .slabs import SlabPool
from .stacked_rows import RowStack
from .tasks import Block, Failure, Group, RowTags, Task


class Worker:
    """A pipeline made ready to run in one thread.

    Args:
        pipeline: what is to be done.
        allocate: gives the memory of batches.
        stacks_rows: whether rows may be put into columns, to travel to another process.
    """

    def __init__(self, pipeline: Pipeline, allocate: Allocate | None = None, stacks_rows: bool = False) -> None:
        self._pipeline = pipeline
        self._stacks_rows = stacks_rows and _makes_rows(pipeline.segments)
        self._reader = Reader(pipeline)
        self._allocate = allocate or SlabPool().allocate
        self._columns = ColumnReader.of(pipeline, self._allocate)
        self._notices = Notices()
        self._chains = [self._chain(number) for number in range(len(pipeline.segments))]

    def _chain(self, segment: int) -> Chain:
        chain = Chain(self._pipeline, self._pipeline.segments[segment], self._allocate, self._notices.tell)
        if segment == 0 and self._columns is not None:
            chain.enter_behind_batch(self._columns.batch_size)
        return chain

    def run(self, task: Task, records: Sequence[Any] | None = None) -> Block:
        """Do a task. What goes wrong in it stands in the block, behind the rows that came before.

        Args:
            task: a span of positions, or a group of rows.
            records: the span's records, where somebody has read them already.
        """
        block = self._run_whole(task, records)
        if block.failure is not None and self._pipeline.skips_errors:
            block = self._without_failures(task, block.failure)
        block.notices = self._notices.take()
        return block

    def _run_whole(self, task: Task, records: Sequence[Any] | None) -> Block:
        """Do a task up to a failure."""
        failed = True
        try:
            if not isinstance(task, Group) and records is None and task.stop - task.start > self._pipeline.span:
                block = self._run_one_by_one(task)
            else:
                block = self._run(task, records)
            failed = block.failure is not None
        finally:
            if failed:  # the chain is in the middle of something: the next task gets a new one
                segment = task.segment if isinstance(task, Group) else 0
                self._chains[segment] = self._chain(segment)
        return block

    def _run_one_by_one(self, task: Span) -> Block:
        """Several of the plan's spans, each read when it is its turn: its records are in the caches then."""
        whole = Block([], None if self._pipeline.aligned else RowTags())
        rows: Any = RowStack(task.stop - task.start, self._allocate) if self._stacks_rows else []
        for span in spans(task.start, task.stop, self._pipeline.span):
            block = self._run(span, None)
            rows.extend(block.elements)
            if whole.tags is not None and block.tags is not None:
                whole.tags.extend(block.tags, (span.start - task.start) // self._pipeline.segments[0].unit)
            if block.failure is not None:
                whole.failure = block.failure
                break
        whole.elements = rows.finish() if self._stacks_rows else rows
        return whole

    def _without_failures(self, task: Task, failure: Failure) -> Block:
        """The same task without what fails: a span position by position, a group as a whole."""
        if isinstance(task, Group):
            return Block([], RowTags(), skipped=[told(failure.error)])
        elements: list[Element] = []
        tags, skipped = RowTags(), []
        for position in range(task.start, task.stop):
            block = self._run(Span(position, position + 1), None)
            if block.failure is not None:
                skipped.append(told(block.failure.error))
                self._chains[0] = self._chain(0)
                continue
            assert block.tags is not None, "what may be skipped is tagged"
            elements += block.elements
            tags.extend(block.tags, position - task.start)
        return Block(elements, tags, skipped=skipped)

    def _run(self, task: Task, records: Sequence[Any] | None) -> Block:
        if isinstance(task, Group):
            return self._chains[task.segment].run_group(task)
        failure = None
        try:
            if self._columns is not None:
                records = self._columns.batches(self._reader.keys(task))
            elif records is None:
                records = self._reader.records(task)
        except Exception as error:
            records, failure = self._reader.records_before_failure(task, error)
            records = [] if self._columns is not None else records
        assert records is not None
        block = self._chains[0].run_span(task, records, failure)
        return self._without_delivered(task, block) if self._pipeline.lineage.skips else block

    def _without_delivered(self, span: Span, block: Block) -> Block:
        """A block without the rows that a shard of a former run delivered."""
        if block.tags is None:
            return block
        delivered = dict(self._pipeline.lineage.skips)
        kept, seen = [], dict[int, int]()
        positions = self._pipeline.positions(span.start, span.stop).tolist()
        for number, unit in enumerate(block.tags.units):
            seen[unit] = seen.get(unit, 0) + 1
            if seen[unit] > delivered.get(positions[unit], 0):
                kept.append(number)
        if len(kept) < block.count:
            block.elements = [block.elements[number] for number in kept]
            block.tags = block.tags.some(kept)
        return block


def _makes_rows(segments: Sequence[Segment]) -> bool:
    """Whether the first segment makes rows, no batches, which the next one puts into batches."""
    return len(segments) > 1 and not any(isinstance(operation, Batch) for operation in segments[0].operations)
