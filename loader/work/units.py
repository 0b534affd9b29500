"""Tasks of several batches, each of which is made only when the caller asks for it.

Such tasks run in the calling thread.

In: a task of several batches. Out: its batches, one by one. A task has a cost of its own, so it is
cheaper to run one task for several batches. Each batch is made in the memory that the batch before
it released, from records that are still in the processor's caches.

If batches are copied straight from columns (arrays with all records), and then go only through
functions, a batch takes microseconds. So hardly anything is done besides copying it and calling the
functions. Batches that are timed, or watched for draws from global random generators, are an
exception: the worker makes each of these as a task of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import length_hint
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ..interrupts import raise_if_of_signal_handler
from ..plan.pipeline import Pipeline
from .tasks import Block, Failure, RecordsAhead, SpanTask, Units

if TYPE_CHECKING:
    from .reader import Gathering
    from .steps.chain import StepChain
    from .worker import Worker


class MakesUnits(Protocol):
    """Interface of an executor that makes a task's elements one by one, when the caller asks."""

    def begin(self, task: SpanTask) -> RecordsAhead | None:
        """Begin to read a task's records.

        Return a function that waits for the records; None if they are not read in advance.
        """

    def reads_in_place(self, task: SpanTask) -> bool:
        """Return True if the calling thread should read a task's records itself.

        This is so if reads take very little time, or if the source is never read in advance.
        """

    def column_units(self, task: SpanTask) -> Units | None:
        """Return an object that makes a task's elements from columns (arrays with all records).

        Return None if the elements cannot be made from columns.
        """

    def run_unit(self, task: SpanTask, ahead: RecordsAhead | None, made: list[Any]) -> Block | None:
        """Make the next element of a task, and append it to `made`.

        Args:
            task: task of only this element.
            ahead: function that waits for its records, or None if they are not read in advance.
            made: list to which the element is appended.

        Returns:
            None in most cases. If there is a failure, or if there are times or warnings: a block
            (the result of a task) with these, and without rows.
        """

    def note_units(self, units: int, seconds: float) -> None:
        """Record that a task of `units` elements took `seconds` seconds.

        The executor chooses the number of elements of the next tasks from this.
        """


class InlineUnits(Units):
    """A task of several elements, each of which is made only when the caller asks for it.

    The object is also the task's handle (the result to come).

    Args:
        executor: makes the elements.
        task: the task.
        unit: number of positions of which one element is made.
    """

    def __init__(self, executor: MakesUnits, task: SpanTask, unit: int) -> None:
        super().__init__()
        self._executor, self._task, self._unit = executor, task, unit
        self._left = iter(range(task.start, task.stop, unit))
        self._count = -(-(task.stop - task.start) // unit)
        self._begun: deque[RecordsAhead | None] = deque()
        self._seconds = 0.0

    def ready(self) -> bool:
        return False

    def result(self) -> Block:
        return Block(self._count, units=self._executor.column_units(self._task) or self)

    def make(self) -> Failure | None:
        began = perf_counter()
        task = self._part(next(self._left))
        block = self._executor.run_unit(task, self._reading_of(task), self.made)
        if block is None:
            self._sums.count(task.stop - task.start, 1)
        else:
            block.moments = began, began, perf_counter()
            self._note(task, block)
        self._seconds += perf_counter() - began
        if task.stop == self._task.stop:
            self._executor.note_units(self._count, self._seconds)
        return None if block is None else block.failure

    def _part(self, start: int) -> SpanTask:
        stage, _, _, leaf, *_ = self._task
        return SpanTask(stage, start, min(start + self._unit, self._task.stop), leaf)

    def _reading_of(self, task: SpanTask) -> RecordsAhead | None:
        """Begin to read the records of one element.

        Return a function that waits for the records; None if they are not read in advance. If other
        threads read them, the first call begins to read the records of all elements of the task.
        """
        if not self._begun:
            if self._executor.reads_in_place(task):
                return self._executor.begin(task)
            starts = range(task.start, self._task.stop, self._unit)
            self._begun.extend(self._executor.begin(self._part(start)) for start in starts)
        return self._begun.popleft()


def has_units(pipeline: Pipeline) -> bool:
    """Return True if a task of this pipeline may make several batches one by one, when asked for.

    The batches must be made of consecutive positions, and the order of these must be known when the
    run begins. Return False for batches of columns (arrays with all records) without further
    operations, because making several of these at once is faster than one by one.
    """
    only_columns = pipeline.columns is not None and len(pipeline.operations) == 1
    known = pipeline.aligned and not pipeline.leaf.in_order and pipeline.leaf.growth is None
    return known and pipeline.stages[0].groups and not only_columns


class ColumnUnits(Units):
    """The elements of a task, each made from a batch of columns (arrays with all records).

    This object makes most elements. The worker makes elements that are timed, or watched for draws
    from global random generators.

    Args:
        worker: makes the elements that are timed or watched.
        chain: the operations of the task's stage, connected.
        task: the task.
        gathering: makes the batch of each other element, and knows where each batch begins.
        note_units: function that is called after the last element, with the number of elements and
            an estimate of the seconds that all took: the seconds of the last element, times their
            number.

    Attributes:
        starts: for each batch, the index of its first row, counted from the beginning of the task.
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
        """Return a task for only the batch that begins at row `start` of the whole task."""
        stage, first, stop, leaf, *_ = self._task
        return SpanTask(stage, first + start, min(first + start + self.starts.step, stop), leaf)

    def place_now(self) -> str:
        """Return a text that names the first record of the batch that is being made.

        Other threads may call this.
        """
        return self._chain.place_in(self._inputs)
