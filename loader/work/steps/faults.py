"""Find the record on which an operation failed, and explain the failure to the user.

In: an exception, and the inputs of the task. Out: the same exception with a note that names
operation and record. A StopIteration would end the stream without an error, so it is replaced by a
StopIterationError whose message names operation and record. Nothing is computed before a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....common.messages import first_few
from ....errors import BatchError, BatchMemoryError, NoElementError, PackError
from ....operations.protocol import Context
from ..explain import explained, keys_of_tags, maker_for, name_of, place, place_beside
from .inputs import Inputs

if TYPE_CHECKING:
    from ...plan.pipeline import Pipeline
    from ...plan.stages import Stage


@dataclass(frozen=True, slots=True)
class FaultFinder:
    """Finds the record on which an operation of a stage (operations that run in one task) failed.

    Attributes:
        pipeline: pipeline of the stage.
        stage: the stage.
        context: state of the stage's operations. Its `fault` says which operation failed.
        positions_per_input: number of positions that each input was made of; more than 1 if inputs
            are batches.
    """

    pipeline: Pipeline
    stage: Stage
    context: Context
    positions_per_input: int = 1

    def keys(self, inputs: Inputs | None) -> list[Any]:
        """Return the keys of the records that fail together: those of a batch, or a single one.

        Return [] if the records are unknown, because they come from joined streams.
        """
        if inputs is None or self._has_joined_rows():
            return []
        first, index = self._at_fault(inputs)
        fault, window = self.context.fault, self.stage.window
        alone = fault is None or (window is not None and fault.number > window)
        stop = first + (1 if alone or fault is None else self._inputs_of(fault.number + 1))
        return keys_of_tags(inputs.tags()[index if alone else first : stop].tolist(), self.pipeline)

    def explained(self, error: Exception, inputs: Inputs | None) -> Exception:
        """Return the exception, with a note that names the operation and the record.

        The exception's traceback then begins at the user's first frame.
        """
        assert inputs is not None, "what fails was pushed"
        (first, tag), fault = inputs.tags()[[*self._at_fault(inputs)]].tolist(), self.context.fault
        number = None if fault is None else fault.number
        if isinstance(error, BatchMemoryError):
            return explained(error, "for want of memory", name_of(self.pipeline, number))
        who = (
            maker_for(self.pipeline, number)
            if isinstance(error, NoElementError)
            else name_of(self.pipeline, number)
        )
        if self._has_joined_rows():
            return explained(error, self._row_of_join(tag), who)
        at_fault, began = self.pipeline.place_of(tag), self.pipeline.place_of(first)
        beside = place_beside(at_fault, began) if isinstance(error, (BatchError, PackError)) else ""
        return explained(error, f"{place(*at_fault)}{beside}", who)

    def place_of_last(self, inputs: Inputs) -> str:
        """Return a text for messages that says which record or row the operations got last."""
        tag = int(inputs.tags()[inputs.last])
        return (
            self._row_of_join(tag)
            if self._has_joined_rows()
            else place(*self.pipeline.place_of(tag))
        )

    def _at_fault(self, inputs: Inputs) -> tuple[int, int]:
        """Return two indices: the first input of the failing batch, and the input at fault.

        Elements wait to be copied into a batch together, so the batch that failed may come before
        the batch of the current input. If no batch failed, both indices are that of the input that
        failed.
        """
        index, fault, window = inputs.last, self.context.fault, self.stage.window
        if fault is None:
            return index, index
        if window is not None and fault.number > window:
            found = int(np.flatnonzero(inputs.positions() == self.context.position)[0])
            return found, found
        of_one, together = (self._inputs_of(number) for number in (fault.number, fault.number + 1))
        first = index - index % together
        return first, first + fault.row * of_one

    def _inputs_of(self, number: int) -> int:
        return max(self.stage.inputs_of(number) // self.positions_per_input, 1)

    def _has_joined_rows(self) -> bool:
        """Return True if inputs were made of joined streams by operations of an earlier stage.

        A stage is a group of operations that run in one task. The records of such inputs are
        unknown.
        """
        return self.pipeline.is_below_join(self.stage) and not self.stage.on_join

    def _row_of_join(self, tag: int) -> str:
        """Return a text for messages that names a row of joined streams.

        It has the row's index and the names of the streams.
        """
        join = self.pipeline.join_below(self.stage)
        return (
            f"at row {tag} of the joined streams {first_few(join.names or range(len(join.inputs)))}"
        )
