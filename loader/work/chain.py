"""The operations of one stage, connected, and what is pushed into them.

In: the records of a span, or the rows of a group. Out: a block. Used by one thread, until a task fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, islice, repeat
from operator import length_hint
from typing import Any

import numpy as np

from ...errors import NoElementError
from ...operations import Batch, Filter, MapTransform
from ...operations.protocol import Allocate, Context, Element, Step, Tell
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from .explain import explained, maker_for, name_of
from .selection import Selection
from .stacked_rows import StackedRows, batch_of
from .tasks import Block, Failure, Parts, RowTags, SpanTask


class Chain:
    """The steps of one stage, connected, and what is pushed into them."""

    def __init__(self, pipeline: Pipeline, stage: Stage, allocate: Allocate, tell: Tell) -> None:
        self._pipeline = pipeline
        self._stage = stage
        self._leaf = leaf = pipeline.leaf_of(stage)
        self._context = Context(seed=leaf.sampler.seed or 0, allocate=allocate, tell=tell)
        self._steps: list[Step] = [self._keep]
        for number, operation in reversed(list(enumerate(stage.operations, stage.first))):
            self._steps.insert(0, operation.connect(self._steps[0], self._context, number))
        self._context.at_end.reverse()  # connected from the back, to be ended from the front
        self._push = self._steps[0]
        self._maps = _maps_before_batch(stage)
        self._selects = _only_maps_and_filters(stage)
        self._inputs_per_unit, self._positions_per_input = stage.unit, 1
        self._tags_rows = not pipeline.aligned
        self._tracks = stage.reads_position or self._tags_rows
        self._seeds_differ = leaf.sampler.seeds(np.empty(0, dtype=np.int64)) is not None
        self._elements: list[Element] = []
        self._tags = RowTags() if self._tags_rows else None

    def enter_behind_batch(self, batch_size: int) -> None:
        """From now on the inputs are not records but batches of them, as the first operation would make."""
        self._push, self._maps = self._steps[1], None
        del self._context.at_end[0]  # the batch in the making of an operation that is passed by
        self._inputs_per_unit //= batch_size
        self._positions_per_input = batch_size

    def run_span(self, span: SpanTask, inputs: Sequence[Any], read_failure: Exception | None) -> Block:
        """Push the inputs of a span; `read_failure` says why they are not all."""
        if self._selects:
            return self._select(span, inputs, read_failure)
        remaining = iter(inputs)
        try:
            if self._tracks:
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
            at_fault = self._at_fault(len(inputs) - length_hint(remaining) - 1)
            position = self._leaf.position(span.start + at_fault * self._positions_per_input)
            return self._failed(self._explained(error, position), self._context.unit)
        return self._block()

    def _push_mapped(self, maps: Sequence[MapTransform], inputs: Iterator[Any], count: int) -> None:
        """Records through maps into a batch, without a call of ours for each.

        `compress`, which drops nothing here, counts what each map but the last gives: so a failure tells whose it is.
        """
        elements, taken_from = inputs, [inputs]
        for operation in maps:
            if elements is not inputs:
                taken_from.append(repeat(True, count))
                elements = compress(elements, taken_from[-1])
            elements = map(operation.function, elements)
        taken = 0
        try:
            taken = self._context.take_all[self._stage.first + len(maps)](elements)
            if taken < count:
                raise StopIteration
        except Exception:
            left = list(map(length_hint, taken_from))  # less by one before the map at fault than behind it
            self._context.blame(self._stage.first + left.count(left[0]) - 1)
            raise

    def _select(self, span: SpanTask, inputs: Sequence[Any], read_failure: Exception | None) -> Block:
        """Records through maps and filters, without a call of ours for each."""
        assert self._tags is not None, "what is filtered is tagged"
        selection = Selection(self._stage.operations)
        selection.run(inputs)
        self._elements = selection.elements
        self._tags.extend_each(selection.numbers, self._leaf.positions(span.start, span.stop))
        if selection.failed is not None:
            place, number, error = selection.failed
            self._context.blame(self._stage.first + place)
            return self._failed(self._explained(error, self._leaf.position(span.start + number)), number)
        return self._block() if read_failure is None else self._failed(read_failure, len(inputs))

    def _push_tracked(self, span: SpanTask, inputs: Iterator[Any]) -> None:
        push, context, per_unit = self._push, self._context, self._inputs_per_unit
        positions = self._leaf.positions(span.start, span.stop)[:: self._positions_per_input]
        seeds = self._leaf.sampler.seeds(positions)
        context.row = 0
        if seeds is None and not self._tags_rows:
            for context.position, element in zip(positions.tolist(), inputs):
                push(element)
            return
        for number, (context.position, element) in enumerate(zip(positions.tolist(), inputs)):
            context.unit, context.row = number // per_unit, 0
            if seeds is not None:
                context.seed = int(seeds[number])
            push(element)

    def run_group(self, parts: Parts) -> Block:
        """Push rows of earlier blocks, which make one unit."""
        push, context, seeds_of = self._push, self._context, self._leaf.sampler.seeds
        index = -1
        try:
            context.unit = 0
            if self._batches_columns(parts):
                index = 0
                self._push_batch(parts)
                return self._block()
            for position, row, element in _rows_of(parts):
                index += 1
                context.position, context.row = position, row
                if self._seeds_differ:
                    context.seed = int(seeds_of(np.array([position], dtype=np.int64))[0])  # type: ignore[index]
                push(element)
            self._end()
        except Exception as error:
            position, _, _ = next(islice(_rows_of(parts), self._at_fault(index), None))
            return self._failed(self._explained(error, position), 0)
        return self._block()

    def _batches_columns(self, parts: Parts) -> bool:
        """Whether the rows are columns that its first operation, a plain batch of all of them, would only stack."""
        batch, first = self._stage.operations[0], parts[0][0].elements
        return (
            batch.only_stacks
            and batch.takes == self._stage.unit
            and isinstance(first, StackedRows)
            and all(first.is_like(block.elements) for block, _, _ in parts)
        )

    def _push_batch(self, parts: Parts) -> None:
        position, row, _ = next(_rows_of(parts))
        self._context.position, self._context.row = position, row
        if self._seeds_differ:
            self._context.seed = int(self._leaf.sampler.seeds(np.array([position], dtype=np.int64))[0])  # type: ignore
        self._steps[1](
            batch_of([(block.elements, start, stop) for block, start, stop in parts], self._context.allocate)
        )
        for finish in self._context.at_end[1:]:
            finish()

    def _at_fault(self, index: int) -> int:
        """The number of the input that a failure is about, when it arose at input `index`: of a batch, its first.

        In the making of a batch, maybe an earlier one, which waited to be copied together with others.
        """
        fault = self._context.fault
        if fault is None:
            return index
        inputs, together = (self._inputs_of(number) for number in (fault.number, fault.number + 1))
        return index - index % together + fault.row * inputs

    def _inputs_of(self, number: int) -> int:
        return max(self._stage.inputs_of(number) // self._positions_per_input, 1)

    def _explained(self, error: Exception, position: int) -> Exception:
        fault = self._context.fault
        number = None if fault is None else fault.number
        who = (
            maker_for(self._pipeline, number) if isinstance(error, NoElementError) else name_of(self._pipeline, number)
        )
        return explained(error, self._leaf, position, who)

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


def _maps_before_batch(stage: Stage) -> Sequence[MapTransform] | None:
    """The maps that a stage begins with, if there is nothing else before its first batch."""
    maps: list[MapTransform] = []
    for operation in stage.operations:
        if type(operation) is Batch:
            return maps
        if not isinstance(operation, MapTransform) or type(operation).connect is not MapTransform.connect:
            return None
        maps.append(operation)
    return None


def _only_maps_and_filters(stage: Stage) -> bool:
    """Whether a stage selects records, and does nothing else than plain maps before and after."""
    plain = (MapTransform, Filter)
    return any(isinstance(operation, Filter) for operation in stage.operations) and all(
        isinstance(operation, plain) and type(operation).connect in (MapTransform.connect, Filter.connect)
        for operation in stage.operations
    )


def _rows_of(parts: Parts) -> Iterator[tuple[int, int, Element]]:
    """Position, row and element of each row."""
    for block, start, stop in parts:
        tags, elements = block.tags, block.elements
        assert tags is not None, "only blocks with tags are regrouped"
        rows = elements.elements(start, stop) if isinstance(elements, StackedRows) else iter(elements[start:stop])
        yield from zip(tags.positions[start:stop], tags.rows[start:stop], rows)
