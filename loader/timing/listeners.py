"""Tells tools of the loops that a program begins.

In: an iterator or a feeder that begins a run. Out: calls of those who listen; there are none but in a tool's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LISTENERS: list[Callable[[Any], None]] = []


def begins(run: Any) -> None:
    """Something that a user iterates begins to."""
    for tell in _LISTENERS:
        tell(run)


@contextmanager
def listening(tell: Callable[[Any], None]) -> Iterator[None]:
    """Within it `tell` is called with what begins, on the thread that iterates, in the order in which it begins."""
    _LISTENERS.append(tell)
    try:
        yield
    finally:
        _LISTENERS.remove(tell)
