"""The two threads of a feeder, which read batches and transfer them to devices.

In: an upstream iterator (the one that the feeder reads). Out: batches on their devices, in order,
each with the iterator's position after it; then the end or an error.

    reader thread:    upstream iterator → transform         ─► loaded, at most `host_buffer` batches
    transfer thread:  loaded → agree with others → transfer ─► ready, at most `device_buffer`
    user's thread:    ready → batches

There are two threads, so that a slow record does not delay the transfer of earlier batches, and a
transfer does not delay reading. The threads have a reference to the run, but not to the feeder.
When a feeder is deleted, it stops the threads by closing the queues at which they wait.

At interpreter exit, all runs are stopped and waited for before jax shuts its devices down. The
threads are daemons, because Python would otherwise wait for them first, perhaps for ever. If the
source of a reader thread does not return, the thread is abandoned: it never runs Python code again.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..interrupts import Uninterrupted, wait_until
from ..timing.profiles import profiled
from .queue import Delivered, End, Failed, HandOver, Loaded
from .stepper import Stepper
from .upstream import Upstream

EXIT_SECONDS = 1.0
"""Seconds for which the exit of the interpreter waits for the source of a run."""

# Needs no lock, which an interrupt might leave locked: it is changed and copied by single calls
# into C.
_runs: set[weakref.ref[Run]] = set()
"""Weak references to all runs of feeders that exist."""


@dataclass(frozen=True)
class Intake:
    """The work of the reader thread on each batch: read it from an iterator, and transform it.

    Attributes:
        upstream: wrapper of the iterator. Only the reader thread uses the iterator, until this
            thread has ended.
        transform: function that is applied to each batch; None for no function.
        ends_with_error: True if an error ends the run; False if the run continues with the next
            batch.
    """

    upstream: Upstream
    transform: Callable[[Any], Any] | None
    ends_with_error: bool

    def next(self) -> Loaded | End | Failed:
        """Return the next batch, the end of the stream, or the error in place of a batch."""
        try:
            return self._next()
        except BaseException as error:
            return Failed(error, self.ends_with_error)

    def _next(self) -> Loaded | End:
        began = time.perf_counter()
        try:
            with profiled("read"):
                batch = self.upstream.read()
        except StopIteration:
            return End(self.upstream.mark())
        read, mark = time.perf_counter(), self.upstream.mark()
        if self.transform is None:
            return Loaded(batch, mark, (began, read, read))
        try:
            with profiled("transform"):
                batch = self.transform(batch)
        except StopIteration as error:  # it would look like the end of the stream
            raise RuntimeError(
                "transform= raised StopIteration. In your function, pass a default value to "
                "next(), or use a loop."
            ) from error
        return Loaded(batch, mark, (began, read, time.perf_counter()))


class Run:
    """A run of the two threads of a device feeder, from start to end.

    One thread reads batches, the other one transfers them. The user takes `Delivered` and `Failed`
    items from the queue `ready`. The last item is an `End`, or a `Failed` whose attribute `final`
    is True. If the run was stopped, the last item is None.

    Args:
        intake: work of the reader thread.
        stepper: work of the transfer thread.
        host_buffer: number of batches that may wait on the host.
        device_buffer: number of batches that may wait on the devices.
    """

    def __init__(
        self, intake: Intake, stepper: Stepper, host_buffer: int, device_buffer: int
    ) -> None:
        self._intake = intake
        self._stepper = stepper
        self._abandoned = False
        self._loaded, self.ready = HandOver(host_buffer), HandOver(device_buffer)
        self._reader = threading.Thread(
            target=self._read_all, name="headrace-feeder-read", daemon=True
        )
        self._transferrer = threading.Thread(
            target=self._transfer_all, name="headrace-feeder-transfer", daemon=True
        )

    def start(self) -> None:
        _runs.add(weakref.ref(self, _runs.discard))
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)  # anew each time: what was registered last is called first
        try:
            with Uninterrupted():
                self._reader.start()
                self._transferrer.start()
        except BaseException:  # of the interrupt, or as the system gives no more threads
            self.stop()
            raise

    @property
    def stopped(self) -> bool:
        """True if the two threads of the feeder's run were told to end."""
        return self._loaded.closed

    def reads(self, iterator: Any) -> bool:
        """Return True if the feeder's run reads its batches from `iterator`."""
        return self._intake.upstream.iterator is iterator

    def stop(self) -> None:
        """Tell the two threads of the feeder's run to end soon, without waiting for them."""
        self._loaded.close()
        self.ready.close()

    def abandon(self) -> None:
        """Stop the feeder's run, but do not close or move the iterator that it reads.

        Called when the interpreter ends.
        """
        self._abandoned = True
        self.stop()

    def join(self, seconds: float = math.inf) -> bool:
        """Wait until the transfer thread has ended, and up to `seconds` for the reader thread.

        Return True if the reader thread has ended, False if it is still running.
        """
        wait_until(lambda: not self._transferrer.is_alive())
        return wait_until(lambda: not self._reader.is_alive(), seconds)

    def _read_all(self) -> None:
        while self._loaded.wait_for_room():
            item = self._intake.next()
            self._loaded.put(item)
            if _is_last(item):
                break
            del item  # a batch that is waited for must not be kept alive here
        self._loaded.wait_for_close()
        if not self._abandoned:
            self._intake.upstream.way_out()

    def _transfer_all(self) -> None:
        last = self._transfer_to_end()
        try:
            self._stepper.leave(last.error if isinstance(last, Failed) else None)
        except Exception as trouble:
            last = last if isinstance(last, Failed) else Failed(trouble)
        self.ready.put(last)

    def _transfer_to_end(self) -> End | Failed | None:
        ended: End | None = None
        while self.ready.wait_for_room():
            item = ended or self._loaded.first()
            if item is None:
                return None
            if isinstance(item, End):
                ended = item  # it stays in the queue: other hosts may go on
            else:
                self._loaded.remove()
            item = self._stepped(item)
            if not isinstance(item, Delivered) and _is_last(item):
                return item
            self.ready.put(item)
            del item  # it is the user's now
        return None

    def _stepped(self, item: Loaded | End | Failed) -> Delivered | End | Failed | None:
        try:
            stepped = self._stepper.step(item, lambda: self.stopped)
        except BaseException as error:
            return Failed(error, self._intake.ends_with_error)
        if isinstance(stepped, Failed):
            stepped.final = self._intake.ends_with_error
        return stepped


def _is_last(item: Loaded | Delivered | End | Failed | None) -> bool:
    return item.final if isinstance(item, Failed) else not isinstance(item, (Loaded, Delivered))


def leave_to(iterator: Any) -> None:
    """Wait until all stopped runs of feeders that read from `iterator` have ended.

    After this call, a new run can use the iterator.

    Raises:
        ValueError: another run reads from the iterator, and was not stopped.
    """
    for run in [run for run in _all_runs() if run.reads(iterator)]:
        if not run.stopped:
            raise ValueError(
                f"another feeder already reads from this {type(iterator).__name__}. Close that "
                "feeder first, or give each feeder an iterator of its own."
            )
        run.join()


def _all_runs() -> list[Run]:
    return [run for known in list(_runs) if (run := known()) is not None]


def _stop_all() -> None:
    """Stop all runs of feeders when the interpreter ends.

    Wait until current transfers are done, and up to a second for each reader thread.
    """
    runs = _all_runs()
    for run in runs:
        run.abandon()
    for run in runs:
        run.join(EXIT_SECONDS)
