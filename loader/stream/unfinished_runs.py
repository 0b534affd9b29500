"""Leftover rows of shards of earlier runs, delivered before this shard's own rows.

In: leftovers, i.e. rows of windows and batches that shards of earlier runs had begun to deliver and
not finished; and this shard's own rows. Out: all of these rows in this order, with this shard's
cursors (places in the stream).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from ..plan.cursor import Cursor, Leftover, Subtree
from ..plan.pipeline import Pipeline
from .rows import Pull, Rows, StreamEnd


@dataclass(eq=False)
class UnfinishedRuns:
    """Supply of the rows of a pipeline part: leftovers of earlier shards, then this shard's rows.

    A leftover is the undelivered rows of a window or batch that a shard of an earlier run had begun
    to deliver.

    Attributes:
        pipeline: the pipeline.
        part: part of the pipeline whose rows these are.
        rests: the leftovers, in order.
        start: cursor (place in the stream) before this shard's own rows.
        open: function that opens the rows of a leftover.
        own: this shard's own rows.
    """

    pipeline: Pipeline
    part: Subtree
    rests: tuple[Leftover, ...]
    start: Cursor
    open: Callable[[Leftover], Pull[Rows]]
    own: Pull[Rows]
    _rows: Pull[Rows] | None = None

    def fill(self) -> None:
        self.own.fill()

    def next(self, wait: bool) -> Rows | StreamEnd | None:
        while self.rests:
            rest = self.rests[0]
            if self._rows is None:
                self._rows = self.open(rest)
            run = self._rows.next(wait)
            if run is None or (isinstance(run, StreamEnd) and run.failure is not None):
                return run
            if isinstance(run, StreamEnd):
                self.rests, self._rows = self.rests[1:], None
            else:
                return self._up_to_end(rest, run)
        return self.own.next(wait)

    def _up_to_end(self, rest: Leftover, run: Rows) -> Rows:
        """Return the rows in `run` that belong to a leftover.

        A leftover is the undelivered rows of a window or batch that an earlier shard had begun to
        deliver.

        Args:
            rest: the leftover.
            run: rows of the earlier shard. The leftover's rows come first.
        """
        stop = next(
            (
                row + 1
                for row in range(run.start, run.stop)
                if self._is_end(rest, run.origin.cursor_after(row))
            ),
            None,
        )
        left = self.rests[1:]
        if stop is not None:
            self.rests, self._rows = left, None
        origin, begin = run.origin, self.start

        def cursor_after(row: int) -> Cursor:
            after = dataclasses.replace(rest, cursor=origin.cursor_after(row))
            unfinished = left if row + 1 == stop else (after, *left)
            return begin.with_unfinished(*unfinished, *begin.unfinished)

        return run.with_cursors(cursor_after, run.start, run.stop if stop is None else stop)

    def _is_end(self, rest: Leftover, cursor: Cursor) -> bool:
        return rest.stage not in self.pipeline.begun_at(self.part, cursor)
