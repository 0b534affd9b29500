"""Add up, in the user's process, the times of tasks (measured by workers) and the times of waits.

In: blocks (the rows of one task each) when they are received, and events of workers. Out: sums, and
the times of the last tasks one by one. The times of each task become a row in a ledger (a table of
fixed length). The rows of the ledger are added up when the ledger is full, or when a caller asks
for the sums.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from time import perf_counter
from typing import Any, get_type_hints

import numpy as np

from ...common.distinct import distinct
from .quantiles import WINDOW, Quantiles, quantiles_of
from .snapshot import Snapshot, StageNames
from .sums import Rows, StageSums
from .times import Moments, TaskEvent, TaskTimes, WorkerEvent
from .workers import WorkerStats, worker_stats

# Chosen: covers some seconds of many small tasks, in a quarter of a megabyte.
KEPT = 2000
"""Largest number of timed tasks that are kept one by one."""

_TASK = {
    "block": "q",
    "stage": "q",
    "start": "q",
    "stop": "q",
    "submitted": "d",
    "asked": "d",
    "taken": "d",
}
_MEASURED = get_type_hints(TaskTimes).items()
_COLUMNS = {
    **_TASK,
    **{name: "q" if kind is int else "d" for name, kind in _MEASURED if name != "look"},
}
"""Letter of `struct` for each column: a task, its `Moments`, and its `TaskTimes` without `look`."""

_LOOK = TaskTimes._fields.index("look")
_ROW = Struct("=" + "".join(_COLUMNS.values()))
_DTYPE = np.dtype([(name, f"={kind}") for name, kind in _COLUMNS.items()])

# Chosen.
KEPT_EVENTS = 200
"""Largest number of starts and ends of workers that are kept."""


class Waits:
    """The user's waits in `next`: their seconds, and the two longest pauses between two waits.

    A pause is the time that the user spends outside `next`.

    Attributes:
        began: time at which the current wait began; None if the user does not wait.
        last: seconds of the waits for the last elements, oldest first. If several elements came at
            once, the wait is counted for the first of them, and the others have 0.
    """

    def __init__(self) -> None:
        self._seconds = 0.0  # of the waits that ended
        self._since = self._until = 0.0
        self.began: float | None = (
            None  # the wait that has not ended, in seconds of `time.perf_counter`
        )
        self._pauses = 0.0, 0.0  # the two longest times away: the second longest, and the longest
        self.last: deque[float] = deque(maxlen=WINDOW)

    def end(self, now: float, elements: int = 1) -> None:
        """End the user's current wait in `next`.

        Args:
            now: current time.
            elements: number of elements that came; 0 if the stream ended.
        """
        began = now if self.began is None else self.began
        if began - self._until >= self._pauses[0]:
            self._since = self._since or began
            self._pauses = self._with(began - (self._until or began))
        self._seconds, self._until, self.began = self._seconds + (now - began), now, None
        if elements:
            self.last.append(now - began)
            if elements > 1:
                self.last.extend(_NO_WAITS[: elements - 1])

    def until(self, now: float) -> float:
        """Return the user's seconds in `next` up to time `now`, including an unfinished wait."""
        began = self.began
        return self._seconds + (0.0 if began is None else now - began)

    @property
    def seconds(self) -> float:
        """Seconds of all of the user's waits in `next` that have ended."""
        return self._seconds

    @property
    def elapsed(self) -> float:
        """Seconds from the start of the user's first wait in `next` to the end of the last wait."""
        return self._until - self._since

    @property
    def paused(self) -> float:
        """Sum of the two longest times that the user spent outside `next`, in seconds.

        Each is the time from the end of a wait in `next` to the beginning of the following wait.
        Times before the last call of `forget_pauses` do not count.
        """
        return sum(
            self._pauses
            if self.began is None
            else self._with(self.began - (self._until or self.began))
        )

    def _with(self, away: float) -> tuple[float, float]:
        second, longest = sorted((*self._pauses, away))[1:]
        return second, longest

    def forget_pauses(self) -> None:
        """Forget the times that the user spent outside `next` so far; `paused` starts from 0."""
        self._pauses, self._until = (0.0, 0.0), self._until if self.began is None else self.began


