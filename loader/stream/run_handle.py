"""The current run of an iterator: an executor, and the elements that come from it.

One thread at a time opens and ends the run. The executor is kept for the next run, if the next run
has the same pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar
from weakref import WeakSet

from ...common.system import after_fork
from ...errors import InUseError
from ..executors.protocol import Executor
from ..interrupts import Uninterrupted
from ..timing.observer import Observer
from .flow import Flow

T = TypeVar("T")

Element = tuple[Any, Any, int]
"""An element, the `Rows` that contain it, and its index there."""

# Of all iterators, a generator is the one that notices when two threads use it.
Elements = Generator[Element, None, bool]
"""Generator of elements, which returns True after the last one.

Python ends it without that if an interrupt comes inside.
"""


class RunHandle:
    """The current run of an iterator, if there is one: its executor and its next elements."""

    def __init__(self) -> None:
        self.elements: Elements | None = None  # what comes next; None: nothing was opened
        self._executor: Executor | None = None
        self._kept = False  # the executor is the last run's, kept for the next run
        self._changing = False
        _ALL.add(self)

    def begin(
        self, make_executor: Callable[[], Executor], make_flow: Callable[[Executor], Flow]
    ) -> Elements:
        """End the last run, open a new run, and return the elements of the new run.

        Args:
            make_executor: function that makes an executor. It is not called if the last executor
                was kept.
            make_flow: function that takes the executor, and returns the flow of elements.

        Raises:
            InUseError: if another thread uses the iterator, or a signal handler has interrupted its
                use.
        """

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
        """End the current run, if there is one.

        Args:
            next_observer: observer of the next run, if another run of the same pipeline follows.
                The executor is then kept for the next run, if possible, and passes times to this
                observer. None: the executor is closed.

        Raises:
            InUseError: if another thread uses the iterator, or a signal handler has interrupted its
                use.
        """
        self._alone(lambda: self._end(next_observer))

    def finish(self, is_last: bool) -> bool:
        """End the run, because there are no more elements, or because an interrupt broke it off.

        Args:
            is_last: True if there are no more elements; later calls of `next` then report the end
                again. False if an interrupt broke the generator of the elements; a new run is
                needed then.

        Returns:
            `is_last`.

        Raises:
            InUseError: if another thread uses the iterator.
        """
        self.end()
        if is_last:
            self.elements = _nothing()
        return is_last

    def _alone(self, change: Callable[[], T]) -> T:
        if self._changing:
            raise in_use(what="iterator")
        self._changing = True  # no other thread runs between these lines, and no handler
        try:
            changed = change()
        finally:
            self._changing = False
        return changed

    def _end(self, next_observer: Observer | None = None) -> None:
        """End the run; with `next_observer`, keep its executor for the next run, if possible.

        The reference to each part of the run is dropped only after the part is closed, because an
        interrupt may come while the part is being closed.

        Raises:
            InUseError: if another thread uses the iterator.
        """
        with Uninterrupted():
            # not if an interrupt came while it was opened
            whole = self._kept or self.elements is not None
            if self.elements is not None:
                try:
                    self.elements.close()
                except ValueError:  # it is at work
                    raise in_use(what="iterator") from None
                self.elements = None
            if self._executor is not None:
                self._kept = (
                    whole and next_observer is not None and self._executor.drop_tasks(next_observer)
                )
                if not self._kept:
                    self._executor.close()
                    self._executor = None

    def after_fork(self) -> None:
        """Forget the run in a forked child process, where the threads of the run do not exist.

        A later `next` in the child process raises RuntimeError if tasks of the run were done by
        worker processes or Ray, or (with `worker_count="auto"`) could have been.
        """
        if self._executor is not None and not self._kept:
            self.elements = _of_the_parent() if self._executor.elsewhere else None
        self._executor = None
        self._kept = self._changing = False


def _nothing() -> Elements:
    yield from ()
    return True


def _of_the_parent() -> Elements:
    raise RuntimeError(
        "this iterator was made in another process. Make a new one in this process, iter(loader)."
    )
    yield


def in_use(what: str) -> InUseError:
    """Return the error for an object ("iterator" or "feeder") that two threads use at once."""
    return InUseError(
        f"this {what} is in use, by another thread or by the code that a signal handler "
        "interrupted. Use it from one thread at a time, and let a signal handler only set a flag."
    )


_ALL: WeakSet[RunHandle] = WeakSet()


def _after_fork() -> None:
    for running in list(_ALL):
        running.after_fork()


after_fork(_after_fork)
