"""Event loop of a process, on its own thread, for all asynchronous sources.

The loop runs as long as one of these sources, or a group of coroutines, refers to it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from ...errors import SourceError

ENDING_SECONDS = 5.0
"""Maximum seconds that the loop, when it ends, waits for tasks that users' coroutines left."""

MakeCoroutine = Callable[[], Coroutine[Any, Any, None]]


class EventLoop:
    """Event loop on its own thread. It ends when nothing refers to this object."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=_run, args=(self._loop,), name="headrace-loop", daemon=True
        )
        self._thread.start()
        weakref.finalize(self, _stop, self._loop, self._thread, self._process)

    @property
    def alive(self) -> bool:
        """True if the loop runs in this process. In a forked child it does not."""
        return self._process == os.getpid()

    @property
    def is_current_thread(self) -> bool:
        return self._thread is threading.current_thread()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop, wait for it, and return its result or raise its error.

        If the wait is interrupted (KeyboardInterrupt), the coroutine is cancelled.

        Raises:
            SourceError: the coroutine raised CancelledError, although its caller did not cancel it.
            RuntimeError: called on the loop's own thread, which would wait for itself.
        """
        if self.is_current_thread:
            coroutine.close()
            raise RuntimeError(
                "a coroutine of an asynchronous source calls a blocking read of a source, and "
                "would wait for itself. Await the asynchronous method of that source instead."
            )
        # `asyncio.run_coroutine_threadsafe` takes twice as long, and adds frames before the user's.
        outcome = _Outcome(coroutine)
        try:
            self.call(outcome.begin)
            return outcome.result()
        except BaseException:
            self.call(outcome.cancel)
            raise


class _Outcome:
    """Result or error of a coroutine that runs in the event loop; another thread waits for it.

    Args:
        coroutine: the coroutine; `begin`, called in the loop, starts it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._is_cancelled = False
        self._waited_for = threading.Lock()
        self._waited_for.acquire()

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self._value = await self._coroutine
        except BaseException as error:  # an event loop would end with SystemExit
            self._error = error
        self._waited_for.release()

    def result(self) -> Any:
        self._waited_for.acquire()
        if self._error is None:
            return self._value
        try:
            if isinstance(self._error, asyncio.CancelledError) and not self._is_cancelled:
                raise _own_cancellation() from self._error
            raise self._error
        finally:
            self._error = None  # whose traceback holds this frame


def _own_cancellation() -> SourceError:
    """Return the error to raise if a coroutine raised CancelledError that no caller asked for."""
    return SourceError(
        "a coroutine of the source raised CancelledError although its read was not cancelled, for "
        "example because a task that it awaits was cancelled. Catch CancelledError in the "
        "coroutine, and raise another error."
    )


class Coroutines:
    """Group of coroutines in the event loop of this process, as `Pool` is a group of threads.

    After `close`, none of them runs, unless it was called on the loop's own thread, where it cannot
    wait.
    """

    def __init__(self) -> None:
        self._loop = event_loop()
        self._tasks = set[
            asyncio.Task[None]
        ]()  # used in the loop's thread alone; the loop holds its tasks only weakly

    def begin(self, make: MakeCoroutine, count: int) -> None:
        """Start `count` coroutines, each from one call of `make`, and return at once.

        Exceptions of the coroutines are not reported to the caller.
        """
        self._loop.call(self._begin, make, count)

    def _begin(self, make: MakeCoroutine, count: int) -> None:
        for _ in range(count):
            task = asyncio.get_running_loop().create_task(make())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel the running coroutines, and wait for their end unless on the loop's thread.

        May be called twice.
        """
        # something that is dropped there: the loop cannot wait for itself
        if self._loop.is_current_thread:
            self._cancel()
        elif self._loop.alive:
            self._loop.run(self._end())

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _end(self) -> None:
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except (
            BaseException
        ):  # SystemExit of a task that a user's coroutine began: who awaits that gets it
            continue
    loop.run_until_complete(_end_all())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=ENDING_SECONDS)


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if process == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()


_CURRENT: list[weakref.ref[EventLoop]] = []
_MAKING = threading.Lock()


def event_loop() -> EventLoop:
    """Return the event loop of this process. It is started if none is running.

    It ends when nothing refers to it.
    """
    with _MAKING:
        loop = _CURRENT[0]() if _CURRENT else None
        if loop is None or not loop.alive:
            loop = EventLoop()
            _CURRENT[:] = [weakref.ref(loop)]
        return loop
