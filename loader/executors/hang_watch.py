"""Report tasks that take too long, from a separate thread.

In: the workers that run in this process. Out: for each long task, a `Hang` with its operation,
record and Python stack.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few
from ...common.redaction import redacted
from ..interrupts import Uninterrupted, code_of, wait_until
from ..plan.pipeline import Pipeline
from ..work.explain import READING, Busy, is_ours, name_of, task_in_words
from ..work.tasks import NO_BLOCKS, SpanTask

if TYPE_CHECKING:
    from ..work.worker import Worker

# Chosen.
LEAST_PAUSE, MOST_PAUSE = 0.02, 5.0
"""Smallest and largest seconds between two checks.

Within these, they are a tenth of the time until a task is reported.
"""

# Chosen: the thread has nothing more to do when it is asked to end.
CLOSE_SECONDS = 1.0
"""Seconds that `close` waits for the thread to end."""

# Chosen: the innermost frames say where the task waits.
MOST_FRAMES = 12
"""Largest number of stack frames that a report shows."""


class Hang(NamedTuple):
    """Report of a task that takes long.

    Attributes:
        what: operation (or "reading"), and the line of the user's code that is running.
        where: text about the record that the task processes.
        seconds: seconds since the task began.
        text: `what`, `where`, `seconds` and the Python stack in one text, for the log.
    """

    what: str
    where: str
    seconds: float
    text: str

    @property
    def summary(self) -> str:
        """The report about a long task, as one line of text."""
        return f"{self.what}, {self.where}, for {self.seconds:.1f} s"


class UnderWay(Protocol):
    """Interface of a read of records that a thread is making at the moment."""

    @property
    def thread(self) -> int:
        """Identifier of the thread that makes the read."""

    @property
    def keys(self) -> NDArray[np.int64]:
        """The keys of the records that are being read."""


class ReadsUnderWay(Protocol):
    """Interface of an object that knows which records threads are reading in advance."""

    def oldest(self) -> UnderWay | None:
        """Return the current read of records that began first; None if nothing is being read."""


_LOGGER = logging.getLogger("headrace")


def log_hang(hang: Hang) -> None:
    """Log the report about a task that takes long, as a warning."""
    _LOGGER.warning(hang.text, extra={"hanging": hang.summary})


def log_silence(worker: int, given: str, seconds: float) -> None:
    """Log a warning that no worker has sent anything for `seconds` seconds.

    Args:
        worker: number of a worker that has a task.
        given: text that names the positions and records of this worker's task.
        seconds: seconds since any worker sent something.
    """
    _LOGGER.warning(
        f"worker {worker} has sent nothing for {seconds:.0f} s, not even a report about its task. "
        f"Its task works on {given}. The cause may be code that holds Python's lock (GIL), or a "
        "stopped process. Pass timeout= to end such workers.",
        extra={"hanging": f"worker {worker} has sent nothing for {seconds:.1f} s"},
    )


class HangWatch:
    """Reports tasks that take too long, from a thread of its own.

    A task is reported after `seconds` seconds, and again after each further `seconds` seconds.

    Args:
        seconds: seconds after which a task is reported. None: no task is reported, and no thread is
            started.
        reads: the reads that threads of this process make in advance; a task may wait for one of
            them.
        tell: function that gets the report. It is called in the thread that watches.
    """

    def __init__(
        self, seconds: float | None, reads: ReadsUnderWay, tell: Callable[[Hang], None]
    ) -> None:
        self._seconds = seconds
        self._reads = reads
        self._tell = tell
        self._workers: list[Worker] = []
        self._told: dict[
            int, tuple[float, int]
        ] = {}  # by worker: when its task began, and how often that was told
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        finalize(self, self._ended.set)

    def add(self, worker: Worker) -> None:
        """Watch one more worker that runs in this process, to report its tasks that take too long.

        The first call starts the watching thread, unless reports are switched off (`seconds` is
        None). If the system cannot start a thread, the next call tries again.
        """
        self._workers.append(worker)
        if self._seconds is not None and self._thread is None:
            pause = min(max(self._seconds / 10, LEAST_PAUSE), MOST_PAUSE)
            # The thread does not keep the watch alive: one that is dropped ends it.
            arguments = (ref(self), self._ended, pause)
            thread = threading.Thread(
                target=_watch, args=arguments, name="headrace-watch", daemon=True
            )
            with Uninterrupted(), suppress(RuntimeError):  # the system gives no more threads
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Stop the thread that reports tasks that take too long. May be called twice."""
        self._ended.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # Not for ever: the garbage collector may call this inside `threading.enumerate()`,
            # which holds a lock that the ending thread needs.
            wait_until(lambda: not thread.is_alive(), CLOSE_SECONDS)

    def look(self) -> None:
        """Report each running task that has reached the time limit, or another multiple of it.

        The time limit, in seconds, is an argument of the constructor.
        """
        if (seconds := self._seconds) is None:
            return
        for number, worker in enumerate(list(self._workers)):
            if (busy := worker.busy) is None:
                continue
            began = busy[0]
            took = perf_counter() - began
            told, times = self._told.get(number, (began, 0))
            if took >= ((times if told == began else 0) + 1) * seconds:
                self._told[number] = began, int(took / seconds)
                self._tell(hang_of(worker, busy, self._reads, took))


