"""Measure the times of a worker's tasks and, for some tasks, the time of each operation.

In: begin and end of tasks. Out: `TaskTimes`. If tasks are too short to time each of them, only
every n-th task is timed, and its times are used for the others. To time each operation, the clock
must be read twice for each call. So operations are timed in a small share of the tasks only. The
share is larger if a call takes much longer than reading the clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import length_hint
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from ...operations.protocol import Element, Step
from ...operations.trees import flatten
from ..timing.times import OperationTimes, SlowestCall, TaskTimes
from .stacked_rows import StackedRows
from .tasks import Block

try:
    import resource
except ImportError:  # Windows has no such module
    resource = None  # type: ignore[assignment]

# Chosen: far less than 1 % of the work per record, even if that is small.
LOOKS_SHARE = 0.001
"""Share of a worker's time that timing its single operations may take."""

# Chosen: most calls are then timed, and the measured times are not far from the true ones.
LOOKS_SHARE_CLOSELY = 0.05
"""Share of a worker's time that timing its single operations may take with `observe="each"`."""

# Measured with `mnist`. If few calls are timed, the timing code is not in the caches, and takes
# twice as long.
CALL_SECONDS = 0.33e-6
"""Seconds that the timing of one call takes if all calls are timed."""

# Measured: 18 µs for each of the two readings of the thread's processor time.
LOOK_SECONDS = 40e-6
"""Seconds that timing the operations of a task takes in addition to the time per call."""

# Chosen: so that short runs have times of operations, too.
FIRST_LOOKS = 1e-3
"""Seconds that the timing of operations may take directly after the first task of a worker."""

SAMPLES = 16
"""Number of records of a task whose bytes are counted.

The other records are assumed to have the same size.
"""

# Measured with `mnist`: to time each of its batches, of 0.4 ms, took 2 %.
TIMED_SECONDS, MOST_UNTIMED = 8e-3, 100
"""Seconds between timed tasks, about, if short; largest number of untimed tasks between them."""


class ReadSeconds(NamedTuple):
    """Seconds that reading took in a task.

    Attributes:
        waited: seconds in which the worker read records itself, or waited for them.
        under_way: seconds of all reads of the task's records added up, including reads made in
            advance on other threads.
    """

    waited: float
    under_way: float


