"""The rows that a task's operations have made so far, with their origins and skipped failures.

In: the results of the last operation of a stage (operations that run in one task). Out: a block,
which has these rows, in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....operations.protocol import Context, Element, Step
from ...failures import ends_stream
from ..explain import describe_error, forget
from ..row_origins import RowOrigins
from ..tasks import Block, Failure

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline
    from .faults import FaultFinder
    from .fused import FusedMapFilter
    from .inputs import Inputs

Tags: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Function that returns the tags (numbers that name records) of positions."""


class CollectedRows:
    """The rows that a task has made so far; at the end of the task, they are put into a block.

    Args:
        pipeline: pipeline of the stage.
        context: state of the stage's operations, which says from which input a row comes.

    Attributes:
        elements: the rows so far.
        tags: for each row, the source and position from which it comes. None if every row is made
            of a fixed number of consecutive positions, so that its index says from which.
    """

    def __init__(self, pipeline: Pipeline, context: Context) -> None:
        self._pipeline = pipeline
        self._context = context
        self._begin()

    def _begin(self) -> None:
        self.elements: list[Element] = []
        self.tags = None if self._pipeline.aligned else RowOrigins()
        self._skipped: list[str] = []

    def keep(self, element: Element) -> None:
        self.elements.append(element)
        if self.tags is not None:
            self.tags.add(self._context.input, self._context.position, self._context.row)
            if self._pipeline.traced and self._context.packed is not None:
                self.tags.packed_rows.append(self._context.packed)

    def keep_all(self, passage: FusedMapFilter, inputs: Inputs) -> None:
        """Collect all results of maps and filters that run inside C iterators.

        For each result, the input from which it comes is stored, too.

        Args:
            passage: the maps and filters, with the records.
            inputs: inputs of the task.
        """
        assert self.tags is not None, "what nobody asks about is pushed one by one"
        try:
            self.elements.extend(passage.elements)
        finally:
            numbers = passage.numbers(len(self.elements))
            self.tags.extend_each(numbers, inputs.positions(), inputs.rows)

    def around_each(self, step: Step, now: Callable[[], tuple[FaultFinder, Inputs | None]]) -> Step:
        """Return a function that calls `step` for an element, and skips elements that fail.

        If `on_error` does not skip the exception, the exception is raised. Otherwise it is
        recorded, and rows that were already made of the element are removed.

        Args:
            step: function that processes an element.
            now: function that returns the object that finds the record on which an operation
                failed, and the inputs of the current task.
        """

        def guarded(element: Element) -> None:
            assert self.tags is not None, "what may be skipped is tagged"
            count = len(self.elements)
            try:
                step(element)
            except Exception as error:
                faults, inputs = now()
                ending = ends_stream(
                    self._pipeline.skips_errors, error, lambda: faults.keys(inputs)
                )
                if ending is error:
                    raise
                if ending is not None:
                    raise ending  # noqa: B904 - it is the user's own
                del self.elements[count:]
                self.tags.cut(count)
                self._skipped.append(describe_error(failed := faults.explained(error, inputs)))
                forget(failed)
                self._context.fault = None

        return guarded

    def block(self, tags_of: Tags, failure: Failure | None = None) -> Block:
        """Return a block with the rows so far, and begin to collect the rows of the next task.

        Args:
            tags_of: function that returns the tags (numbers that stand for records) of positions.
            failure: failure that ended the task; None if there is none.
        """
        if self.tags is not None and len(self._pipeline.every_leaf) > 1:
            positions = np.array(self.tags.positions, dtype=np.int64)
            self.tags.positions = array("q", tags_of(positions).tobytes())
        block = Block.of(self.elements, self.tags, failure, self._skipped)
        self._begin()
        return block

    def failed(self, error: Exception, tags_of: Tags, unit: int, inputs_per_unit: int) -> Block:
        """Return a block with a failure and all rows made before it.

        If the inputs that failed had already made rows, these are included.

        Args:
            error: the failure.
            tags_of: function that returns the tags (numbers that stand for records) of positions.
            unit: index in the task of the output, such as a batch, that failed.
            inputs_per_unit: number of positions or rows of which one output is made.
        """
        if self.tags is not None:
            self.tags.open = bool(self.elements) and self.tags.inputs[-1] // inputs_per_unit == unit
        return self.block(tags_of, Failure(error))
