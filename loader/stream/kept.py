"""Rows that are kept in memory when they come for the first time, to be given again.

In: runs of rows, from the first to the last. Out: the same, and again the same.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from .pull import Ended, Pull
from .rows import JoinedRows, RowRun, Rows


class Keeping:
    """Gives rows, and keeps them; once all have come, `done` is given them."""

    def __init__(self, runs: Pull[Rows], done: Callable[[Sequence[Rows]], None]) -> None:
        self._runs = runs
        self._done = done
        self._kept: list[Rows] = []

    def fill(self) -> None:
        """Nothing runs ahead of the first row."""

    def next(self, wait: bool) -> Rows | Ended | None:
        """The next rows."""
        run = self._runs.next(wait)
        if isinstance(run, Ended):
            if run.failure is None:
                self._done(self._kept)
            return run
        if run is not None:
            run = _to_keep(run)
            self._kept.append(run)
        return run


class Kept:
    """Rows that were kept, from the first to the last."""

    def __init__(self, rows: Sequence[Rows]) -> None:
        self._rows = iter(rows)

    def fill(self) -> None:
        """All are at hand."""

    def next(self, wait: bool) -> Rows | Ended:
        """The next rows."""
        return next(self._rows, None) or Ended()


class KeptRun(RowRun):
    """Rows of a block, which keeps them: each is given as a copy, as the user may change it."""

    __slots__ = ()

    def take(self, row: int) -> Any:
        return copy.deepcopy(self.block.elements[row])


def _to_keep(rows: Any) -> Rows:
    if isinstance(rows, JoinedRows):
        parts = [[(_to_keep(each), start, stop) for each, start, stop in part] for part in rows.parts]
        return dataclasses.replace(rows, parts=parts)
    assert isinstance(rows, RowRun), "rows are those of a block, or joined"
    return KeptRun(rows.origin, rows.start, rows.stop, rows.number, rows.block_number, rows.block)