_NO_WAITS = (0.0,) * WINDOW


class Ledger:
    """Table with a row of times for each of the last timed tasks; new rows replace the oldest rows.

    Only one thread may write.

    Attributes:
        count: number of rows written so far, including rows that were replaced.
    """

    def __init__(self) -> None:
        self.count = 0
        self._memory = bytearray(KEPT * _ROW.size)
        self._rows: Rows = np.frombuffer(self._memory, _DTYPE)

    def write(
        self, block: int, stage: int, start: int, stop: int, times: TaskTimes, moments: Moments
    ) -> None:
        """Write the times of a task as a new row, in place of the oldest row if the table is full.

        Args:
            block: number of the task's block (its result).
            stage: index of the task's stage (the operations that it ran).
            start: first position; 0 for a task whose inputs are rows of earlier tasks.
            stop: end of the positions; for a task whose inputs are rows, the number of these rows.
            times: times that the worker measured.
            moments: times at which the task was submitted, and its result was requested and
                received.
        """
        measured = times[:_LOOK] + times[_LOOK + 1 :]
        at = self.count % KEPT * _ROW.size
        _ROW.pack_into(self._memory, at, block, stage, start, stop, *moments, *measured)
        self.count += 1

    def last_tasks(self) -> Iterator[tuple[tuple[int, ...], Moments, TaskTimes]]:
        """Yield what is known about each of the last timed tasks, oldest first.

        Yields:
            a triple. First, four numbers: block (the task's result), stage (the operations that it
                ran), start and stop, see `write`. Second, the times at which the task was
                submitted, and its result was requested and received. Third, the times that the
                worker measured, in which `look` is always None.
        """
        for row in self.since(0).tolist():
            task, moments, measured = row[:4], row[4 : len(_TASK)], row[len(_TASK) :]
            times: Any = (*measured[:_LOOK], None, *measured[_LOOK:])
            yield task, moments, TaskTimes(*times)

    def since(self, number: int) -> Rows:
        """Return the times of the last timed tasks, from number `number` on, oldest first.

        The result is a copy of rows of the ledger (a table with one row for each timed task), at
        most 2,000. Rows are numbered from 0.
        """
        count = self.count
        return self._rows[np.arange(max(number, count - KEPT, 0), count) % KEPT]


