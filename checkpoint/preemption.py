"""End a loop before the machine is taken away.

The loop ends at the same step on all hosts, and with the states saved.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Generic, Protocol, Self, TypeVar

from ..common.messages import a_kind_of, short_repr
from ..errors import HostsError

# Chosen: as long as Kubernetes gives by default, so that waiting longer would be in vain.
SAVE_SECONDS = 30
"""Longest wait for other processes to save."""

_preemptions = itertools.count()  # the same on all processes

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Stepping(Protocol[T_co]):
    """Protocol of iterators that count their steps.

    For example `DataLoaderIterator`, and the iterator of `to_device`.
    """

    @property
    def step(self) -> int:
        """Number of the next element, from 0. Earlier runs count."""

    def __next__(self) -> T_co:
        """Return the next element."""


def on_preemption(
    iterator: Stepping[T], save: Callable[[Any], Any], *, signals: Sequence[int] = (signal.SIGTERM,)
) -> Preemptible[T]:
    """Return an iterator that ends early if the process is asked to end, after a call of `save`.

    Slurm, Kubernetes and cloud machines send SIGTERM some seconds before they end a process. The
    loop then finishes the step that it is at. When it asks for the next element, `save(iterator)`
    is called, and the loop ends.

    After `jax.distributed.initialize()`, all processes end after the same step, also if only one of
    them got the signal: by `jax.experimental.multihost_utils.reached_preemption_sync_point`. All of
    them must have begun at the same step. The loop ends when all of them have saved, or after 30 s,
    because the end of the first process aborts the others.

    Hosts that agree on their batches by a folder (`loader.across_hosts(folder=…)`) end after the
    same step, too. Otherwise each process ends for itself; the states of different steps can be
    restored together, by `set_states`.

    Args:
        iterator: the iterator of a loader, of a dataset, or of `to_device`.
        save: function that saves the model and the iterator's state. It takes the iterator.
        signals: numbers of the signals that announce the end; default SIGTERM.

    Raises:
        TypeError: `iterator` has no `step` (pass `iter(loader)`), or `save` is not a function.
        ValueError: this is not the main thread, the only one that may handle signals; or a signal
            cannot be handled.
        HostsError: when the loop asks for an element: JAX's preemption service is switched off.

    >>> import os, signal
    >>> import headrace
    >>> saved = []
    >>> iterator = iter(headrace.load(range(9)))
    >>> with headrace.on_preemption(iterator, lambda it: saved.append(it.get_state())) as records:
    ...     for record in records:
    ...         if record == 3:
    ...             os.kill(os.getpid(), signal.SIGTERM)
    >>> record, records.preempted, len(saved)
    (3, True, 1)
    """
    return Preemptible(iterator, save, signals)


class Preemptible(Generic[T]):
    """Iterator that ends early if the process is asked to end. Made by `on_preemption`.

    Signals are handled as before after the end of the loop, of a `with` block, or of the object.
    The loop itself may run in any thread.

    Attributes:
        iterator: the iterator whose elements it delivers.
        preempted: True after `save` has returned.
    """

    def __init__(
        self, iterator: Stepping[T], save: Callable[[Any], Any], signals: Sequence[int]
    ) -> None:
        if not hasattr(iterator, "step") or not hasattr(iterator, "__next__"):
            raise TypeError(
                f"iterator={short_repr(iterator)} is {a_kind_of(iterator)} without steps. Pass the "
                "iterator of a loader, iter(loader)."
            )
        if not callable(save):
            raise TypeError(
                f"save={short_repr(save)} is {a_kind_of(save)}. Pass a function that takes the "
                "iterator."
            )
        if threading.current_thread() is not threading.main_thread():
            raise ValueError(
                "signals can be handled in the main thread only. Call on_preemption there."
            )
        self.iterator, self.preempted = iterator, False
        self._save, self._is_over = save, False
        self._came = _Notice()
        # A loop that was left without `close` must not keep the process from ending.
        self._restore = weakref.finalize(self, self._came.leave)
        for number in signals:
            if number == signal.SIGTERM and _are_connected():
                continue  # the coordination service of JAX handles it
            try:
                self._came.formers[number] = signal.signal(number, self._came)
            except (OSError, ValueError, TypeError) as error:
                self.close()
                raise ValueError(
                    f"signal {short_repr(number)} cannot be handled: {error}. Pass signals such as "
                    "signal.SIGTERM."
                ) from error

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._is_over:
            raise StopIteration
        if self._is_announced():
            self._is_over = True
            try:
                self._save(self.iterator)
            finally:
                self.close()
            self.preempted = True
            _wait_for_others()
            raise StopIteration
        try:
            return next(self.iterator)
        except StopIteration:
            self._is_over = True
            self.close()
            raise

    def _is_announced(self) -> bool:
        if not _are_connected():
            return (
                self._came.came
                if not getattr(self.iterator, "agrees", False)
                else self._is_agreed()
            )
        if self._came.came and not self._came.passed_on:  # of another signal than SIGTERM
            self._came.passed_on = True
            os.kill(os.getpid(), signal.SIGTERM)
        from jax.experimental.multihost_utils import reached_preemption_sync_point

        try:
            return bool(reached_preemption_sync_point(self.iterator.step))
        except RuntimeError as error:
            raise HostsError(
                "JAX's preemption service is switched off, so the processes cannot agree on a last "
                "step. Leave out "
                'jax.config.update("jax_enable_preemption_service", False).'
            ) from error

    def _is_agreed(self) -> bool:
        """Return True if the hosts have agreed to end here, by the folder on which they agree."""
        iterator: Any = self.iterator
        if self._came.came and not self._came.passed_on:
            self._came.passed_on = True
            iterator.ask_to_stop()
        return bool(iterator.stops_here)

    def close(self) -> None:
        """Handle signals as before. The iterator stays open."""
        self._restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait_for_others() -> None:
    """Wait until all processes of JAX have saved, or for 30 s.

    When the first process ends, JAX aborts the others at once.
    """
    if not _are_connected():
        return
    from jax._src.distributed import global_state

    with contextlib.suppress(RuntimeError):  # another one has failed, or needs longer
        global_state.client.wait_at_barrier(
            f"headrace-saved-{next(_preemptions)}", SAVE_SECONDS * 1000
        )


class _Notice:
    """Signal handler that notes that a signal came."""

    came = False
    passed_on = False
    is_over = False

    def __init__(self) -> None:
        self.formers: dict[int, Any] = {}  # former handler of each signal

    def __call__(self, number: int, frame: FrameType | None) -> None:
        former = self._former(number)
        if not self.is_over:
            self.came = True
            if isinstance(former, _Notice):  # of a loop around this one
                former(number, frame)
        elif (
            signal.getsignal(number) is not self
        ):  # a handler that took the place of this one has called it
            if callable(former):
                former(number, frame)
        elif (
            former is not None
        ):  # the loop ended in a thread that could not put the former handlers back
            signal.signal(number, former)
            os.kill(os.getpid(), number)

    def _former(self, number: int) -> Any:
        """Return the handler that was set before.

        If it belongs to a loop that has ended, return the one before that loop.
        """
        former = self.formers.get(number)
        while isinstance(former, _Notice) and former.is_over:
            former = former.formers.get(number)
        return former

    def leave(self) -> None:
        """Put the former handlers back where no other handler has taken the place of this one.

        In other threads than the main one, that is done when the next signal comes.
        """
        self.is_over = True
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self.formers:
            if (former := self._former(number)) is not None and signal.getsignal(number) is self:
                signal.signal(number, former)


def _are_connected() -> bool:
    """Return True if this process is connected to others: JAX was initialized for several.

    That is, `jax.distributed.initialize()` was called.
    """
    if "jax" not in sys.modules:
        return False
    from jax._src.distributed import global_state

    return global_state.client is not None
