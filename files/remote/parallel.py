"""In: work that waits, and items. Out: its results in their order; several threads at a time, which end with the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_ONCE = 16
"""Requests that run at the same time."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """What `work` gives for each item.

    >>> in_parallel(len, ["a", "bc"])
    [1, 2]
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _AT_ONCE), "millrace-request") as threads:
        return list(threads.map(work, items))
