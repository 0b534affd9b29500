"""Runs tasks: reads records, pushes them through the operations, keeps the rows that come out.

In: a task. Out: a block. Each thread that works has a `Worker` of its own; nothing here knows of threads or processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress, islice
from operator import length_hint
from typing import Any

import numpy as np

from ..operations import Batch, Filter, MapTransform
from ..operations.protocol import Allocate, Context, Element, Step
from ..operations.stacking import rows_back
from .columns import ColumnReader
from .failures import explained, operation_of, told
from .pipeline import Pipeline
from .plan import Segment, Span, spans
from .reader import Reader
from .slabs import SlabPool
from .stacked import RowStack, StackedRows, batch_of
from .tasks import Block, Failure, Group, RowTags, Task

SELECTED_TOGETHER = 32
"""Records that go through one map or filter before they go to the next: few enough to stay in the caches."""


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
        self._chains = [self._chain(number) for number in range(len(pipeline.segments))]

    def _chain(self, segment: int) -> Chain:
        chain = Chain(self._pipeline, self._pipeline.segments[segment], self._allocate)
        if segment == 0 and self._columns is not None:
            chain.enter_behind_batch(self._columns.batch_size)
        return chain

    def run(self, task: Task, records: Sequence[Any] | None = None) -> Block:
        """Do a task. What goes wrong in it stands in the block, behind the rows that came before.

        Args:
            task: a span of positions, or a group of rows.
            records: the span's records, where somebody has read them already.
        """
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
        if failed and block.failure is not None and self._pipeline.skips_errors:
            return self._without_failures(task, block.failure)
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


class Chain:
    """The steps of one segment, connected, and what is pushed into them."""

    def __init__(self, pipeline: Pipeline, segment: Segment, allocate: Allocate) -> None:
        self._pipeline = pipeline
        self._segment = segment
        self._context = Context(seed=pipeline.sampler.seed or 0, allocate=allocate)
        self._steps: list[Step] = [self._keep]
        for number, operation in reversed(list(enumerate(segment.operations, segment.first))):
            self._steps.insert(0, operation.connect(self._steps[0], self._context, number))
        self._context.at_end.reverse()  # connected from the back, to be ended from the front
        self._push = self._steps[0]
        self._maps = _maps_before_batch(segment)
        self._selecting = _only_maps_and_filters(segment)
        self._inputs_per_unit, self._positions_per_input = segment.unit, 1
        self._tags_rows = not pipeline.aligned
        self._tracks = segment.reads_position or self._tags_rows
        self._seeds_differ = pipeline.sampler.seeds(np.empty(0, dtype=np.int64)) is not None
        self._elements: list[Element] = []
        self._tags = RowTags() if self._tags_rows else None

    def enter_behind_batch(self, batch_size: int) -> None:
        """From now on the inputs are not records but batches of them, as the first operation would make."""
        self._push, self._maps = self._steps[1], None
        del self._context.at_end[0]  # the batch in the making of an operation that is passed by
        self._inputs_per_unit //= batch_size
        self._positions_per_input = batch_size

    def run_span(self, span: Span, inputs: Sequence[Any], read_failure: Exception | None) -> Block:
        """Push the inputs of a span; `read_failure` says why they are not all."""
        remaining = iter(inputs)
        try:
            if self._selecting:
                done = self._select(span, inputs)
                remaining = iter(inputs[done:])
                if done < len(inputs):
                    self._push_tracked(span, remaining, done)
            elif self._tracks:
                self._push_tracked(span, remaining)
            elif self._maps is not None:
                self._push_mapped(self._maps, remaining, len(inputs))
            else:
                push = self._push
                for element in remaining:
                    push(element)
            if read_failure is not None:
                return self._failed(read_failure, len(inputs) // self._inputs_per_unit)
            self._end()
        except Exception as error:
            at_fault = self._at_fault(error, len(inputs) - length_hint(remaining) - 1)
            unit = self._context.unit
            local = span.start + at_fault * self._positions_per_input
            return self._failed(explained(error, self._pipeline, self._pipeline.position(local)), unit)
        return self._block()

    def _push_mapped(self, maps: Sequence[MapTransform], inputs: Iterator[Any], count: int) -> None:
        """Records through maps into a batch, without a call of ours for each."""
        elements = inputs
        for operation in maps:
            elements = map(operation.function, elements)
        taken = self._context.take_all[self._segment.first + len(maps)](elements)
        if taken < count:
            raise RuntimeError("an operation raised StopIteration")

    def _select(self, span: Span, inputs: Sequence[Any]) -> int:
        """Records through maps and filters, without a call of ours for each, up to some in which there is a failure.

        Returns:
            The number of inputs that are done.
        """
        assert self._tags is not None, "what is filtered is tagged"
        functions = [(operation.function, isinstance(operation, Filter)) for operation in self._segment.operations]  # type: ignore[attr-defined]
        numbers: list[int] = []
        done = 0
        while done < len(inputs):
            some = inputs[done : done + SELECTED_TOGETHER]
            try:
                elements, kept = _selected(functions, some, done)
            except Exception:
                break  # whoever does these one by one finds out which of them it is
            self._elements += elements
            numbers += kept
            done += len(some)
        self._tags.extend_each(numbers, self._pipeline.positions(span.start, span.stop))
        return done

    def _push_tracked(self, span: Span, inputs: Iterator[Any], first: int = 0) -> None:
        push, context, per_unit = self._push, self._context, self._inputs_per_unit
        start = span.start + first * self._positions_per_input
        positions = self._pipeline.positions(start, span.stop)[:: self._positions_per_input]
        seeds = self._pipeline.sampler.seeds(positions)
        context.row = 0
        if seeds is None and not self._tags_rows:
            for context.position, element in zip(positions.tolist(), inputs):
                push(element)
            return
        for number, (context.position, element) in enumerate(zip(positions.tolist(), inputs), first):
            context.unit, context.row = number // per_unit, 0
            if seeds is not None:
                context.seed = int(seeds[number - first])
            push(element)

    def run_group(self, group: Group) -> Block:
        """Push the rows of a group, which make one unit."""
        push, context, seeds_of = self._push, self._context, self._pipeline.sampler.seeds
        index = -1
        try:
            context.unit = 0
            if self._batches_columns(group):
                index = 0
                self._push_batch(group)
                return self._block()
            for position, row, element in _rows_of(group):
                index += 1
                context.position, context.row = position, row
                if self._seeds_differ:
                    context.seed = int(seeds_of(np.array([position], dtype=np.int64))[0])  # type: ignore[index]
                push(element)
            self._end()
        except Exception as error:
            position, _, _ = next(islice(_rows_of(group), self._at_fault(error, index), None))
            return self._failed(explained(error, self._pipeline, position), 0)
        return self._block()

    def _batches_columns(self, group: Group) -> bool:
        """Whether the group's rows are columns that its first operation, a plain batch of all of them, would only stack."""
        batch, first = self._segment.operations[0], group.parts[0].block.elements
        return (
            type(batch) is Batch
            and batch.batch_fn is None
            and batch.batch_size == self._segment.unit
            and isinstance(first, StackedRows)
            and all(first.is_like(part.block.elements) for part in group.parts)
        )

    def _push_batch(self, group: Group) -> None:
        parts: Any = [(part.block.elements, part.start, part.stop) for part in group.parts]
        position, row, _ = next(_rows_of(group))
        self._context.position, self._context.row = position, row
        if self._seeds_differ:
            self._context.seed = int(self._pipeline.sampler.seeds(np.array([position], dtype=np.int64))[0])  # type: ignore
        self._steps[1](batch_of(parts, self._context.allocate))
        for finish in self._context.at_end[1:]:
            finish()

    def _at_fault(self, error: Exception, index: int) -> int:
        """The number of the input that an error is about, when it arose at input `index`.

        Maybe an earlier one, which waited to be copied into a batch together with others.
        """
        number = operation_of(error, self._pipeline)
        if number is None:
            return index
        inputs = self._segment.inputs_of(number) // self._positions_per_input
        return index - index % max(inputs, 1) - rows_back(error) * inputs

    def _keep(self, element: Element) -> None:
        self._elements.append(element)
        if self._tags is not None:
            self._tags.add(self._context.unit, self._context.position, self._context.row)

    def _end(self) -> None:
        for finish in self._context.at_end:
            finish()

    def _block(self, failure: Failure | None = None) -> Block:
        block = Block(self._elements, self._tags, failure)
        self._elements, self._tags = [], RowTags() if self._tags_rows else None
        return block

    def _failed(self, error: Exception, unit: int) -> Block:
        """The rows so far, less those of the unit that failed: it will be done again as a whole, or never."""
        if self._tags is not None:
            complete = self._tags.cut_before(unit)
            del self._elements[complete:]
        return self._block(Failure(error))


