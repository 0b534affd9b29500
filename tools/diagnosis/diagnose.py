"""Run a loader for some steps, and say what the steps wait for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, TypeAlias

from ...common.messages import a_kind_of, short_repr
from ...common.validation import whole_number
from ...errors import ProgramError
from ...loader.iterator import DataLoaderIterator
from ...loader.options import ExecutionOptions, ReadOptions
from ...loader.timing.listeners import listening
from .diagnosis import Diagnosis
from .facts import source_of
from .hang_notes import HangNotes
from .interrupting import UntilEnough
from .measured import Measured
from .measuring import Lock, Look, closely, host_of, measured, tell_of_hangs

Prepare: TypeAlias = Callable[[Any], None]

WARM = (
    0.2  # share of the steps that are made before the measurement, to fill buffers and open files
)
# Chosen: a short pause of the machine then does not dominate a measurement.
SHORTEST = 0.3
"""Smallest number of seconds of a measurement, unless the stream ends earlier."""
GRACE_SECONDS = 1.0
"""Seconds after the time limit until a loop that has not returned is interrupted."""
LEAST, TASKS = 3, 4  # smallest numbers of steps, and of tasks of workers, in a measurement


def diagnose(
    loader: Any, *, steps: int = 100, step_seconds: float | None = None, seconds: float = 30.0
) -> Diagnosis:
    """Find out why a step waits for its batch, and what would change that. `print` the result.

    Takes batches from the loader, with its own workers, and drops them: first as fast as they come;
    then, with `step_seconds`, with a sleep of this length after each batch. To measure the loop of
    a whole program, use `headrace bench PROGRAM.py`.

    Args:
        loader: a `DataLoader`, a `MapDataset`, an `IterDataset`, or one of these on devices,
            `loader.to_device(…)`.
        steps: number of batches to measure (default 100), after a few batches to warm up. More are
            measured if these take less than 0.3 s or are of fewer than four tasks.
        step_seconds: duration of your own step in seconds. None (default): unknown. Then the
            verdict is about how fast batches come.
        seconds: maximum seconds to measure (default 30). The measurement may end with fewer steps.

    Raises:
        TypeError: `loader` is not a loader of headrace, or an argument has a wrong type. Exceptions
            of the source and the operations are raised, too.
        ValueError: an argument is out of range.
        ProgramError: fewer than three batches come before the end of the stream, or in time.

    >>> import headrace
    >>> slow = lambda x: sum(range(20_000))
    >>> loader = headrace.load(range(1000), transformations=[slow], batch_size=8)
    >>> diagnosis = headrace.diagnose(loader, steps=5)
    >>> diagnosis.finding.stage
    'lambda'
    """
    steps = whole_number("steps", steps, LEAST, None, "the number of batches to measure")
    seconds = _seconds("seconds", seconds)
    if step_seconds is None:
        return Diagnosis.of(_run(loader, steps, 0.0, seconds, step_known=False))
    own = _seconds("step_seconds", step_seconds)
    fastest = _run(loader, steps, 0.0, seconds / 2, step_known=False)
    return Diagnosis.of(
        _run(loader, steps, own, seconds / 2, step_known=True), possible=fastest.elapsed
    )


def work_alone(loader: Any, steps: int, seconds: float) -> Measured:
    """Measure how fast batches are made in one thread, without workers or reading in advance.

    In the result, `source.reads` is the number of concurrent reads that the loader itself would
    make.

    Args:
        loader: a `DataLoader`, a `MapDataset`, an `IterDataset`, or one of these on devices.
        steps: number of batches to measure, after a few batches to warm up.
        seconds: largest number of seconds to measure.

    Raises:
        TypeError: `loader` is not a loader of headrace.
        ProgramError: fewer than three batches come before the end of the stream, or in time.
    """
    reads: list[int] = []

    def prepare(loop: Any) -> None:
        if isinstance(loop, DataLoaderIterator):
            reads.append(source_of(loop.pipeline, loop.execution).reads)
            init = loop.execution.worker_init_fn
            reading = ReadOptions(num_threads=0)
            loop.execution = ExecutionOptions(
                read_options=reading, worker_init_fn=init, observe="each"
            )

    found = _run(loader, steps, 0.0, seconds, step_known=False, prepare=prepare)
    return replace(found, source=replace(found.source, reads=reads[0]))


def _run(
    loader: Any,
    steps: int,
    own: float,
    seconds: float,
    step_known: bool,
    prepare: Prepare = closely,
) -> Measured:
    def closely_and_soon(loop: Any) -> None:
        prepare(loop)
        tell_of_hangs(loop, seconds)

    with HangNotes() as hangs, listening(closely_and_soon), _loop(loader) as loop:
        lock, looks, until = Lock(), Looks(loop, steps), time.monotonic() + seconds

        def take_batches() -> None:
            for _ in loop:
                if own:
                    time.sleep(own)
                if looks.have_enough() or time.monotonic() > until:
                    break

        threads = host_of(loop).execution.worker_kind == "thread"
        with lock.watched() if threads else contextlib.nullcontext():
            if threading.current_thread() is threading.main_thread():
                UntilEnough(lambda: False, seconds + GRACE_SECONDS, ends_process=False).run(
                    take_batches
                )
            else:  # nothing can interrupt it there
                take_batches()
            try:
                before, after = looks.best()
            except ProgramError as error:
                raise ProgramError(f"{hangs.sentence} {error}".strip()) from None
    return replace(measured(loop, before, after, lock, step_known), hangs=hangs.sentence.strip())


@contextlib.contextmanager
def _loop(loader: Any) -> Iterator[Any]:
    loop: Any = iter(loader) if isinstance(loader, Iterable) else loader
    try:
        host_of(loop)
    except TypeError as error:
        raise TypeError(
            f"diagnose({short_repr(loader)}): {a_kind_of(loader)} is not a loader of headrace, and "
            "does not take its batches from one. Pass a DataLoader, a dataset, or one of these on "
            "devices, loader.to_device(…)."
        ) from error
    with loop:
        yield loop


class Looks:
    """Observations of a loop, with counts and times up to then: at start, after warm-up, and now.

    Args:
        loop: an iterator or a feeder.
        steps: number of steps to measure.
    """

    def __init__(self, loop: Any, steps: int) -> None:
        self.loop = loop
        self._next = max(1, round(WARM * steps))
        self._steps = steps
        self._looks = [Look.at_loop(loop)]
        self._not_before = time.perf_counter() + SHORTEST

    @property
    def steps(self) -> int:
        return int(self.loop.snapshot().steps)

    def have_enough(self) -> bool:
        """Return True if the loop made the wanted steps and four tasks since warm-up.

        It must also have run for 0.3 s.
        """
        if self.steps < self._next:
            return False
        look = Look.at_loop(self.loop)
        if len(self._looks) == 1:
            self._looks.append(look)
            self._next += self._steps
            return False
        self._next += max(self._steps // 4, 1)
        return look.tasks - self._looks[1].tasks >= TASKS and look.at > self._not_before

    def alike(self, other: Looks) -> bool:
        """Return True if both loops have the same source, operations and worker count.

        Two epochs of a loader do.
        """
        return self._runs == other._runs

    @property
    def _runs(self) -> list[int]:
        host = host_of(self.loop)
        return [
            id(host.pipeline.leaves[0].source),
            *map(id, host.pipeline.operations),
            host.execution.workers,
        ]

    def whole(self) -> tuple[Look, Look]:
        return self._looks[0], Look.at_loop(self.loop)

    def best(self) -> tuple[Look, Look]:
        """Return the two observations to measure between.

        They are the latest one that is at least three steps old, and one made now.

        Raises:
            ProgramError: the loop has made fewer than three steps.
        """
        after = Look.at_loop(self.loop)
        for before in reversed(self._looks):
            if (
                before.loop.steps + LEAST <= after.loop.steps
                and before.loop.elapsed < after.loop.elapsed
            ):
                return before, after
        raise ProgramError(
            f"only {after.loop.steps} step{'s were' if after.loop.steps != 1 else ' was'} "
            f"measured, and at least {LEAST} are needed. Use a loader with more steps, or measure "
            "for more seconds (seconds=, or --seconds)."
        )


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{name}={short_repr(value)} is {a_kind_of(value)}. Pass a number of seconds, such as "
            "0.02."
        )
    seconds = float(value)
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f"{name}={short_repr(value)} is not a finite number above 0. Pass a number of seconds, "
            "such as 0.02."
        )
    return seconds