class SharedBytes:
    """Bytes of memory shared with one executor's workers: the current and the largest value."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def add(self, change: int) -> None:
        """Add `change`, which may be negative, to the bytes shared now; update the largest."""
        self.now += change
        self.most = max(self.most, self.now)


class Observer:
    """Counts and times of one iterator, since its start or the last restored state.

    The thread that uses the iterator writes; any thread may read.
    """

    def __init__(self) -> None:
        self.waits = Waits()
        self.worker_count: int | None = None  # where that changes, and the options do not tell
        self.decision = (
            ""  # why the calling thread works where workers were asked for, as a sentence
        )
        self.started = self.ended = 0
        self.slabs = SharedBytes()
        self._ledger = Ledger()
        self._added = 0  # rows of it, to the sums
        self._stages: dict[int, StageSums] = {}
        self._made_of: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=KEPT)
        self._workers: deque[WorkerEvent] = deque(maxlen=KEPT_EVENTS)
        self._adding = threading.RLock()  # one that a signal's handler may take again

    def stage(self, number: int) -> StageSums:
        """Return the sums of a stage (operations that run in one task), to read or to add to."""
        return self._stages.setdefault(number, StageSums())

    def note(self, number: int, task: Any, block: Any) -> None:
        """Record the times of a task whose result was received.

        Args:
            number: number of the task's block (its result).
            task: the task.
            block: the block, which has the times.
        """
        times: TaskTimes = block.times
        start, stop = task.span
        self._ledger.write(number, task.stage, start, stop, times, block.moments)
        if blocks := task.blocks:
            self._made_of.append((number, blocks))
        if times.look is not None:
            with self._adding:
                self.stage(task.stage).add_look(times.look, times.tasks)
        if self._ledger.count - self._added >= KEPT:
            self._add_up()

    def worker_started(self, worker: int) -> None:
        """Record that a worker is being started."""
        self.started += 1
        self._workers.append(WorkerEvent(perf_counter(), worker, "started"))

    def worker_ended(self, worker: int, how: str) -> None:
        """Record that a worker has ended by itself or was killed.

        Args:
            worker: number of the worker.
            how: how the worker ended, for example "by signal SIGKILL".
        """
        self.ended += 1
        self._workers.append(WorkerEvent(perf_counter(), worker, how))

    def after(self, former: Observer) -> Observer:
        """Copy the number of workers and the counts of shared memory from `former`.

        Args:
            former: observer of an earlier run, whose executor is used again.

        Returns:
            this object.
        """
        self.worker_count, self.slabs = former.worker_count, former.slabs
        return self

    def stages(self) -> dict[int, StageSums]:
        self._add_up()
        return dict(self._stages)

    def last_tasks(self) -> tuple[TaskEvent, ...]:
        """Return the last timed tasks, at most 2,000, in the order in which their results came."""
        made_of = dict(self._made_of)
        return tuple(
            TaskEvent(block, stage, start, stop, made_of.get(block, ()), *moments, times)
            for (block, stage, start, stop), moments, times in self._ledger.last_tasks()
        )

    def snapshot(self, names: Sequence[StageNames], **more: Any) -> Snapshot:
        """Return counts and times of all stages that have a timed task.

        A stage is the operations that run in one task.

        Args:
            names: names and facts of each stage.
            **more: further fields of `Snapshot`.
        """
        stages, elapsed = sorted(self.stages().items()), self.waits.elapsed
        return Snapshot(
            elapsed=elapsed,
            waited=self.waits.seconds,
            stages=tuple(
                sums.stats(number, names[number], elapsed)
                for number, sums in stages
                if sums.timed_inputs
            ),
            records=sum(sums.inputs for number, sums in stages if names[number].reads),
            nbytes=sum(sums.read_bytes for number, sums in stages if names[number].reads),
            shared_bytes=self.slabs.now,
            **more,
        )

    def quantiles(self, names: Sequence[StageNames]) -> dict[str, Quantiles]:
        """Return quantiles of the last waits and of the last timed tasks.

        A hand-over is the time until the result of a task is received: since the end of the task,
        or since the request for the result if this came later.

        Args:
            names: names and facts of each stage (operations that run in one task).

        Returns:
            quantiles of seconds, by name: "next" (waits in `next`), "hand-over" (hand-overs of
            results), and for each stage "stage 0: …" and so on (times of the stage's tasks).
        """
        rows = self._ledger.since(0)
        ready = np.maximum(rows["ended"], rows["asked"])
        found = {
            "next": self.waits.last.copy(),
            "hand-over": np.maximum(rows["taken"] - ready, 0.0),
        }
        for stage in distinct(rows["stage"]):
            own = rows[rows["stage"] == stage]
            found[f"stage {stage}: {', '.join(names[stage].operations) or 'reading'}"] = (
                own["ended"] - own["began"]
            )
        return {
            name: quantiles_of(np.fromiter(seconds, np.float64, len(seconds)))
            for name, seconds in found.items()
        }

    def worker_stats(self) -> WorkerStats:
        """Return statistics of workers over the last timed tasks, at most 2,000."""
        return worker_stats(
            self._ledger.since(0), self.started, self.ended, self.slabs.now, self.slabs.most
        )

    def last_of_workers(self) -> tuple[WorkerEvent, ...]:
        return tuple(self._workers)

    def _add_up(self) -> None:
        with self._adding:
            rows = self._ledger.since(self._added)
            for stage in distinct(rows["stage"]):
                self.stage(stage).add(rows[rows["stage"] == stage])
            self._added += len(rows)
