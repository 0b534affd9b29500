"""Cuts ordered rows into groups, each of which makes one unit of the next stage.

In: runs of rows. Out: requests for one unit of rows each, the last one maybe smaller. Looks at counts alone, never at a row.
Rows that are too few for any group are a failure, if they are all that a whole stream has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...errors import EmptyStreamError
from ..plan.cursor import Cursor
from ..plan.stages import Stage
from ..work.tasks import Failure, GroupTask
from .provenance import Provenance
from .pull import Ended, Pull
from .rows import BlockRows, Request, Rows, RowsOf


class Regroup:
    """Groups of rows for a stage, from a cursor on, each of `size()`; `whole` if these are all rows of a whole stream.

    The size may be any where single rows make a unit: a state counts what came of the rows since a group began, whatever
    groups they are put in later. Of what is left of a former shard it is that of the plan: see `Flow`.
    """

    def __init__(
        self,
        runs: Pull[Rows],
        stage: Stage,
        start: Cursor,
        size: Callable[[], int],
        whole: bool,
        former: int = 0,
    ) -> None:
        self._runs = runs
        self._stage = stage
        self._size_of_next = size
        self._size = size()
        self._each_alone = stage.one_to_one and not stage.groups
        self._start = self._stop = start
        self._whole = whole
        self._former = former
        self._run: Rows | None = None
        self._used = 0
        self._parts: list[RowsOf] = []
        self._count = 0
        self._ended: Ended | None = None

    def next(self, wait: bool) -> Request | Ended | None:
        """The next group."""
        while self._count < self._size:
            if self._run is None:
                run = self._ended or self._runs.next(wait)
                if run is None:
                    return None
                if isinstance(run, Ended):
                    self._ended = run
                    return run if self._count == 0 else self._last(run)
                self._run, self._used = run, run.start
            self._take(self._run)
        return self._group()

    def _last(self, ended: Ended) -> Request | Ended:
        """The group of rows that are fewer than a unit, at the end, or before a failure."""
        if ended.failure is not None:
            return ended if self._stage.groups else self._group()
        useful = self._stage.useful(self._count)
        if useful > 0:
            self._cut(useful)
            return self._group()
        operation, count = self._stage.starved(self._count)
        if not (self._whole and operation.needs_one):
            return ended
        return Ended(
            Failure(
                EmptyStreamError(
                    f"the stream is empty: only {count} rows came to a batch of {operation.takes}, and drop_remainder=True "
                    "drops them. Pass a smaller batch_size, or drop_remainder=False."
                )
            )
        )

    def _cut(self, count: int) -> None:
        """Leave out all rows of the group but the first ones."""
        while self._count > count:
            run, start, stop = self._parts.pop()
            over = min(self._count - count, stop - start)
            self._count -= over
            if over < stop - start:
                self._parts.append((run, start, stop - over))

    def _take(self, run: Rows) -> None:
        """Move rows of the run into the group, as many as there is room for."""
        stop = min(run.stop, self._used + self._size - self._count)
        self._parts.append((run, self._used, stop))
        self._count += stop - self._used
        self._used = stop
        self._stop = run.origin.cursor_after(stop - 1)
        if stop == run.stop:
            self._run = None

    def _group(self) -> Request:
        parts, start, stop = self._parts, self._start, self._stop
        self._start, self._parts, self._count, self._whole = stop, [], 0, False
        self._size = self._size_of_next()
        rows, order = _of_blocks(parts)
        first, at, _ = parts[0]
        ranges = tuple((block.number, begin, end) for block, begin, end in rows)
        task = GroupTask(self._stage.number, ranges, order, first.number + at, self._former)
        inputs = tuple((run.origin, begin, end) for run, begin, end in parts)
        origin = Provenance(self._stage, start, stop, inputs=inputs, alone=self._each_alone)
        return Request(task, origin, {block.number: block.block for block, _, _ in rows})


def _of_blocks(parts: list[RowsOf]) -> tuple[list[BlockRows], bytes | None]:
    """All rows as those of blocks, and their order among these."""
    found: list[BlockRows] = []
    orders: list[NDArray[np.int64]] = []
    done, as_they_stand = 0, True
    for run, start, stop in parts:
        blocks, order = run.of_blocks(start, stop)
        found += blocks
        as_they_stand = as_they_stand and order is None
        orders.append((np.arange(stop - start) if order is None else order) + done)
        done += stop - start
    return found, None if as_they_stand else np.concatenate(orders).astype(np.int32).tobytes()
