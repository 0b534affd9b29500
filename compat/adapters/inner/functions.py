"""Functions and constants that programs import from Grain's private modules.

In: arguments, iterators. Out: numbers, statistics.
"""

from __future__ import annotations

import os
from typing import Any

from ..chains.iterators import EngineIterator

PROCESS_KILL_TIMEOUT_S = 25
"""Seconds after which Grain kills a worker that does not end. It has no effect here."""


class PyGrainInternalError(Exception):
    """Grain's error about a fault in Grain itself. headrace does not raise it."""


def determine_worker_count(input_worker_count: int | None) -> int:
    """Return the number of workers; None gives one per CPU.

    >>> determine_worker_count(3)
    3
    """
    return os.cpu_count() or 1 if input_worker_count is None else int(input_worker_count)


def get_execution_summary(iterator: Any) -> Any:
    """Return the statistics of a dataset iterator, like `iterator.stats()`.

    `str()` of them is a table.
    """
    return (iterator.run if isinstance(iterator, EngineIterator) else iterator).stats()
