"""Rows that come before those of the shard of now: what shards of former runs had begun, from where they stood to its end.

In: rows of former shards, and those of the shard of now. Out: all of them in this order, with cursors of the shard of now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..plan.cursor import Cursor, Unfinished
from ..plan.parts import Part
from ..plan.pipeline import Pipeline
from .pull import Ended, Pull
from .rows import BlockRows, Origin, Records, Rows


class Runs(Pull[Rows], Protocol):
    """Rows that can be worked on ahead."""

    def fill(self) -> None:
        """Have work begin, without waiting."""


class UnfinishedRuns:
    """The rows of a part: of the `rests`, which are unfinished, and then the shard of now's `own`, from `start` on."""

    def __init__(
        self,
        pipeline: Pipeline,
        part: Part,
        rests: Sequence[Unfinished],
        start: Cursor,
        open_: Callable[[Unfinished], Pull[Rows]],
        own: Runs,
    ) -> None:
        self._pipeline = pipeline
        self._part = part
        self._rests = tuple(rests)
        self._start = start
        self._open = open_
        self._own = own
        self._rows: Pull[Rows] | None = None
        self._over = 0  # rows that were delivered

    def fill(self) -> None:
        """Have work begin, without waiting."""
        self._own.fill()

    def next(self, wait: bool) -> Rows | Ended | None:
        """The next rows."""
        while self._rests:
            rest = self._rests[0]
            if self._rows is None:
                self._rows, self._over = self._open(rest), rest.delivered
            run = self._rows.next(wait)
            if run is None or (isinstance(run, Ended) and run.failure is not None):
                return run
            if isinstance(run, Ended):
                self._rests, self._rows = self._rests[1:], None
            elif (found := self._up_to_end(rest, run)).start < found.stop:
                return found
        return self._own.next(wait)

    def _up_to_end(self, rest: Unfinished, run: Rows) -> RestOfRows:
        """Those of the rows that belong to what was begun."""
        stop = next(
            (row + 1 for row in range(run.start, run.stop) if self._is_end(rest, run.origin.cursor_after(row))), None
        )
        left = self._rests[1:]
        start = min(run.start + self._over, run.stop if stop is None else stop)
        self._over -= start - run.start
        if stop is not None:
            self._rests, self._rows = left, None
        origin = RestOrigin(run.origin, rest, self._start, left, -1 if stop is None else stop - 1)
        return RestOfRows(origin, start, run.stop if stop is None else stop, run.number, run)

    def _is_end(self, rest: Unfinished, cursor: Cursor) -> bool:
        begun = self._pipeline.begun_at(self._part, cursor)
        return not begun if rest.stage is None else rest.stage not in begun


@dataclass(frozen=True, slots=True)
class RestOrigin:
    """Of rows of a former shard."""

    origin: Origin  # there
    rest: Unfinished  # what they belong to
    start: Cursor  # where the shard of now begins
    left: tuple[Unfinished, ...]  # what else is unfinished
    last: int  # the last row of what was begun; -1 if it is not among these

    def records(self, row: int) -> Records:
        """The records that a row was made of."""
        return self.origin.records(row)

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row."""
        rest = dataclasses.replace(self.rest, cursor=self.origin.cursor_after(row), delivered=0)
        left = self.left if row == self.last else (rest, *self.left)
        return self.start._replace(unfinished=(*left, *self.start.unfinished))


@dataclass(slots=True)
class RestOfRows(Rows):
    """Rows of a former shard, as the shard of now delivers them."""

    rows: Rows

    def take(self, row: int) -> Any:
        return self.rows.take(row)

    def of_blocks(self, start: int, stop: int) -> tuple[list[BlockRows], NDArray[np.int64] | None]:
        return self.rows.of_blocks(start, stop)
