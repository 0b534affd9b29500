"""A chain: the operations of one stage, connected so that each passes its results to the next.

A stage is a group of operations that run in one task.

In: the records of a span (consecutive positions of a source), or rows of earlier tasks. Out: a
block, which has the resulting rows and their origins. To push an element means to call the first
operation with it. One thread uses a chain. After a task fails, the chain is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....operations.protocol import Allocate, Context, Element, Notify, Step
from ...interrupts import raise_if_of_signal_handler
from ...timing.draws import DrawWatch
from ..stacked_rows import batch_of
from ..stopwatch import OperationClock
from ..tasks import Block, GroupTask, Parts, SpanTask
from .collected import CollectedRows
from .faults import FaultFinder
from .fused import FusedMapFilter, fused_at_front, plain_at_front
from .group_rows import batches_columns, elements_of, tags_of
from .inputs import Inputs
from .seeded import seeded

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline
    from ...plan.stages import Stage


class StepChain:
    """The connected operations of one stage, which process the inputs of tasks.

    A stage is a group of operations that run in one task. Inputs are passed to the first operation
    one by one, each with its position; or all in one call ("in bulk"), if the operations allow
    that. Two arguments prevent passing in bulk: a `clock`, which times operations or detects their
    random draws; and `seeds_globals=True`, which seeds the global random generators for each
    element.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        stage: Stage,
        allocate: Allocate,
        tell: Notify,
        clock: OperationClock | DrawWatch | None = None,
        seeds_globals: bool = False,
        held: Mapping[int, Sequence[Any]] = MappingProxyType({}),
    ) -> None:
        self._pipeline = pipeline
        self._stage = stage
        self._leaf = leaf = pipeline.leaf_of(stage)
        # number, among every leaf, of that which is being read
        self._read = pipeline.leaf_number(stage)
        self._context = Context(seed=leaf.sampler.seed or 0, allocate=allocate, notify=tell)
        self._clock = clock
        self._rows = CollectedRows(pipeline, self._context)
        self._tags_rows = not pipeline.aligned
        keep: Step = self._rows.keep if self._tags_rows else self._rows.elements.append
        self._steps = [keep if clock is None else clock.around(keep, len(stage.operations))]
        for number, operation in reversed(list(enumerate(stage.operations, stage.first))):
            if pipeline.skips_errors and operation.takes is not None:
                self._steps[0] = self._rows.around_each(self._steps[0], self._now)
            step = operation.connect(self._steps[0], self._context, number)
            if seeds_globals and not operation.only_stacks:
                step = seeded(step, self._context, number, held.get(number, ()))
            self._steps.insert(
                0, step if clock is None else clock.around(step, number - stage.first)
            )
        self._hooks = self._context.take_hooks()
        self._faults = FaultFinder(pipeline, stage, self._context)
        self._below_join = pipeline.is_below_join(stage)
        self._tracks = stage.reads_position or self._tags_rows or seeds_globals
        self._inputs: Inputs | None = None  # of the task that is being done
        self._place, self._inputs_per_unit, self._positions_per_input = 0, stage.unit, 1
        # that are called with a batch of columns
        self.functions: list[Callable[[Element], Any]] = []
        # inputs are records, of which the plan knows the positions
        in_place = stage.leaf is not None
        self._fused = fused_at_front(
            stage.operations, stage.first, self._context if in_place else None
        )
        self._take_all = self._hooks.take_all.get(stage.first + len(self._fused))
        self._in_bulk = clock is None and not seeds_globals and self._may_push_all()

    def close(self) -> None:
        """Release the elements that a failed task has left inside the connected operations.

        Otherwise reference cycles would keep these elements in memory.
        """
        vars(self).clear()

    def _may_push_all(self) -> bool:
        """Return True if all inputs may be processed in one call.

        There are two such cases. Either all operations are fused (maps and filters that run in C),
        and the input of each row is recorded. Or the first operation that is not fused takes all
        elements in one call, and no later operation needs a position.
        """
        others = self._stage.operations[len(self._fused) :]
        if not others:
            return self._tags_rows
        # a group makes one unit, which stands where it begins
        one_place = self._stage.leaf is None or not self._tags_rows
        return (
            self._take_all is not None
            and one_place
            and not any(one.reads_position for one in others)
        )

    def enter_after_batch(self, batch_size: int) -> None:
        """From now on, take whole batches of `batch_size` records as inputs, instead of records.

        The first operation, which makes batches, is then left out.
        """
        self._place, self._positions_per_input = 1, batch_size
        self._inputs_per_unit //= batch_size
        self._faults = FaultFinder(self._pipeline, self._stage, self._context, batch_size)
        self.functions = plain_at_front(self._stage.operations[1:])

    def run_span(
        self, span: SpanTask, inputs: Sequence[Any], read_failure: Exception | None
    ) -> Block:
        """Process the records of a task; return a block with the resulting rows, up to a failure.

        Args:
            span: the task, on consecutive positions.
            inputs: its records, or all before the one that could not be read.
            read_failure: exception that ended the reading; it becomes the failure of the block.
                None if all records were read.
        """
        return self._run(self.inputs_of_span(span, inputs), read_failure)

    def run_unit(
        self,
        span: SpanTask,
        inputs: Sequence[Any],
        read_failure: Exception | None,
        made: list[Element],
    ) -> Block | None:
        """Process the records of one element, and append the element to `made`.

        Args:
            span: task of these records.
            inputs: the records.
            read_failure: exception that ended the reading, or None.
            made: list to which the element is appended.

        Returns:
            None; or, if the element could not be made, a block (the rows of a task) with the
            failure.
        """
        failed = self._push(self.inputs_of_span(span, inputs), read_failure)
        if failed is None:
            made += self._rows.elements
            self._rows.elements.clear()
            self._inputs = None
        return failed

    @property
    def makes_one_of_each(self) -> bool:
        """True if elements can be made of batches by only calling the list `functions` in order.

        For that, `functions` must be all operations after the batch, each must make one element of
        one element, and none may need its position. No clock may time the operations.
        """
        return (
            self._place + len(self.functions) == len(self._stage.operations)
            and self._stage.one_to_one
            and not self._tracks
        )

    def failed_at(self, called: int, error: Exception, inputs: Inputs) -> Block:
        """Return a block (a task's rows) that ends with a failure at the last input that was taken.

        Args:
            called: how many operations after the batch had returned; -1 if the batch itself failed.
            error: the failure.
            inputs: the inputs of the task.
        """
        self._inputs = inputs
        if called >= 0:
            self._context.blame(self._stage.first + self._place + called)
        return self._failed_at_last(error, inputs)

    def inputs_of_span(self, span: SpanTask, inputs: Sequence[Any]) -> Inputs:
        self._read, self._context.only = span.leaf, span.only
        leaf = self._pipeline.every_leaf[span.leaf]

        def positions() -> NDArray[np.int64]:
            return leaf.positions(span.start, span.stop)[:: self._positions_per_input]

        def tags() -> NDArray[np.int64]:
            return self._tags_of(positions())

        made_of = min(len(inputs) * self._positions_per_input, span.stop - span.start)
        return Inputs(iter(inputs), len(inputs), made_of, positions, tags, (), self._place)

    def run_group(self, task: GroupTask, parts: Parts) -> Block:
        order = None if task.order is None else np.frombuffer(task.order, dtype=np.int32)
        tags, rows = tags_of(parts, order)
        positions = self._positions_of(tags, task)
        self._context.only = task.only
        self._read = int(tags[0]) % len(self._pipeline.every_leaf)
        if batches_columns(self._stage, parts):
            columns = [(block.elements, start, stop) for block, start, stop in parts]
            # made when it is asked for: that may fail
            batch = map(batch_of, [columns], [self._context.allocate], [order])
            return self._run(
                Inputs(batch, 1, len(tags), lambda: positions[:1], lambda: tags[:1], rows, 1)
            )
        elements = elements_of(parts)
        if order is not None:
            elements = list(map(elements.__getitem__, order.tolist()))
        count = len(elements)
        return self._run(
            Inputs(iter(elements), count, count, lambda: positions, lambda: tags, rows, 0)
        )

    def _name_of(self, inputs: Inputs, number: int) -> int:
        """Return the tag (a number that stands for a record) of the input with index `number`.

        Return -1 if the record is unknown, because the input comes from joined streams.
        """
        return -1 if self._below_join and not self._stage.on_join else int(inputs.tags()[number])

    def _positions_of(self, tags: NDArray[np.int64], task: GroupTask) -> NDArray[np.int64]:
        """Return the position, over all shards, of each row of a task, given the rows' tags.

        A tag is a number that stands for a record. If the rows come from joined streams, return the
        indices of the rows in the joined stream.
        """
        if self._stage.on_join:
            shard = self._pipeline.shard_of(task.former)
            return (
                task.first + np.arange(len(tags), dtype=np.int64)
            ) * shard.shard_count + shard.shard_index
        positions: NDArray[np.int64] = (
            tags if self._below_join else tags // len(self._pipeline.every_leaf)
        )
        return positions

    def _tags_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._below_join:
            return positions
        return self._pipeline.tags_of(self._read, positions)

    def _run(self, inputs: Inputs, read_failure: Exception | None = None) -> Block:
        return self._push(inputs, read_failure) or self._ended(self._made())

    def _made(self) -> Block:
        """Return a block with the rows that the task has made so far, and forget these rows."""
        if self._tags_rows:
            return self._rows.block(self._tags_of)
        elements = self._rows.elements.copy()
        self._rows.elements.clear()  # the last operation appends to this list
        return Block.of(elements)

    def _push(self, inputs: Inputs, read_failure: Exception | None) -> Block | None:
        """Process a task's inputs with all operations of its stage.

        Return None; or, after a failure, a block with the rows before it and the failure, which is
        `read_failure` if no operation failed.
        """
        self._inputs, self._context.most = inputs, inputs.made_of
        try:
            if self._clock is not None:
                self._clock.begin(inputs.elements)
            if self._in_bulk and inputs.place == 0:
                self._push_all(inputs)
            else:
                self._push_each(inputs)
            if read_failure is not None:
                self._look_at_waiting()
                return self._failed(read_failure, inputs.count // self._inputs_per_unit)
            # connected from the back, to be ended from the front
            for finish in reversed(self._hooks.at_end):
                finish()
            if self._clock is not None:
                self._clock.end(
                    inputs.made_of, lambda left: self._name_of(inputs, inputs.count - left - 1)
                )
        except Exception as last:
            # it came at any line, so rows and their origins need not match
            raise_if_of_signal_handler(last)
            # no variable of this frame, which its traceback holds, keeps the error
            return self._failed_at_last(last, inputs)
        return None

    def _failed_at_last(self, last: Exception, inputs: Inputs) -> Block:
        error = self._first_error(last)
        return self._failed(
            self._faults.explained(error, inputs), inputs.last // self._inputs_per_unit
        )

    def place_now(self) -> str:
        """Return a text that says which input is being processed; "" if there is none.

        Other threads may call this.
        """
        inputs = self._inputs
        return "" if inputs is None else self.place_in(inputs)

    def place_in(self, inputs: Inputs) -> str:
        return self._faults.place_of_last(inputs)

    def _look_at_waiting(self) -> None:
        """Raise the error of the first element that waits for a batch and does not fit into it."""
        for look in self._hooks.at_failure:
            look()

    def _first_error(self, error: Exception) -> Exception:
        """Return the error that comes first in the order of elements.

        If an earlier element still waits to be copied into a batch, and does not fit into it,
        return the error of this element; otherwise `error`.
        """
        fault, self._context.fault = self._context.fault, None
        try:
            self._look_at_waiting()
        except Exception as earlier:
            if earlier.__context__ is error:
                earlier.__context__ = None
            return earlier
        self._context.fault = fault
        return error

    def _push_each(self, inputs: Inputs) -> None:
        """Process a task's inputs one by one.

        Before each input, store its position, row and seed in the context, if an operation needs
        them, or if it is recorded of which input each row was made.
        """
        push, context = self._steps[inputs.place], self._context
        if not self._tracks:
            for element in inputs.elements:
                push(element)
            return
        positions, seeds = self._places_of(inputs)
        if not self._tags_rows and seeds is None:
            for context.position, element in zip(positions.tolist(), inputs.elements):
                push(element)
            return
        numbers = range(0, len(positions) * self._positions_per_input, self._positions_per_input)
        each_seed = repeat(context.seed) if seeds is None else seeds.tolist()
        rows = inputs.rows or repeat(0)
        each = zip(numbers, positions.tolist(), rows, each_seed, inputs.elements)
        for context.input, context.position, context.row, context.seed, element in each:
            push(element)

    def _places_of(self, inputs: Inputs) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None]:
        """Return the inputs' positions and seeds; None for the seeds if all have the same seed."""
        positions = inputs.positions()
        return positions, None if self._below_join else self._leaf.sampler.seeds(positions)

    def _push_all(self, inputs: Inputs) -> None:
        """Process all inputs of a task in one call, and store the results.

        If an operation takes all elements at once, such as a `Batch`, it gets the results of the
        maps and filters before it. Otherwise these are the task's rows. An operation's error is
        raised.
        """
        passage = FusedMapFilter(
            self._fused, inputs.elements, inputs.count, lambda: self._places_of(inputs)
        )
        try:
            if self._take_all is None:
                self._rows.keep_all(passage, inputs)
            else:
                self._stand_at_first(inputs)
                self._take_all(passage.elements)
            if not passage.ended:
                raise StopIteration
        except Exception:
            self._context.blame(self._stage.first + passage.at_fault())
            raise

    def _stand_at_first(self, inputs: Inputs) -> None:
        if self._tags_rows:
            self._context.position = int(inputs.positions()[0])
            self._context.row = inputs.rows[0] if inputs.rows else 0

    def _ended(self, block: Block) -> Block:
        self._inputs = None
        return block

    def _failed(self, error: Exception, unit: int) -> Block:
        return self._ended(self._rows.failed(error, self._tags_of, unit, self._stage.unit))

    def _now(self) -> tuple[FaultFinder, Inputs | None]:
        return self._faults, self._inputs
