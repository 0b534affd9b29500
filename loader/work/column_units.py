"""Tasks of several batches, each made from columns in the calling thread when it is asked for.

In: a task whose batches are copied straight from columns, and then go only through functions. Out:
its elements, one by one. A batch takes microseconds, so hardly anything is done beside copying it
and calling the functions. A batch that is timed or watched is made by the worker, as a task of its
own.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING

from ..interrupts import raise_if_of_signal_handler
from .tasks import Block, Failure, SpanTask, Units

if TYPE_CHECKING:
    from .reader import Gathering
    from .steps.chain import StepChain
    from .worker import Worker


class ColumnUnits(Units):
    """The elements of a task, each made from a batch of columns.

    Args:
        worker: worker that makes those batches that are timed or watched.
        chain: the operations of the task's stage, connected.
        task: the task.
        gathering: makes each batch that is neither timed nor watched, and knows where each batch
            begins.
        note_units: function that is called after the last element, with the number of batches and
            an estimate of the seconds that they took: as if each took as long as the last one.

    Attributes:
        starts: index of the first row of each batch, counted from the beginning of the task.
    """

    def __init__(
        self,
        worker: Worker,
        chain: StepChain,
        task: SpanTask,
        gathering: Gathering,
        note_units: Callable[[int, float], None],
    ) -> None:
        super().__init__()
        self._worker, self._chain, self._task, self._note_units = worker, chain, task, note_units
        self.starts, self._batch_at = gathering
        self._inputs, self._functions = chain.inputs_of_span(task, self.starts), chain.functions
        self._left = self._inputs.elements
        self._untimed = worker.count_untimed(task.stage, len(self.starts))

    def make(self) -> Failure | None:
        start, began = next(self._left), perf_counter()
        failure = (
            self._make_untimed(start, began) if self._untimed else self._make_alone(start, began)
        )
        if start == self.starts[-1]:
            self._note_units(len(self.starts), len(self.starts) * (perf_counter() - began))
        return failure

    def _make_untimed(self, start: int, began: float) -> Failure | None:
        self._untimed -= 1
        worker, called = self._worker, -1  # functions that were called; -1: there is no batch yet
        worker.busy = began, self._task, get_ident()
        worker.units = self
        try:
            element = self._batch_at(start)
            called = 0
            for function in self._functions:
                element = function(element)
                called += 1
            self.made.append(element)
        except Exception as error:
            raise_if_of_signal_handler(error)
            failed = self._chain.failed_at(called, error, self._inputs)
            return self._noted(start, worker.failed_unit(self._task.stage, failed))
        finally:
            worker.busy = worker.units = None
        self._sums.count(min(self.starts.step, self.starts.stop - start), 1)
        return None

    def _make_alone(self, start: int, began: float) -> Failure | None:
        block = self._worker.run(self._part(start))
        block.moments = began, began, perf_counter()
        self.made += block.elements
        block.here = ()
        self._untimed = self._worker.count_untimed(self._task.stage, length_hint(self._left))
        return self._noted(start, block)

    def _noted(self, start: int, block: Block) -> Failure | None:
        self._note(self._part(start), block)
        return block.failure

    def _part(self, start: int) -> SpanTask:
        """Return a task for only the batch that begins at row `start` of the task."""
        stage, first, stop, leaf, *_ = self._task
        return SpanTask(stage, first + start, min(first + start + self.starts.step, stop), leaf)

    def place_now(self) -> str:
        """Return, for messages, the place of the first record of the batch that is being made.

        Other threads may call this.
        """
        return self._chain.place_in(self._inputs)
