"""Cuts ordered rows into groups, each of which makes one unit of the next segment.

In: runs of rows. Out: groups of one unit of rows, the last one maybe smaller. Looks at counts alone, never at a row.
"""

from __future__ import annotations

from .order import Ended, Pull
from .plan import Segment
from .rows import RowRun
from .state import Cursor
from .tasks import Group, Rows


class Rebatch:
    """Groups for segment number `number`; `start` is the cursor at which the first row stands."""

    def __init__(self, runs: Pull[RowRun], number: int, segment: Segment, start: Cursor) -> None:
        self._runs = runs
        self._number = number
        self._segment = segment
        self._size = segment.unit
        self._start = start
        self._run: RowRun | None = None
        self._used = 0
        self._parts: list[Rows] = []
        self._count = 0

    def next(self, wait: bool) -> Group | Ended | None:
        """The next group."""
        while self._count < self._size:
            if self._run is None:
                run = self._runs.next(wait)
                if run is None:
                    return None
                if isinstance(run, Ended):
                    wanted = self._segment.useful(self._count) > 0 and run.failure is None
                    return self._group() if wanted else run
                self._run, self._used = run, run.start
            self._take(self._run)
        return self._group()

    def _take(self, run: RowRun) -> None:
        """Move rows of the run into the group, as many as there is room for."""
        stop = min(run.stop, self._used + self._size - self._count)
        self._parts.append(run.rows(self._used, stop))
        self._count += stop - self._used
        self._used = stop
        self._stop = run.cursor_after(stop - 1)
        if stop == run.stop:
            self._run = None

    def _group(self) -> Group:
        group = Group(self._number, tuple(self._parts), self._start, self._stop)
        self._start, self._parts, self._count = self._stop, [], 0
        return group
