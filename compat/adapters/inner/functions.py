"""Functions and constants that programs import from Grain's private modules.

In: arguments, iterators. Out: numbers, summaries.
"""

from __future__ import annotations

import os
from typing import Any

PROCESS_KILL_TIMEOUT_S = 25
"""Seconds after which Grain kills a worker that does not end. Workers here end at once."""


class PyGrainInternalError(Exception):
    """An error of Grain itself; nothing here raises it."""


def determine_worker_count(input_worker_count: int | None) -> int:
    """The number of workers that a program asks for; None: one for each CPU.

    >>> determine_worker_count(3)
    3
    """
    return os.cpu_count() or 1 if input_worker_count is None else int(input_worker_count)


def get_execution_summary(iterator: Any) -> Any:
    """The statistics of an iterator of a dataset; `str` makes a table of them."""
    return getattr(iterator, "run", iterator).stats()
