"""Notify tools of the loops that a program begins.

In: an iterator or a feeder that begins to run. Out: calls of the registered functions (listeners).
A function is registered only if a tool runs the user's program in its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LISTENERS: list[Callable[[Any], None]] = []


def begins(run: Any) -> None:
    """Call all registered functions with `run`, an iterator or a feeder that begins to run."""
    for tell in _LISTENERS:
        tell(run)


@contextmanager
def listening(tell: Callable[[Any], None]) -> Iterator[None]:
    """Return a context in which `tell` is called with each iterator or feeder that begins to run.

    The call is made on the thread that starts the iterator or feeder.
    """
    _LISTENERS.append(tell)
    try:
        yield
    finally:
        _LISTENERS.remove(tell)
