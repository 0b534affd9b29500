"""The rows of a stage, in order, each of which knows where it comes from.

In: blocks in order. Out: the same rows, in runs; rows that were delivered before a restore are left out.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...errors import NothingPassesError, TooManyErrorsError
from ..plan.cursor import Cursor
from ..plan.leaf import Leaf
from ..plan.stages import Stage
from ..timing.observer import Observer
from ..work.notices import Notices
from ..work.tasks import Block, Failure, GroupTask, SpanTask, input_count
from .ordered import Results
from .provenance import Provenance
from .pull import Ended
from .rows import NumberedBlock, Request, Rows

BARREN_EPOCHS = 8
"""Epochs' worth of positions that one shard of several may read without any row."""

MIN_BARREN_GROUPS = 100
"""Groups in a row that may come to nothing, however few positions an epoch has."""


_LOGGER = logging.getLogger("headrace")


@dataclass
class SkippedRecords:
    """Those of one iterator, since it was opened.

    Attributes:
        limit: how many may be skipped; None for any number.
        count: how many were.
    """

    limit: int | None = None
    count: int = 0

    def note(self, skipped: Sequence[str]) -> Failure | None:
        """Count and log these."""
        for message in skipped:
            self.count += 1
            _LOGGER.warning("skipped: %s", message)
            if self.limit is not None and self.count > self.limit:
                text = f"{self.count} records or batches failed, more than max_errors={self.limit}; the last one: {message}"
                return Failure(TooManyErrorsError(text))
        return None


class StageOutput:
    """The rows of a stage, from a cursor on. No two blocks of an iterator share one of the `numbers`."""

    def __init__(
        self,
        results: Results,
        leaf: Leaf,
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
        self._after_held: Rows | Ended | None = None
        self._skipped = skipped
        self._notices = Notices()
        self._guard = EmptyStreamGuard(leaf, start)
        self._numbers = numbers
        self._observer = observer
        self._sums = observer.stage(stage.number)
        self._sums.batches = stage.groups
        self._unit = stage.unit
        self._single = stage.leaf is None and not stage.groups  # rows are put in groups of any size

    def fill(self) -> None:
        """Have work begin, without waiting."""
        self._results.fill()

    def next(self, wait: bool) -> Rows | Ended | None:
        """The next rows, at least one."""
        if self._after_held is not None:
            found, self._after_held = self._after_held, None
            return found
        while True:
            result = self._results.next(wait)
            if result is None:
                return None
            if isinstance(result, Ended):
                return self._released(result)
            request, block = result
            number = next(self._numbers)
            sums = self._sums
            sums.tasks += 1
            task = request.task
            made_of = task.stop - task.start if isinstance(task, SpanTask) else input_count(task)
            sums.inputs += made_of if block.stand is None else block.stand.read
            sums.rows += block.count
            if block.times is not None:
                self._observer.note(number, request.task, block)
            if block.notices:
                self._notices.warn(block.notices)
            if block.skipped and (failure := self._skipped.note(block.skipped)) is not None:
                return self._released(Ended(failure))
            skip, before = self._skipped_rows(request, block) if self._skip else 0, self._before
            self._before = before + block.count if request.pieces_left else 0
            rows = request.rows(NumberedBlock(number, block), skip, before) if block.count > skip else None
            if request.pieces_left or self._held is not None:
                rows = self._of_piece(request, rows, block.failure is not None)
            if block.count:
                self._guard.end(request)
            if rows is not None:
                return rows
            if block.count:
                continue
            if block.failure is not None:
                continue  # the results tell it next; how much came before it says nothing about what passes
            if (failure := self._guard.go_on(request)) is not None:
                return Ended(failure)

    def _of_piece(self, request: Request, rows: Rows | None, failed: bool) -> Rows | None:
        """The rows to give now. The last ones so far wait: if no others come, the unit ends with them."""
        held = self._held
        if rows is None:
            if held is not None and not request.pieces_left:
                assert isinstance(held.origin, Provenance), "rows of a piece are those of one block"
                held.origin.open, self._held = failed, None
                return held
            return None
        self._held = rows if request.pieces_left else None
        if held is None or self._held is not None:
            return held if self._held is not None else rows
        self._after_held = rows
        return held

    def _released(self, ended: Ended) -> Rows | Ended:
        """The rows that wait, and then the end."""
        if self._held is None:
            return ended
        held, self._held, self._after_held = self._held, None, ended
        return held

    def _skipped_rows(self, request: Request, block: Block) -> int:
        """The number of the first rows that were delivered before a restore."""
        skip = self._skip
        if block.tags is not None and request.origin.leaf is not None:
            first_unit = bisect_left(
                block.tags.inputs, self._unit
            )  # what is before it; no more than that was delivered of
            skip = min(skip, first_unit)
        self._skip = max(self._skip - block.count, 0) if request.pieces_left or self._single else 0
        return skip


class EmptyStreamGuard:
    """Notices when nothing passes the operations of an endless stream any more."""

    def __init__(self, leaf: Leaf, start: Cursor) -> None:
        self._leaf = leaf
        self._since = start.positions[0]
        self._groups = 0

    def end(self, request: Request) -> None:
        """Rows came of a task."""
        self._since, self._groups = request.origin.stop.positions[0], 0

    def go_on(self, request: Request) -> Failure | None:
        """A task came to no rows. A failure when that has gone on for whole epochs of an endless stream."""
        in_groups = isinstance(request.task, GroupTask)
        self._groups += in_groups
        enough = not in_groups or self._groups >= MIN_BARREN_GROUPS
        if not self._leaf.endless or not enough or request.stop < self._limit():
            return None
        return Failure(
            NothingPassesError(
                f"no element came out of the operations for {request.stop - self._since} records in a row of an endless "
                f"stream, and an epoch has {self._leaf.epoch_length}: a Filter, a FlatMap or on_error='skip' drops everything. "
                "Check its condition, or pass num_epochs= to let the stream end."
            )
        )

    def _limit(self) -> int:
        """The local position at which it is certain that no record passes.

        An epoch that began after the last row and ended without one has shown every record. A shard is shown its part of
        them only, another one in each epoch; a single good record would be missing from all of these with probability
        exp(-BARREN_EPOCHS).
        """
        shard, epoch = self._leaf.shard, self._leaf.epoch_length
        dense_from, offset = self._leaf.lineage.dense_from  # before that, positions come in no order
        last = max(shard.global_position(self._since), dense_from) + offset
        epochs = 1 if shard.shard_count == 1 else BARREN_EPOCHS * shard.shard_count
        return -(-((last // epoch + 1 + epochs) * epoch - offset) // shard.shard_count)
