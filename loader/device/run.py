"""The two threads of a running feeder, and the queues between them.

In: an upstream iterator. Out: batches on their devices, in order, each with a mark of the place after it; last an end or error.

    reader thread:    upstream iterator → transform             ─► loaded, at most `host` batches
    transfer thread:  loaded → agree with others → transfer ─► ready, at most `device` batches ─► the user

Two threads, so that a slow record does not hold up batches that are on the host already, nor a transfer the reading. But where
the user waits, and transfers are brief beside reading, the reader does them itself: to wake the other thread, on another core,
costs more than they do, and it needs the interpreter's lock as much.

A queue of tokens bounds each buffer: who puts something in takes a token first, who takes it out gives one back. All waiting is
in `SimpleQueue.get`, which costs under a microsecond when there is something; `put` may be called from anywhere, finalizers in
the middle of a garbage collection included, so that a feeder that is dropped stops its threads. They know the run, not the
feeder.

Races:
* Steps are made in order, by one thread at a time: the reader makes one if the other thread has made all that it was given.
* `stop` sets `_stopping`, then puts a token into every queue at which a thread may wait: whoever wakes looks at it first.
* At interpreter exit all runs are stopped, and waited for, before jax takes its devices down. Ordinary threads would be waited
  for before that is possible, for ever; so these are daemons. A reader in a source that does not return is left where it is:
  it never gets to run Python again.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from ..interrupts import Uninterrupted, wait_until
from .items import Delivered, Ended, Failed, Loaded
from .stepper import Stepper
from .transfer import span
from .tuned import BRIEF, EXIT_SECONDS, LULL_SECONDS
from .upstream.protocol import Upstream

_runs: weakref.WeakSet[Run] = weakref.WeakSet()
_runs_lock = threading.RLock()  # a signal's handler may begin a run, too


@dataclass(frozen=True)
class Buffers:
    """How many batches may wait: on the host, and on the devices."""

    host: int
    device: int


class Run:
    """From one beginning to one end.

    Args:
        upstream: what is read from; belongs to the reader thread until it has ended.
        transform: applied to batches on the host; None: nothing is.
        buffers: how many batches may wait.
        stepper: brings batches to devices; belongs to the transfer thread, and to the reader while that has nothing to do.
        ends_with_error: whether an error ends the run; otherwise the batch after it follows.
        way_out: the last thing that the reader thread does with the upstream iterator, when the run was stopped.

    Attributes:
        ready: what the user takes: `Delivered`, at last `Ended` or `Failed`; after these, None.
        made: how many batches and errors have been put there.
        stopped: whether it was told to stop.
    """

    def __init__(
        self,
        upstream: Upstream,
        transform: Callable[[Any], Any] | None,
        buffers: Buffers,
        stepper: Stepper,
        ends_with_error: bool,
        way_out: Callable[[], None],
    ) -> None:
        self._upstream = upstream
        self._transform = transform
        self._stepper = stepper
        self._ends_with_error = ends_with_error
        self._way_out: Callable[[], None] | None = way_out
        self._stopping = self._transfer_done = False
        self.made = 0
        self._given_back = 0
        self._handed_over = 0  # to the transfer thread …
        self._taken_over = 0  # … which has dealt with so many
        self._brief = False  # whether the last step was
        self._loaded: SimpleQueue[Any] = SimpleQueue()
        self._host_room, self._device_room = _tokens(buffers.host), _tokens(buffers.device)
        self.ready: SimpleQueue[Any] = SimpleQueue()
        self._reader = threading.Thread(target=self._read_all, name="millrace-feeder-read", daemon=True)
        self._transferrer = threading.Thread(target=self._transfer_all, name="millrace-feeder-transfer", daemon=True)

    def start(self) -> None:
        """Begin."""
        with _runs_lock:
            _runs.add(self)
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
        """As above."""
        return self._stopping

    def reads(self, iterator: Any) -> bool:
        """Whether this is the iterator that it reads from."""
        return self._upstream.iterator is iterator

    def give_back(self, number: int) -> None:
        """The user took all up to this number from `ready`: make room for as many others."""
        while self._given_back <= number:
            self._device_room.put(True)
            self._given_back += 1

    def give_back_lost(self, taken: int) -> None:
        """`ready` is empty: what comes after the first `taken` things was lost on its way to the user, or is just coming."""
        if self.made > taken:
            self.give_back(self.made - 1)
        if self._transfer_done:  # that nothing comes any more was lost, too
            self.ready.put(None)

    def stop(self) -> None:
        """Have the threads end soon; does not wait."""
        self._stopping = True
        for queue in (self._host_room, self._loaded, self._device_room, self.ready):
            queue.put(None)

    def abandon(self) -> None:
        """As `stop`, and leave the upstream iterator as it is: the interpreter ends."""
        self._way_out = None
        self.stop()

    def join(self, seconds: float | None = None) -> bool:
        """Wait until a transfer that has begun is done and, at most `seconds`, until the source has returned.

        Returns:
            Whether both threads have ended, or were never started.
        """
        wait_until(lambda: not self._transferrer.is_alive())
        return wait_until(lambda: not self._reader.is_alive(), float("inf") if seconds is None else seconds)

    # ---- The reader thread

    def _read_all(self) -> None:
        self._read_to_end()
        while not self._stopping:
            self._host_room.get()
        if self._way_out is not None:
            self._way_out()

    def _read_to_end(self) -> None:
        while self._host_room.get() and not self._stopping:
            item: Loaded | Ended | Failed | None = self._read()
            if isinstance(item, Loaded) and self._may_step():
                item = self._step_here(item)
            if item is None:
                self._host_room.put(True)
                continue
            self._handed_over += 1
            self._loaded.put(item)
            if isinstance(item, Ended) or (isinstance(item, Failed) and item.final):
                return
            del item  # a batch that is waited for must not be kept alive here

    def _may_step(self) -> bool:
        """Take the right to one step on this thread, if it is brief and the user waits for it."""
        if self._stopping or not self._brief or self._handed_over != self._taken_over or self.ready.qsize():
            return False
        try:
            token = self._device_room.get(block=False)
        except Empty:
            return False
        if token is None:  # of `stop`, for the other thread
            self._device_room.put(None)
        return token is not None

    def _step_here(self, item: Loaded) -> Ended | Failed | None:
        """Make a step. What is no batch for the user is for the transfer thread to end with."""
        stepped = self._stepped(item)
        if isinstance(stepped, Delivered):
            self._hand_out(stepped)
            return None
        self._device_room.put(True)
        return stepped

    def _read(self) -> Loaded | Ended | Failed:
        began = time.perf_counter()
        try:
            with span("read"):
                batch = next(self._upstream.iterator)
        except StopIteration:
            return self._end()
        except BaseException as error:
            return Failed(error, self._ends_with_error)
        try:
            return self._transformed(batch, began)
        except BaseException as error:
            return Failed(error, self._ends_with_error)

    def _end(self) -> Ended | Failed:
        try:
            return Ended(self._upstream.mark())
        except BaseException as error:
            return Failed(error, self._ends_with_error)

    def _transformed(self, batch: Any, began: float) -> Loaded:
        read, mark = time.perf_counter(), self._upstream.mark()
        if self._transform is None:
            return Loaded(batch, mark, began, read, read)
        try:
            with span("transform"):
                batch = self._transform(batch)
        except StopIteration as error:  # it would look like the end of the stream
            raise RuntimeError("transform raised StopIteration") from error
        return Loaded(batch, mark, began, read, time.perf_counter())

    # ---- The transfer thread

    def _transfer_all(self) -> None:
        error: BaseException | None = None
        ended: Ended | None = None
        while self._device_room.get() and not self._stopping:
            if self.ready.qsize():
                time.sleep(LULL_SECONDS)
            item = ended or self._loaded.get()
            self._host_room.put(True)
            if self._stopping or item is None:
                break
            ended = item if isinstance(item, Ended) else None
            item = self._stepped(item)
            self._hand_out(item)
            if item is None or isinstance(item, Ended):
                break
            if isinstance(item, Failed) and item.final:
                error = item.error  # not of others: its traceback comes to hold the feeder, and would keep it here
                break
            del item  # it is the user's now
            self._taken_over += 1
        self._leave(error)
        self._transfer_done = True
        self.ready.put(None)  # nothing comes any more

    def _hand_out(self, item: Delivered | Ended | Failed | None) -> None:
        if isinstance(item, (Delivered, Failed)):
            item.number = self.made
            self.made += 1
        self.ready.put(item)

    def _stepped(self, item: Loaded | Ended | Failed) -> Delivered | Ended | Failed | None:
        began = time.perf_counter()
        try:
            stepped = self._stepper.step(item, lambda: self._stopping)
        except BaseException as error:
            return Failed(error, self._ends_with_error)
        if isinstance(item, Loaded) and self._stepper.alone:
            self._brief = time.perf_counter() - began < BRIEF * (item.transformed - item.read_from)
        if isinstance(stepped, Failed):
            stepped.final = self._ends_with_error
        return stepped

    def _leave(self, error: BaseException | None) -> None:
        try:
            self._stepper.leave(error)
        except Exception as trouble:
            self.ready.put(Failed(trouble))


def _tokens(count: int) -> SimpleQueue[Any]:
    queue: SimpleQueue[Any] = SimpleQueue()
    for _ in range(count):
        queue.put(True)
    return queue


def leave_to(iterator: Any) -> None:
    """Wait until runs that were stopped no longer read from an iterator, so that another run can.

    Raises:
        ValueError: a run that was not stopped reads from it.
    """
    for run in [run for run in _all_runs() if run.reads(iterator)]:
        if not run.stopped:
            raise ValueError(
                f"another feeder reads ahead on this {type(iterator).__name__}; close that one first, or give each feeder an "
                "iterator of its own."
            )
        run.join()


def _all_runs() -> list[Run]:
    with _runs_lock:
        return list(_runs)


def _stop_all() -> None:
    """At interpreter exit."""
    runs = _all_runs()
    for run in runs:
        run.abandon()
    for run in runs:
        run.join(EXIT_SECONDS)
