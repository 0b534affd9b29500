"""The last tasks, a row of numbers each, in memory that is used again and again.

In: numbers. Out: columns. Objects that are kept would cost several times as much: for each, memory that no cache holds.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .times import Moments, TaskTimes

KEPT = 2000
"""Tasks. Chosen: some seconds of many small ones, in a quarter of a megabyte."""

_INTS = ("block", "stage", "start", "stop", "worker", "inputs", "rows", "nbytes", "tasks")
_FLOATS = ("submitted", "asked", "taken", "began", "ended", "reading", "packing", "under_way")
_ROW = Struct(f"={len(_INTS)}q{len(_FLOATS)}d")
_DTYPE = np.dtype([*((name, "=i8") for name in _INTS), *((name, "=f8") for name in _FLOATS)])

Rows: TypeAlias = NDArray[Any]
"""One for each task; the columns have the names of what they tell."""


class Ledger:
    """Rows are written by one thread; `count` of them so far."""

    def __init__(self) -> None:
        self.count = 0
        self._memory = bytearray(KEPT * _ROW.size)
        self._rows: Rows = np.frombuffer(self._memory, _DTYPE)

    def write(self, block: int, stage: int, start: int, stop: int, times: TaskTimes, moments: Moments) -> None:
        """Write a row in the place of the oldest one."""
        worker, began, ended, reading, packing, inputs, rows, nbytes, under_way, tasks, _ = times
        at = self.count % KEPT * _ROW.size
        ints = block, stage, start, stop, worker, inputs, rows, nbytes, tasks
        _ROW.pack_into(self._memory, at, *ints, *moments, began, ended, reading, packing, under_way)
        self.count += 1

    def since(self, number: int) -> Rows:
        """A copy of the rows from this number on, at most the last `KEPT`, oldest first."""
        count = self.count
        return self._rows[np.arange(max(number, count - KEPT, 0), count) % KEPT]
