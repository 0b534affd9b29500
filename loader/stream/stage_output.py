"""The rows that a stage (operations that run in one task) makes, in order, each with its origin.

The origin of a row tells from which records the row was made, and where the stream continues after
the row. In: blocks (the rows of one task each) in order. Out: the same rows, except those that were
delivered before a restore.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ...errors import TooManyErrorsError
from ..plan.cursor import Cursor
from ..plan.stages import Stage
from ..timing.observer import Observer
from ..work.notices import Notices
from ..work.tasks import Block, Failure, SpanTask, input_count
from .barren import EmptyStreamGuard
from .ordered import Results
from .provenance import Provenance
from .rows import NumberedBlock, Request, Rows, StreamEnd

_LOGGER = logging.getLogger("headrace")


@dataclass
class SkippedRecords:
    """Counts the skipped records of one iterator, since its start or the last `set_state`.

    Attributes:
        limit: largest number of records that may be skipped; None for any number.
        count: number of records skipped so far.
    """

    limit: int | None = None
    count: int = 0

    def note(self, skipped: Sequence[str]) -> Failure | None:
        for message in skipped:
            self.count += 1
            _LOGGER.warning("skipped: %s", message)
            if self.limit is not None and self.count > self.limit:
                text = (
                    f"{self.count} records or batches failed, more than max_errors={self.limit}. "
                    f"Correct them, or pass a larger max_errors=. The last one: {message}"
                )
                return Failure(TooManyErrorsError(text))
        return None


class StageOutput:
    """Supply of the rows of a stage, in order, from a cursor (place in the stream) on.

    A stage is the operations that run in one task. A block has the rows that one task returned.

    Args:
        results: supply of the stage's blocks with their requests, in order.
        make_guard: function that takes a cursor, and returns an object that detects whether no more
            rows come after the cursor.
        start: the cursor.
        skipped: counts skipped records.
        numbers: yields a new number for each block of the iterator.
        observer: gets the times of tasks.
        stage: the stage.
    """

    def __init__(
        self,
        results: Results,
        make_guard: Callable[[Cursor], EmptyStreamGuard],
        start: Cursor,
        skipped: SkippedRecords,
        numbers: Iterator[int],
        observer: Observer,
        stage: Stage,
    ) -> None:
        self._results = results
        self._skip = start.skips[-1]
        self._before = 0  # rows of the task that is being done piece by piece
        self._held: Rows | None = None  # of such a task: the last ones may be those of its end
        self._found: deque[Rows | StreamEnd] = deque()  # what is to be given next
        self._skipped = skipped
        self._notices = Notices()
        self._make_guard, self._since = make_guard, start  # after the last row
        self._guard: EmptyStreamGuard | None = None  # since a task made no rows
        self._numbers = numbers
        self._observer = observer
        self._sums = observer.stage(stage.number)
        self._sums.batches = stage.groups
        self._unit = stage.unit
        self._single = stage.leaf is None and not stage.groups  # rows are put in groups of any size

    def fill(self) -> None:
        self._results.fill()

    def next(self, wait: bool) -> Rows | StreamEnd | None:
        while not self._found:
            result = self._results.next(wait)
            if result is None:
                return None
            if isinstance(result, StreamEnd):
                self._give(result)
            else:
                self._take(*result)
        return self._found.popleft()

    def _take(self, request: Request, block: Block) -> None:
        """Supply the rows of a block; count its rows, times, warnings and skipped records.

        A block is the rows of one task. Rows that were delivered before a restore are left out.
        """
        number, sums, task = next(self._numbers), self._sums, request.task
        if block.units is not None:
            block.units.report_to(sums, partial(self._note_unit, number))
            self._give(request.rows(NumberedBlock(number, block), 0, 0))
            return
        made_of = task.stop - task.start if isinstance(task, SpanTask) else input_count(task)
        sums.tasks += 1
        sums.inputs += made_of if block.stand is None else block.stand.read
        sums.rows += block.count
        if block.times is not None:
            self._observer.note(number, task, block)
        if block.notices:
            self._notices.warn(block.notices)
        if block.skipped and (failure := self._skipped.note(block.skipped)) is not None:
            self._give(StreamEnd(failure))
            return
        skip, before = self._skipped_rows(request, block) if self._skip else 0, self._before
        self._before = before + block.count if request.pieces_left else 0
        if block.count > skip:
            rows = request.rows(NumberedBlock(number, block), skip, before)
            if request.pieces_left:
                self._hold(rows)
            else:
                self._give(rows)
        elif not request.pieces_left and self._held is not None:
            assert isinstance(self._held.origin, Provenance), (
                "rows of a piece are those of one block"
            )
            # if no others come, the unit ends with them
            self._held.origin.open = block.failure is not None
            self._hold(None)
        if block.count:
            self._since, self._guard = request.origin.stop, None
        elif block.failure is None and not self._found:  # after a failure the results tell it next
            self._guard = self._guard or self._make_guard(self._since)
            if (barren := self._guard.go_on(request)) is not None:
                self._found.append(StreamEnd(barren))

    def _note_unit(self, number: int, task: SpanTask, block: Block) -> None:
        """Count an element that was made only when requested; record its times and warnings.

        Args:
            number: number of the block that the element belongs to.
            task: the part of the block's task that made the element.
            block: result of this part, with the element's failure, times or warnings.
        """
        self._sums.count(task.stop - task.start, block.count)
        if block.times is not None:
            self._observer.note(number, task, block)
        if block.notices:
            self._notices.warn(block.notices)

    def _give(self, rows: Rows | StreamEnd) -> None:
        """Supply rows, or the end of the rows; first supply the rows that `_hold` holds back."""
        if self._held is not None:
            self._hold(None)
        self._found.append(rows)

    def _hold(self, rows: Rows | None) -> None:
        """Hold back rows, because a later task may make more rows of the same inputs.

        Rows that were held back by an earlier call are released to the next stage first.

        Args:
            rows: the rows; None: only release the rows of the earlier call.
        """
        if self._held is not None:
            self._found.append(self._held)
        self._held = rows

    def _skipped_rows(self, request: Request, block: Block) -> int:
        """Return how many rows at the beginning of a block were delivered before a restore.

        A block is the rows of one task.
        """
        skip = self._skip
        if block.tags is not None and request.origin.leaf is not None:
            # what is before it; no more than that was delivered of
            skip = min(skip, bisect_left(block.tags.inputs, self._unit))
        self._skip = max(self._skip - block.count, 0) if request.pieces_left or self._single else 0
        return skip
