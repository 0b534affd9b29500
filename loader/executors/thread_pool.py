"""Pools of threads that call functions, and of coroutines. A closed pool has no threads.

In: functions with arguments. Out: their results. An interrupt (Ctrl-C) during a wait for a result
leaves the pool intact. With the locks of `concurrent.futures`, it may not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import finalize

from ..interrupts import Uninterrupted, wait_until

if TYPE_CHECKING:
    from ...sources.asynchronous.event_loop import Coroutines, MakeCoroutine

T = TypeVar("T")

_PATIENCE_SECONDS = (
    2.0  # wait for running calls when a pool that was not closed is deleted, or when Python ends
)


class Call(Generic[T]):
    """A function call that a thread of a pool makes once, and its result or exception."""

    __slots__ = ("_arguments", "_error", "_function", "_value", "_waited_for", "done")

    _value: T

    def __init__(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._error: BaseException | None = None
        self._waited_for = threading.Lock()
        self._waited_for.acquire()
        self.done = False

    def make(self) -> None:
        try:
            self._value = self._function(*self._arguments)
        except BaseException as error:
            self._error = error
        self._arguments = ()
        self.done = True
        self._waited_for.release()
        # The traceback of an error holds this frame. With the call in it, both would be in a
        # reference cycle.
        del self

    def give_up(self) -> None:
        """Mark a function call as failed, because no thread of the pool will make it.

        A thread that waits for the call's result is woken.
        """
        self._error = RuntimeError(
            "the iterator was closed while its work waited for a thread. Make a new one, "
            "iter(loader), and restore the state in it."
        )
        self.done = True
        self._waited_for.release()

    def ready(self) -> bool:
        """Return True if a thread of the pool has made the function call, also if it raised."""
        return self.done

    def result(self) -> T:
        """Wait for a thread of the pool to make the function call; return or raise what it does.

        May be called only once.

        Raises:
            RuntimeError: the pool was closed before the call was made.
        """
        while not self.done:
            self._waited_for.acquire()
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # whose traceback holds this frame


class Pool:
    """A pool of threads. Threads are started as calls are submitted.

    Args:
        count: largest number of threads.
        name: beginning of the threads' names.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._let_go = 0  # number of these that have ended or are about to end
        finalize(self, _end, self._calls, self._threads, _PATIENCE_SECONDS)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Call[T]:
        call = Call(function, arguments)
        self._calls.put(call)
        if len(self._threads) - self._let_go < self._count:
            self._start_another()
        return call

    def resize(self, count: int) -> None:
        """Set the largest number of threads.

        Surplus threads end after the calls submitted so far.
        """
        over = max(len(self._threads) - self._let_go - count, 0)
        self._count = count
        self._let_go += over
        for _ in range(over):
            self._calls.put(None)

    def is_idle(self) -> bool:
        """Return True if every submitted call has at least begun."""
        return self._calls.empty()

    def _start_another(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=_make_calls, args=(self._calls,), name=name, daemon=True)
        try:
            with Uninterrupted():
                thread.start()
                self._threads.append(thread)
        except RuntimeError:  # the system gives no more threads
            if not self._threads:
                raise
            self._count = len(self._threads) - self._let_go

    def close(self) -> None:
        """Stop the threads after their current calls. Calls that have not begun fail.

        May be called twice.
        """
        _end(self._calls, self._threads)


def _make_calls(calls: SimpleQueue[Call[Any] | None]) -> None:
    while (call := calls.get()) is not None:
        call.make()
        del call  # what it returned is not kept here


def _end(
    calls: SimpleQueue[Call[Any] | None],
    threads: list[threading.Thread],
    seconds: float = float("inf"),
) -> None:
    with suppress(Empty):
        while True:
            if (call := calls.get_nowait()) is not None:
                call.give_up()
    for _ in threads:
        calls.put(None)
    others = [thread for thread in threads if thread is not threading.current_thread()]
    wait_until(lambda: not any(thread.is_alive() for thread in others), seconds)


class CoroutinePool:
    """Runs coroutines in an event loop, which is started with the first coroutine."""

    def __init__(self) -> None:
        self._coroutines: Coroutines | None = None

    def begin(self, work: MakeCoroutine, count: int) -> None:
        """Begin to run `count` coroutines in the event loop, without waiting for them.

        Args:
            work: function that returns a coroutine. It is called once for each coroutine.
            count: number of coroutines.
        """
        if count:
            # asyncio takes 50 ms of a worker's start
            from ...sources.asynchronous.event_loop import Coroutines

            self._coroutines = self._coroutines or Coroutines()
            self._coroutines.begin(work, count)

    def close(self) -> None:
        if self._coroutines is not None:
            self._coroutines.close()