def _watch(watch: ref[HangWatch], ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause) and (one := watch()) is not None:
        # the work went on while it was looked at, or the user's process is gone
        with suppress(Exception):
            one.look()
        del one


def hang_of(worker: Worker, busy: Busy, reads: ReadsUnderWay, seconds: float) -> Hang:
    """Return a report on the task that a worker is running. Called from another thread.

    The worker continues meanwhile, so the record that it is processing may be unknown.

    Args:
        worker: the worker.
        busy: the start time of its current task, the task, and the identifier of its thread.
        reads: the reads that threads make in advance. If the worker waits for records, the report
            describes the oldest of these reads.
        seconds: seconds since the task began.
    """
    _, task, thread = busy
    frames = _frames_of(thread)
    who, where = READING, ""
    try:
        if (under_way := reads.oldest()) is not None and frames and is_ours(frames[0]):
            frames = _frames_of(under_way.thread)
            leaf = worker.pipeline.every_leaf[task.leaf] if isinstance(task, SpanTask) else None
            keys = [
                leaf.source_facts.describe_key(key) if leaf else key
                for key in under_way.keys.tolist()
            ]
            where = f"on record keys {first_few(keys, 8)}"
        else:
            who, where = _operation_in(frames, worker.pipeline), worker.place_now()
    except Exception:  # the work went on, and what was looked at is no more
        where = ""
    where = (
        where or f"at {task_in_words(task, NO_BLOCKS, worker.pipeline)}"
        if isinstance(task, SpanTask)
        else where
    )
    shown = _users_part(frames) or frames
    line = (
        f" ({shown[0].f_code.co_filename}:{shown[0].f_lineno}, in {shown[0].f_code.co_name})"
        if shown
        else ""
    )
    pairs = ((frame, frame.f_lineno) for frame in reversed(shown[:MOST_FRAMES]))
    stack = "".join(traceback.StackSummary.extract(pairs).format())
    return Hang(
        redacted(f"{who.rstrip(',')}{line}"),
        where,
        seconds,
        redacted(
            (
                f"{who.rstrip(',')} has not returned for {seconds:.0f} s {where}. "
                f"It is at:\n{stack}"
            ).rstrip()
        ),
    )


def _frames_of(thread: int | None) -> list[FrameType]:
    """Return the stack frames of a thread, innermost first; an empty list if it has ended."""
    frame, frames = sys._current_frames().get(thread) if thread is not None else None, []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _users_part(frames: list[FrameType]) -> list[FrameType]:
    """Return the innermost stack frames, up to the first frame of headrace's own code.

    The returned frames belong to the user's code and the libraries that it calls.
    """
    count = next((number for number, frame in enumerate(frames) if is_ours(frame)), len(frames))
    return frames[:count]


def _operation_in(frames: list[FrameType], pipeline: Pipeline) -> str:
    """Return the name of the operation whose function runs in one of the stack frames.

    Return "reading" if no frame runs the function of an operation.
    """
    codes = {frame.f_code for frame in frames}
    for number, operation in enumerate(pipeline.operations):
        if code_of(operation.user_function) in codes:
            return name_of(pipeline, number)
    return READING
