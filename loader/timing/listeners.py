"""Notify tools of the loops that a program begins.

In: an iterator or a feeder that begins a run. Out: calls of the registered functions (listeners). A
function is registered only if a tool runs the program in its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LISTENERS: list[Callable[[Any], None]] = []


def begins(run: Any) -> None:
    """Call all registered functions with an iterator or a feeder that begins to run.

    Args:
        run: the iterator or feeder.
    """
    for tell in _LISTENERS:
        tell(run)


@contextmanager
def listening(tell: Callable[[Any], None]) -> Iterator[None]:
    """Return a context in which a function is called with each iterator or feeder that begins.

    The call is made on the thread that starts the iterator or feeder.

    Args:
        tell: the function.
    """
    _LISTENERS.append(tell)
    try:
        yield
    finally:
        _LISTENERS.remove(tell)