def _maps_before_batch(segment: Segment) -> Sequence[MapTransform] | None:
    """The maps that a segment begins with, if there is nothing else before its first batch."""
    maps: list[MapTransform] = []
    for operation in segment.operations:
        if type(operation) is Batch:
            return maps
        if not isinstance(operation, MapTransform) or type(operation).connect is not MapTransform.connect:
            return None
        maps.append(operation)
    return None


def _makes_rows(segments: Sequence[Segment]) -> bool:
    """Whether the first segment makes rows, no batches, which the next one puts into batches."""
    return len(segments) > 1 and not any(isinstance(operation, Batch) for operation in segments[0].operations)


def _only_maps_and_filters(segment: Segment) -> bool:
    """Whether a segment selects records, and does nothing else than plain maps before and after."""
    plain = (MapTransform, Filter)
    return any(isinstance(operation, Filter) for operation in segment.operations) and all(
        isinstance(operation, plain) and type(operation).connect in (MapTransform.connect, Filter.connect)
        for operation in segment.operations
    )


def _selected(
    functions: Sequence[tuple[Callable[[Any], Any], bool]], inputs: Sequence[Any], first: int
) -> tuple[list[Element], list[int]]:
    """What the functions of maps and filters make of inputs, and the number of the input of each, counted from `first`.

    Args:
        functions: each with whether it is a filter's.
        inputs: records.
        first: the number of the first of them.

    Raises:
        ValueError: a function ended an iteration that is none of its own.
    """
    elements, numbers = list(inputs), list(range(first, first + len(inputs)))
    for function, is_filter in functions:
        results = list(map(function, elements))
        if len(results) != len(elements):
            raise ValueError("a function raised StopIteration")
        if is_filter:
            elements, numbers = list(compress(elements, results)), list(compress(numbers, results))
        else:
            elements = results
    return elements, numbers


def _rows_of(group: Group) -> Iterator[tuple[int, int, Element]]:
    """Position, row and element of each row."""
    for part in group.parts:
        tags = part.block.tags
        assert tags is not None, "only blocks with tags are regrouped"
        elements = part.block.elements
        if isinstance(elements, StackedRows):
            rows = elements.elements(part.start, part.stop)
        else:
            rows = iter(elements[part.start : part.stop])
        span = slice(part.start, part.stop)
        yield from zip(tags.positions[span], tags.rows[span], rows)
