"""The user's side of a feeder: start runs, deliver their batches, and keep the user's position.

A feeder makes the batches of an iterator ahead of the user. A run is the time in which its two
threads work without an error or a restore.

In: an iterator to read from ("upstream"). Out: its batches, on devices or on the host; and at any
moment a state from which the stream can continue.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...common.validation import warn
from ...errors import ClosedError
from ..interrupts import Uninterrupted
from ..state.live.changes import at_changes
from ..state.position import StreamPositionAPI
from ..stream.run_handle import in_use
from ..timing.listeners import begins
from ..timing.profiles import profiled
from ..timing.snapshot import Snapshot
from .hosts.agreement import Agreements
from .options import CommonOptions
from .prepared import Placement
from .queue import Delivered, End, Failed, HandOver
from .run import Intake, Run, leave_to
from .stats import FeederStats, Watch
from .stepper import Stepper
from .upstream import Upstream

CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for a source that is reading a record."""


class Feeder(StreamPositionAPI):
    """Base class of feeders, which make the batches of an iterator ahead of the user.

    A feeder gives all hosts equally many batches.

    Args:
        description: options of the feeder.
        upstream: wrapper of the iterator that the feeder reads.
        agreements: makes, for each run, the agreement with the other hosts on each step.
        placement: puts batches where the user wants them, on devices or on the host.
    """

    def __init__(
        self,
        description: CommonOptions,
        upstream: Upstream,
        agreements: Agreements,
        placement: Placement,
    ) -> None:
        self._description = description
        self._upstream = upstream
        self._agreements = agreements
        self._transfer = placement
        self._run: Run | None = None
        self._left: Run | None = None  # a run that was told to end
        self._finalizer: Any = None
        self._mask: Any = None
        self._empty = False  # the last batch had no records of this host
        self._stops_here = False  # a host is asked to end, and all loops end after the last batch
        self._step_of_others = (
            0  # after a batch without records of this host, or the end: at least this step
        )
        self._ended = False
        self._in_next = False
        self._closed = self._done = False  # told to close; nothing is left to be closed
        self._watch = Watch()

    def __next__(self) -> Any:
        """Return the next batch, on its devices or on the host.

        Raises:
            StopIteration: the stream has ended.
            ClosedError: the feeder was closed.
            InUseError: another thread is inside `next`, or a signal handler calls it while it
                interrupts `next`.
            ValueError: another feeder that runs reads from the same iterator.
            Exception: an error of the source, of `transform`, or of the transfer, in place of the
                batch.
        """
        if self._in_next:
            raise in_use("feeder")
        self._in_next, item = True, None  # no other thread runs between these lines, and no handler
        try:
            run = self._run or self._begin()
            ready, began = run.ready, time.perf_counter()
            item = ready.items[0] if ready.items else _waited_for(ready)
            if type(item) is not Delivered:
                self._without_batch(ready, item)
            if self._transfer.warning is not None:
                self._warn()
            ready.make_room()
            self._watch.note(began, time.perf_counter(), item.times)
            # from here on, nothing is called
            self._upstream.user_mark, self._mask, self._empty = item.mark, item.mask, item.empty
            self._step_of_others, self._stops_here = item.at, item.last
            ready.taken += 1
            del ready.items[0]
            return item.batch
        finally:
            self._in_next, item = False, None  # an error's traceback holds this frame

    @property
    def mask(self) -> Any:
        """Mask of the batch delivered last: an array `bool[rows]`, False for rows filled in.

        If the batch is on devices, the mask is a `jax.Array` whose rows are divided over the
        devices like those of the batch. Otherwise it is a NumPy array.

        Raises:
            ValueError: no batch was delivered since the start or the last `set_state`, `on_uneven`
                is neither "pad" nor "repeat", or the batch has no array with an axis.
        """
        if self._mask is None:
            raise ValueError(
                'mask exists only with on_uneven="pad" or "repeat", after a batch that contains an '
                'array with rows. Pass on_uneven="pad", and call next() before you read mask.'
            )
        return self._mask

    @property
    def step(self) -> int:
        """Number of the next batch, from 0, the same on all hosts.

        Batches before a restored state count. Batches in which this host has no records count, too.
        One exception: after `set_state` to such a batch without records, the number may be too
        small until the next batch was delivered.
        """
        return max(int(self.here().step), self._step_of_others)

    def stats(self) -> FeederStats:
        """Return the seconds you waited for batches, by cause, and the times of the loader's work.

        `print` the result for a table.
        """
        return self._watch.stats(None if (host := self.host_iterator) is None else host.stats())

    def snapshot(self) -> Snapshot:
        """Return counts and times of your steps, and of the loader's work.

        A call takes less time than a call of `stats()`.
        """
        host = self.host_iterator
        return self._watch.snapshot(None if host is None else host.snapshot())

    @property
    def host_iterator(self) -> Any:
        """The `DataLoader`'s iterator that the feeder reads; None if it reads something else."""
        return self._upstream.host_iterator

    def last_records(self) -> Any:
        """Return the keys of the records in the last batch: an array `int64[records]`.

        For a mix, the result is a dict of such arrays by part. It is an empty array if this host
        had no records left, so that all rows of the batch were filled in.
        """
        return np.empty(0, np.int64) if self._empty else super().last_records()

    @property
    def skipped_count(self) -> int:
        """Number of records or batches that were skipped because they failed.

        The number includes batches that you have not received yet. A record that is read again
        after an error, and fails again, is counted twice. See `DataLoaderIterator.skipped_count`.

        Raises:
            TypeError: the feeder does not read from a `DataLoader`.
        """
        return self._upstream.loader("skipped_count").skipped_count

    def start_prefetch(self) -> None:
        """Start to read and transfer now, in the background, instead of at the first `next`.

        Does nothing if the feeder already runs, or if its stream has ended.

        Raises:
            ClosedError: the feeder was closed before its stream ended.
        """
        if self._run is None and not self._ended:
            self._begin()

    def get_state(self) -> Any:
        """Return the state after the batch that you received last.

        The iterator that the feeder reads can restore this state, too.

        Raises:
            TypeError: the iterator that the feeder reads has no `get_state` and `set_state`.
        """
        return self.here().get_state()

    def set_state(self, state: Any, strict: bool = True) -> None:
        """Move to the position that a state describes.

        Args:
            state: result of `get_state`, of a feeder or of the iterator that the feeder reads.
            strict: False accepts a state of another source, sampler or other operations.

        Raises:
            CheckpointError: it is not a state, or it belongs to another pipeline. The feeder keeps
                its position.
            InUseError: another thread is inside `next`, or a signal handler calls this while it
                interrupts `next`.
            TypeError: the iterator from which the feeder reads has no `set_state`.
        """
        self._go_to(lambda: self._upstream.set_state(state, strict))

    def set_states(
        self, states: Sequence[Any], strict: bool = True, equal_steps: bool = False
    ) -> None:
        """Continue a run that had another number of shards; see `DataLoaderIterator.set_states`.

        Args:
            states: results of `get_state` on each of the shards of the earlier run, in any order.
            strict: False accepts states of another source, sampler or other operations.
            equal_steps: True allows a list with the state of a single shard, if all shards were at
                the same step and none had ended.

        Raises:
            CheckpointError: a state is missing, or belongs to another pipeline. The feeder keeps
                its position.
            InUseError: another thread is inside `next`, or a signal handler calls this while it
                interrupts `next`.
            TypeError: the feeder does not read from a `DataLoader`.
        """
        self._go_to(
            lambda: self._upstream.loader("set_states").set_states(states, strict, equal_steps)
        )

    def _change(self, wanted: Mapping[str, Any], at_step: int | None) -> None:
        ahead = self._description.host_buffer + self._description.device_buffer + 2
        self._upstream.change(self.here(), wanted, at_step, ahead)

    def close(self) -> None:
        """Stop all work. The state can still be read. May be called twice.

        Waits for the current transfer, and up to 5 seconds for the source to return a record. If
        the source takes longer, its reading thread closes it later; a second call of `close` waits
        again. An iterator that you passed stays open, and returns to your position if it has a
        state.
        """
        if self._done:
            return
        self._closed = self._upstream.gone = True
        if not self._settle(CLOSE_SECONDS):
            return
        self._agreements.forget()
        self._upstream.leave()
        self._done = True

    def _begin(self) -> Run:
        if self._closed:
            raise ClosedError(
                "this feeder was closed. Make a new one, and restore the state in it."
            )
        if self._ended:
            raise StopIteration
        begins(self)
        self._settle()
        leave_to(self._upstream.iterator)
        self._upstream.go_back()
        self._upstream.user_mark = self._upstream.mark()
        run = self._new_run()
        with Uninterrupted():
            self._finalizer = weakref.finalize(self, _dropped, self._upstream, run)
            self._finalizer.atexit = False
            run.start()
            self._run = run
        return run

    def _new_run(self) -> Run:
        """Make a run of the feeder's threads, from the current position of their iterator.

        The run has no reference to the feeder, so a feeder that nobody uses is deleted.
        """
        own, upstream, agreement = self._description, self._upstream, self._agreements.next()
        stepper = Stepper(own, upstream, self._transfer, agreement)
        intake = Intake(
            upstream, own.transform, ends_with_error=upstream.goes_back or agreement is not None
        )
        return Run(intake, stepper, own.host_buffer, own.device_buffer)

    def here(self) -> Any:
        """Return an object for the user's position: after the last batch that the user received.

        If no batch was received yet, return the position of the iterator that the feeder reads. The
        object is a `StreamPosition` if this is the iterator of a `DataLoader`.
        """
        upstream = self._upstream
        mark = upstream.mark() if upstream.user_mark is None else upstream.user_mark
        return at_changes(mark, upstream.changes) if upstream.changes else mark

    def _description_text(self) -> str:
        return self._upstream.describe_at(self.here())

    def _go_to(self, go: Callable[[], None]) -> None:
        if self._in_next:
            raise in_use("feeder")
        if self._upstream.goes_back:  # what comes from a source that cannot could not be read again
            self._settle()
        if self._upstream.changes:
            self._upstream.go_back()  # without the changes of later steps, whatever was read ahead
        go()
        self._agreements.forget()
        self._upstream.forget_changes()
        self._upstream.user_mark = self._mask = None
        self._ended, self._empty, self._step_of_others = False, False, 0
        self._stops_here = self._upstream.stops = False

    def _without_batch(self, ready: HandOver, item: Failed | End | None) -> NoReturn:
        """Raise the error that came in place of a batch, or StopIteration or ClosedError.

        StopIteration is raised at the end of the stream, ClosedError if the feeder was closed.

        Args:
            ready: queue of the run, from which an error is removed.
            item: the error or the end; None if the run was stopped.
        """
        if isinstance(item, Failed):
            try:
                self._raise(ready, item)
            finally:
                del item  # an error's traceback holds this frame
        if self._closed:
            raise ClosedError(
                "this feeder was closed by another thread while it waited for a batch. Make a new "
                "one, and restore the state in it."
            )
        self._step_of_others = item.at if item is not None else 0
        self._ended = (
            True  # before anything that can be interrupted: other hosts would not begin another run
        )
        self._settle(CLOSE_SECONDS)
        raise StopIteration

    def _raise(self, ready: HandOver, failed: Failed) -> NoReturn:
        ready.make_room()
        if failed.final:
            self._leave_run()
        try:
            ready.taken += 1
            del ready.items[0]
            raise failed.error
        finally:
            del failed

    def _warn(self) -> None:
        """Issue the warning that the transfer thread has stored, if there is one.

        The warning names the line of the user's code that called `next`.
        """
        message, self._transfer.warning = self._transfer.warning, None
        if message is not None:
            warn(message)

    def _leave_run(self) -> None:
        if self._run is not None:
            self._left = self._run
            self._run = None
        if self._left is not None:
            self._left.stop()
            self._finalizer.detach()

    def _settle(self, seconds: float = math.inf) -> bool:
        """End the feeder's current run, and wait until its threads no longer use the iterator.

        Args:
            seconds: longest time to wait for the reader thread, which uses the iterator. The
                current transfer is waited for in any case, however long it takes.

        Returns:
            True if no thread uses the iterator any more; False if the reader thread takes longer.
        """
        self._leave_run()
        if self._left is None or not self._left.join(seconds):
            return self._left is None
        self._left = None
        return True


def _waited_for(ready: HandOver) -> Any:
    with profiled("wait"):
        return ready.first()


def _dropped(upstream: Upstream, run: Run) -> None:
    upstream.gone = True
    run.stop()
