"""An iterator's run: an executor, and the flow of elements from it. Opened and ended by one thread at a time.

In: how to open them. Out: elements. An executor outlives a run where the next one is of the same pipeline, from another place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any, TypeVar
from weakref import WeakSet

from ...errors import InUseError
from ..executors.protocol import Executor
from ..interrupts import Uninterrupted
from ..timing.observer import Observer
from .flow import Flow

T = TypeVar("T")

Element = tuple[Any, Any, int]
"""With its run, and its place there."""

Elements = Generator[Element, None, None]
"""A generator: of all iterators it is the one that notices when two use it."""


class RunHandle:
    """The run of an iterator, if it has one."""

    def __init__(self) -> None:
        self.elements: Elements | None = None  # what comes next; None: nothing was opened
        self._executor: Executor | None = None
        self._kept = False  # the executor is that of the last run, for the next one
        self._changing = False
        _ALL.add(self)

    def begin(self, make_executor: Callable[[], Executor], make_flow: Callable[[Executor], Flow]) -> Elements:
        """Open a run, in the place of the last one. Raises InUseError: as `end`."""

        def begin() -> Elements:
            if not self._kept:
                self._end()  # if that was interrupted
            executor = self._executor or make_executor()
            self._executor, self._kept = executor, False
            flow = make_flow(executor)
            flow.begin()
            self.elements = iter(flow)
            return self.elements

        return self._alone(begin)

    def end(self, next_observer: Observer | None = None) -> None:
        """End the run, if there is one; with the observer of a next one, of the same pipeline, keep the executor if it can be.

        Raises:
            InUseError: somebody else is at it: another thread, or what a signal's handler interrupts.
        """
        self._alone(lambda: self._end(next_observer))

    def finish(self) -> None:
        """End the run, at the end of its elements, which is found again from now on."""
        self.end()
        self.elements = _nothing()

    def _alone(self, change: Callable[[], T]) -> T:
        if self._changing:
            raise in_use("iterator")
        self._changing = True  # no other thread runs between these lines, and no handler
        try:
            changed = change()
        finally:
            self._changing = False
        return changed

    def _end(self, next_observer: Observer | None = None) -> None:
        """Each is forgotten after it is closed: closing may be interrupted."""
        with Uninterrupted():
            whole = self._kept or self.elements is not None  # not if an interrupt came while it was opened
            if self.elements is not None:
                try:
                    self.elements.close()
                except ValueError:  # it is at work
                    raise in_use("iterator") from None
                self.elements = None
            if self._executor is not None:
                self._kept = whole and next_observer is not None and self._executor.drop_tasks(next_observer)
                if not self._kept:
                    self._executor.close()
                    self._executor = None

    def after_fork(self) -> None:
        """In a forked child: the threads are gone, and the processes are its parent's."""
        if self._executor is not None and not self._kept:
            self.elements = _of_the_parent() if self._executor.elsewhere else None
        self._executor = None
        self._kept = self._changing = False


def _nothing() -> Elements:
    yield from ()


def _of_the_parent() -> Elements:
    raise RuntimeError("this iterator belongs to another process; make a new one here, iter(loader).")
    yield


def in_use(what: str) -> InUseError:
    """The error for an iterator, or whatever else, that two use."""
    return InUseError(
        f"this {what} is at work, for another thread or for the code that a signal's handler interrupted; use it from one "
        "thread at a time, and let a handler only note what is to be done."
    )


_ALL: WeakSet[RunHandle] = WeakSet()


def _after_fork() -> None:
    for running in list(_ALL):
        running.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
