"""The user's side of a feeder: opens runs, delivers batches on their devices, and keeps the user's position.

In: an upstream iterator and a sharding. Out: trees of `jax.Array`, and at any moment the state from which the stream goes on.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from ...common.validation import warn
from ...errors import ClosedError
from ..interrupts import Uninterrupted
from ..state.position import StreamPositionAPI
from ..stream.run_handle import in_use
from ..timing.listeners import begins
from ..timing.profiles import profiled
from ..timing.snapshot import Snapshot
from .hosts.agreement import Agreements
from .options import FeederOptions
from .queue import Delivered, End, Failed, HandOver
from .run import Intake, Run, leave_to
from .shardings import processes_of
from .stats import FeederStats, Watch
from .stepper import Stepper
from .transfer import Transfer
from .upstream import Upstream

CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for a source that is asked for a record."""


class DeviceFeeder(StreamPositionAPI):
    """One pass over a stream, ahead of the user and on the devices; made by `iter(loader.to_device(…))`.

    Use it from one thread at a time. The upstream iterator belongs to it until it is closed: one that you passed stands at some
    place ahead of you till then. When the feeder is dropped it goes back to where you stand, a moment later, on the feeder's
    thread; a plain iterator cannot, and what was read ahead is lost. Its state is that of the last batch that
    *you received*, whatever is in the buffers. It keeps no batch that it gave you: drop it, or donate its buffers. Where it
    feeds from something else than a `DataLoader`, a TypeError says that steps, epochs and records are not known.

    After an error the state is that of the last batch delivered, and the next `next` tries again, as for the upstream iterator
    (a plain iterable cannot go back: there, the batch that follows comes). Close it, or use it as a context manager, to stop
    its threads at once; dropping it does the same.
    """

    def __init__(self, description: FeederOptions, upstream: Upstream) -> None:
        self._description = description
        self._upstream = upstream
        self._agreements = Agreements(jax.process_index(), processes_of(description.sharding))
        self._transfer = Transfer(description)
        self._run: Run | None = None
        self._left: Run | None = None  # one that was told to end
        self._finalizer: Any = None
        self._mask: Any = None
        self._empty = False  # the last batch had no records of this host
        self._ended = False
        self._in_next = False
        self._closed = self._done = False  # told to close; nothing is left to be closed
        self._watch = Watch()

    def __next__(self) -> Any:
        """The next batch, on its devices.

        Raises:
            InUseError: another thread, or the code that a signal's handler interrupts, is in `next`.
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
            ready.taken += 1
            del ready.items[0]
            return item.batch
        finally:
            self._in_next, item = False, None  # an error's traceback holds this frame

    @property
    def mask(self) -> Any:
        """`bool[rows]` of the batch delivered last, a `jax.Array` divided as the batch is: False where a row was filled in.

        Raises:
            ValueError: nothing was delivered yet, or batches are not filled.
        """
        if self._mask is None:
            raise ValueError('mask needs on_uneven="pad" and a batch that was delivered; call next() first.')
        return self._mask

    def stats(self) -> FeederStats:
        """Seconds that you waited for batches, the reasons, and the time of the work; `print` it for a table."""
        return self._watch.stats(None if (host := self.host_iterator) is None else host.stats())

    def snapshot(self) -> Snapshot:
        """Counts and times of your steps; amounts and stages are those of the loader. For less than `stats()` costs."""
        host = self.host_iterator
        return self._watch.snapshot(None if host is None else host.snapshot())

    @property
    def host_iterator(self) -> Any:
        """The iterator of a `DataLoader` that it reads from; None: it reads from something else."""
        return self._upstream.host_iterator

    def last_records(self) -> Any:
        """The records of the last batch, as of iterators; none of a batch that is filling alone."""
        return np.empty(0, np.int64) if self._empty else super().last_records()

    @property
    def skipped_count(self) -> int:
        """Records or batches left out because they failed, ahead of you included; see `DataLoaderIterator.skipped_count`.

        What is read again, after an error for one, is counted again.

        Raises:
            TypeError: it feeds from something else than a `DataLoader`.
        """
        return self._upstream.loader("skipped_count").skipped_count

    def start_prefetch(self) -> None:
        """Have the work begin now, in the background, and not with the first `next`."""
        if self._run is None and not self._ended:
            self._begin()

    def get_state(self) -> Any:
        """The upstream iterator's state after the batch that you received last.

        Raises:
            TypeError: the upstream iterator has no state.
        """
        return self.here().get_state()

    def set_state(self, state: Any, strict: bool = True) -> None:
        """Go to the place that `get_state` told, of a feeder or of an upstream iterator; as `DataLoaderIterator.set_state`.

        Raises:
            CheckpointError: it is no state, or another pipeline's; the feeder stays where it was.
            InUseError: as `next`.
        """
        self._go_to(lambda: self._upstream.set_state(state, strict))

    def set_states(self, states: Sequence[Any], strict: bool = True, equal_steps: bool = False) -> None:
        """Go on after a run on another number of shards; as `DataLoaderIterator.set_states`.

        Raises:
            CheckpointError: a state is missing, or another pipeline's; the feeder stays where it was.
            InUseError: as `next`.
        """
        self._go_to(lambda: self._upstream.loader("set_states").set_states(states, strict, equal_steps))

    def close(self) -> None:
        """Stop all work; the state can still be read. May be called twice.

        Waits for a transfer that has begun, and some seconds for a source that is asked for a record; one that takes longer
        is left to its thread, which closes it when it returns; closing again waits for that again. An iterator that you passed
        stays open, and goes back to where you stand if it has a state.
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
            raise ClosedError("the feeder was closed; take a new one, and give it the state.")
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
        """From where the upstream iterator stands. It does not know the feeder, so that to drop that ends it."""
        own, upstream, agreement = self._description, self._upstream, self._agreements.next()
        stepper = Stepper(own, upstream, self._transfer, agreement)
        intake = Intake(upstream, own.transform, ends_with_error=upstream.goes_back or agreement is not None)
        return Run(intake, stepper, own.host_buffer, own.device_buffer)

    def here(self) -> Any:
        """The upstream iterator itself is asked only while nobody else uses it."""
        upstream = self._upstream
        return upstream.mark() if upstream.user_mark is None else upstream.user_mark

    def _told(self) -> str:
        return self._upstream.told_at(self.here())

    def _go_to(self, go: Callable[[], None]) -> None:
        if self._in_next:
            raise in_use("feeder")
        if self._upstream.goes_back:  # what comes from a source that cannot could not be read again
            self._settle()
        go()
        self._agreements.forget()
        self._upstream.user_mark = self._mask = None
        self._ended = self._empty = False

    def _without_batch(self, ready: HandOver, item: Failed | End | None) -> NoReturn:
        """An end or an error came in place of a batch; or None: the run was stopped."""
        if isinstance(item, Failed):
            try:
                self._raise(ready, item)
            finally:
                del item  # an error's traceback holds this frame
        if self._closed:
            raise ClosedError("the feeder was closed while a batch was waited for.")
        self._ended = True  # before anything that can be interrupted: other hosts would not begin another run
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
        """Tell here what the transfer thread noticed: a warning belongs to a line of the user's."""
        message, self._transfer.warning = self._transfer.warning, None
        if message is not None:
            warn(message)

    def _leave_run(self) -> None:
        """Have the run's threads end, without waiting. Ctrl-C may come anywhere: there is always one who knows the run."""
        if self._run is not None:
            self._left = self._run
            self._run = None
        if self._left is not None:
            self._left.stop()
            self._finalizer.detach()

    def _settle(self, seconds: float = math.inf) -> bool:
        """Have the run end, and wait until nobody but the caller uses the upstream iterator; False after `seconds`."""
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