class Stopwatch:
    """Times the tasks of one worker in one stage (operations that run in one task).

    Args:
        worker: number of the worker.

    Attributes:
        share: largest share of the worker's time that the timing of operations may take.
        every: only every n-th task is timed; this is n. The times are used for the other tasks,
            too.
    """

    share = LOOKS_SHARE

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._began = self._ended = 0.0
        self._read_bytes = 0.0  # of the records of the task
        # seconds that looks may take; below 0 before the first task, which is like no other
        self._allowed = -1.0
        self.every = 1

    def begin(self) -> None:
        self._began, self._read_bytes = perf_counter(), 0.0

    def add_records(self, records: Sequence[Any]) -> None:
        """Count the bytes of records that the task has read, estimated from a few of them."""
        some = records[:: -(-len(records) // SAMPLES)]
        self._read_bytes += sum(map(bytes_of, some)) / len(some) * len(records)

    def may_look(self, calls: int) -> bool:
        """Return True if there is enough time left to time `calls` calls of operations, each alone.

        Timing may take only `share` of the worker's time. If the result is True, the time for these
        calls is deducted from the time that is left.
        """
        cost = 2 * calls * CALL_SECONDS + LOOK_SECONDS
        if cost > self._allowed:
            return False
        self._allowed -= cost
        return True

    def end(
        self,
        block: Block,
        inputs: int,
        batches: bool,
        reading: ReadSeconds,
        look: OperationTimes | None,
    ) -> TaskTimes:
        """Return the times of the task, which ends now.

        Args:
            block: block (the rows of one task) that the task returned.
            inputs: number of the task's inputs (positions, or rows of earlier tasks).
            batches: True if the rows of the block are batches.
            reading: seconds that reading took.
            look: times of the task's operations; None if they were not timed.
        """
        elements = block.elements
        nbytes = bytes_of_rows(elements, batches) if len(elements) else 0
        ended, began, tasks = perf_counter(), self._began, self.every
        seconds = ended - began - (look.extra if look else 0.0)
        # A timed task takes longer than others, as no cache holds the code that times it.
        each = min(seconds, (ended - self._ended) / tasks)
        self._allowed = (
            self._allowed + self.share * tasks * each if self._allowed >= 0 else FIRST_LOOKS
        )
        self._ended = ended
        self.every = 1 + min(int(TIMED_SECONDS / (each + 1e-9)), MOST_UNTIMED)
        waited, under_way = reading
        rows = len(elements)
        read_bytes = round(self._read_bytes)
        return TaskTimes(
            self._worker,
            began,
            ended,
            waited,
            0.0,
            inputs,
            rows,
            nbytes,
            under_way,
            tasks,
            look,
            read_bytes,
            most_memory(),
        )


class EachTask(Stopwatch):
    """Stopwatch that times every task, for tools that examine short runs.

    Unlike `Stopwatch`, it may spend 5 % of the worker's time on timing operations, not only 0.1 %.
    """

    share = LOOKS_SHARE_CLOSELY

    def end(
        self,
        block: Block,
        inputs: int,
        batches: bool,
        reading: ReadSeconds,
        look: OperationTimes | None,
    ) -> TaskTimes:
        times = super().end(block, inputs, batches, reading, look)
        self.every = 1
        return times


def stopwatches(worker: int, observe: bool | str) -> Callable[[], Stopwatch] | None:
    """Return a function that makes stopwatches for a worker; None if nothing is timed.

    Args:
        worker: number of the worker.
        observe: value of `ExecutionOptions.observe`: False, True, or "each" to time every task.
    """
    return partial(EachTask if observe == "each" else Stopwatch, worker) if observe else None


class OperationClock:
    """Measures the seconds that each operation of a stage takes, and those between operations.

    A stage is a group of operations that run in one task.

    Args:
        count: number of operations.
        single: number of operations at the start that get elements one by one. Their slowest call
            is recorded.
        each: number of positions that one input was made of; more than one if inputs are batches
            made from columns (arrays with all records).
    """

    def __init__(self, count: int, single: int, each: int = 1) -> None:
        self._each = each
        self._seconds = [0.0] * (count + 1)
        self._single = single
        self._since = self._looked = self._cpu = 0.0
        self._inputs = 0
        # of what is pushed now: seconds, operation, and how many inputs were left then
        self._slowest = (0.0, 0, 0)
        self._worst: SlowestCall | None = None
        self._left: Iterator[Any] = iter(())

    def around(self, step: Step, place: int) -> Step:
        """Return a function that calls `step`, and counts the time of the call for one operation.

        The time since the last call of any operation is counted for the operation before this one.
        For the first operation of a stage, it is counted as time between inputs.

        Args:
            step: function that processes an element with the operation.
            place: index of the operation in its stage (operations that run in one task).
        """
        seconds, before = self._seconds, place - 1 if place else -1
        slowest = self._noting if 0 <= before < self._single else None

        def timed(element: Element) -> None:
            now = perf_counter()
            took = now - self._since
            seconds[before] += took
            if slowest is not None and took > self._slowest[0]:
                slowest(took, before)
            self._since = now
            step(element)
            now = perf_counter()
            seconds[place] += now - self._since
            self._since = now

        return timed

    def _noting(self, took: float, place: int) -> None:
        self._slowest = took, place, length_hint(self._left)

    def begin(self, inputs: Iterator[Any]) -> None:
        self._left, self._slowest = inputs, (0.0, 0, 0)
        self._cpu -= needed_seconds()
        self._since = perf_counter()
        self._looked -= self._since

    def end(self, inputs: int, tag_of: Callable[[int], int]) -> None:
        """End the timing of the operations in a task.

        Args:
            inputs: number of the task's positions. All have passed the operations.
            tag_of: function that returns the tag (a number that stands for a record) of the input
                of the slowest call. Its argument is the number of inputs of the task after this
                input.
        """
        now = perf_counter()
        self._seconds[-1] += now - self._since
        self._looked += now
        self._cpu += needed_seconds()
        self._inputs += inputs
        took, place, left = self._slowest
        if took > (self._worst.seconds if self._worst else 0.0):
            self._worst = SlowestCall(took, place, tag_of(left))
        self._left = iter(())

    def take(self) -> OperationTimes | None:
        """Return the times of operations since the last call, without the cost of the timing.

        Return None if the operations got no inputs since then.
        """
        if not self._inputs:
            return None
        own = self.calls(self._inputs) * CALL_SECONDS / (self._single + 1)
        seconds = [
            each - own if place <= self._single else each
            for place, each in enumerate(self._seconds)
        ]
        extra = own * (self._single + 1)
        operations = tuple(max(0.0, each) for each in seconds)
        look = OperationTimes(
            self._inputs, self._looked - extra, self._cpu - extra, extra, operations, self._worst
        )
        self._seconds[:] = [0.0] * len(self._seconds)
        self._inputs, self._looked, self._cpu, self._worst = 0, 0.0, 0.0, None
        return look

    def calls(self, inputs: int) -> int:
        """Return an estimate of the calls that are timed while `inputs` positions are processed.

        For each input (a position, or a batch made from columns), these calls count: one call of
        each operation that gets elements one by one; and one call of what follows these operations,
        which is a `Batch` or the function that keeps the results. Calls of operations after a
        `Batch` are left out, and a `Filter` makes the true number smaller.
        """
        return -(-inputs // self._each) * (self._single + 1)


def bytes_of_rows(rows: Any, batches: bool) -> int:
    """Return the size of rows in bytes. There must be at least one row.

    Args:
        rows: the rows, as columns (all bytes are counted) or as a list.
        batches: how to count the bytes of a list. True: each row is a batch, and the bytes of all
            are counted. False: the bytes of the first row are multiplied by the number of rows.
    """
    if isinstance(rows, StackedRows):
        return sum(column.nbytes for column in rows.columns)
    first = bytes_of(rows[0])
    if len(rows) == 1:
        return first
    return first + sum(map(bytes_of, rows[1:])) if batches else first * len(rows)


def bytes_of(element: Element) -> int:
    """Return the size of an element in bytes: its arrays, byte strings, texts and numbers together.

    A Python int, float or bool counts 8 bytes; a text counts 1 byte for each character; an object
    of another type without `nbytes`, a Python complex too, counts 0.

    >>> bytes_of({"x": np.zeros(3, np.float32), "label": 1, "name": "abc"})
    23
    """
    kind = type(element)
    if kind is dict:
        total = 0
        for leaf in element.values():  # a loop, as it is done for every batch
            total += leaf.nbytes if type(leaf) is np.ndarray else bytes_of(leaf)
        return total
    if kind is np.ndarray:
        return int(element.nbytes)
    if kind in (bytes, str):
        return len(element)
    if kind in (int, float, bool):
        return 8
    leaves = flatten(element)[0]
    return (
        int(getattr(element, "nbytes", 0))
        if len(leaves) == 1 and leaves[0] is element
        else sum(map(bytes_of, leaves))
    )


def needed_seconds() -> float:
    """Return for how many seconds this thread has run, or could run but had no processor."""
    return thread_time() + kept_seconds()


def most_memory() -> int:
    """Return the largest number of bytes that this process has had in memory so far.

    Return 0 if the system does not report it.
    """
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def kept_seconds() -> float:
    """Return for how many seconds this thread was ready to run but had no processor.

    Return 0 if the system does not report this; only Linux does.
    """
    try:
        # in C: no interrupt leaves the file open
        told = np.fromfile("/proc/thread-self/schedstat", np.int64, 3, sep=" ")
    except OSError:  # it is not Linux, or its kernel does not count this
        return 0.0
    return float(told[1]) * 1e-9 if len(told) == 3 else 0.0
