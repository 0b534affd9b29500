"""Choose the length of the next tasks from the times of earlier ones.

In: times of tasks. Out: the number of positions or rows in the next task, the number of tasks in
one message to a worker, and an estimate of a task's time.

The first tasks are as small as possible, so that the first element comes soon. But a batch of small
records is made in less time than it takes to send the messages about it. So later tasks make
several batches each, as long as the task takes little time and its batches fit into the processor's
caches.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..options import ExecutionOptions, ReadOptions
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from ..plan.stages import MIN_SPAN, Stage
from ..work.tasks import Block, SpanTask, Task, input_count
from .protocol import window_of
from .stored_rows import Budget

if TYPE_CHECKING:
    from .pool import WorkerPool

# A hundred times as long as its messages take. Measured with `mnist` and two workers.
TASK_SECONDS = 30e-3
"""Largest number of seconds that a task should take. A task of a single batch may take longer."""

# Measured with `mnist` and `ragged`. With the second number, rows are still in the caches when they
# are read.
TASK_BYTES, REREAD_BYTES = 16 << 20, 8 << 20
"""Largest number of bytes of a task's rows; the second applies if there are several stages."""

# Chosen: rows of one window lie side by side, and are batched without a copy.
WINDOW_BYTES = 1 << 20
"""Largest number of bytes of a task's packed rows, if they are from several windows of a `Pack`."""

# Chosen by the size of a packet, which has no room for the keys of more batches.
MAX_UNITS, MAX_REREAD_UNITS = 32, 16
"""Largest number of batches in the tasks of one message.

The second number applies if the pipeline has several stages.
"""

# Chosen: small against `TASK_BYTES`.
INLINE_UNITS = 8
"""Largest number of spans (consecutive positions) of single rows in a task, without messages."""

# Chosen.
WAITING_SHARE = 0.1
"""Share of a worker's time.

If it waits for records for more than this share, records of more tasks are read in advance.
"""

# Chosen: if enough reads are running, a task that did not wait does not show that fewer would do.
STILL_WAITING = 0.98
"""Factor by which the recorded share of waiting falls after a task that did not wait."""


class Limits(NamedTuple):
    """Limits for the number of inputs (positions, or rows of earlier tasks) of a stage's tasks.

    A stage is a group of operations that run in one task.

    Attributes:
        least: smallest number of inputs in a task. Each task has a multiple of this number.
        task: largest number of inputs in a task.
        message: largest number of inputs in all tasks of a message together. It is also the largest
            number of rows that a task makes, unless a task with `least` inputs makes more.
        nbytes: largest number of bytes of a task's rows, unless a task with `least` inputs has
            more.
    """

    least: int
    task: int
    message: int
    nbytes: int = TASK_BYTES


def inline_limits_of(pipeline: Pipeline) -> dict[int, Limits]:
    """Return the limits for the length of tasks in the calling thread.

    The result is a dict from the index of a stage (operations that run in one task) to its limits.
    """

    def units(stage: Stage) -> int:  # what is run through is so again, to resume
        run_through = stage.leaf is not None and pipeline.leaves[stage.leaf].in_order
        return 1 if stage.groups or run_through else INLINE_UNITS

    return {stage.number: _limits(pipeline, stage, units(stage)) for stage in pipeline.stages}


def limits_of(pipeline: Pipeline, several: bool) -> dict[int, Limits]:
    """Return the limits for the length of tasks that workers run.

    Args:
        pipeline: pipeline of the run.
        several: True if the tasks of one message to a worker may make several batches together;
            False if they make one batch.

    Returns:
        A dict from the index of a stage (operations that run in one task) to its limits.
    """
    units = 1 if not several else MAX_UNITS if len(pipeline.stages) == 1 else MAX_REREAD_UNITS
    return {stage.number: _limits(pipeline, stage, units) for stage in pipeline.stages}


def _limits(pipeline: Pipeline, stage: Stage, units: int) -> Limits:
    if stage.leaf is None:
        return (
            Limits(stage.unit, stage.unit, stage.unit * units)
            if stage.groups
            else Limits(1, MIN_SPAN, MIN_SPAN * units)
        )
    span, packs = (
        pipeline.spans[stage.leaf],
        bool(stage.operations) and stage.operations[-1].plans_rows,
    )
    return Limits(
        span if stage.groups else 1,
        span * units,
        span * units,
        WINDOW_BYTES if packs else TASK_BYTES,
    )


def more_or_fewer(done: int, seconds: float, most: int) -> int:
    """Return how many batches (1 to `most`) to make together next, so that they take about 30 ms.

    Args:
        done: number of batches that were made together last. The result is at most twice this
            number.
        seconds: seconds that these `done` batches took together.
        most: largest result.

    >>> more_or_fewer(4, 1e-3, 32), more_or_fewer(4, 0.1, 32)
    (8, 1)
    """
    return max(min(int(done * TASK_SECONDS / max(seconds, 1e-9)), 2 * done, most), 1)


class Pace:
    """Measures the times of tasks, and chooses the length of the next task.

    Args:
        limits: dict from the index of a stage (operations that run in one task) to the limits for
            the number of inputs of its tasks.
    """

    def __init__(self, limits: Mapping[int, Limits]) -> None:
        self._limits = limits
        self._most_bytes = TASK_BYTES if len(limits) == 1 else REREAD_BYTES
        self.seconds: dict[int, float] = {}  # by stage, of an input
        self._waiting: dict[int, float] = {}  # share of the time
        self._weights: dict[int, int] = {}  # bytes of an input's rows
        self._together = {stage: each.least for stage, each in limits.items()}

    def inputs(self, stage: int) -> int:
        """Return the number of positions or rows in a stage's next task.

        A stage is a group of operations that run in one task.
        """
        return min(self._together[stage], self._limits[stage].task)

    def tasks(self, stage: int) -> int:
        """Return the number of a stage's tasks in the next message to a worker.

        A stage is a group of operations that run in one task.
        """
        return max(self._together[stage] // self._limits[stage].task, 1)

    def is_settled(self, stage: int, seconds: float, rows: int) -> bool:
        """Return True if the time of a task would not change the length of the next tasks.

        This is so if tasks already have the largest length, this task took at most 30 ms, and it
        did not make more rows than a task may have. The bytes of its rows are not considered.

        Args:
            stage: index of the stage (operations that run in one task).
            seconds: seconds that the task took.
            rows: number of rows that it made.
        """
        most = self._limits[stage].message
        return 2 * self._together[stage] > most and seconds <= TASK_SECONDS and rows <= most

    def waits(self, stage: int) -> bool:
        """Return True if tasks of a stage waited for records for over 10 % of their time.

        A stage is a group of operations that run in one task.
        """
        return self._waiting.get(stage, 0.0) > WAITING_SHARE

    def tasks_within(self, stage: int, inputs: int, nbytes: int | None) -> int:
        """Return how many tasks of a stage may have their rows in memory at the same time.

        The result is `sys.maxsize` if `nbytes` is None, or if the size of rows is unknown.

        Args:
            stage: index of the stage (operations that run in one task).
            inputs: number of inputs of each task.
            nbytes: bytes of memory for the rows of all stages together. Each stage may use an equal
                share. None for no limit.
        """
        weight = self._weights.get(stage, 0) * inputs
        return (
            sys.maxsize if nbytes is None or not weight else nbytes // len(self._limits) // weight
        )

    def note(self, task: Task, seconds: float, waited: float, rows: int, size: int = 0) -> bool:
        """Record the time of a task, and adapt the length of the next tasks.

        After each task, the length at most doubles. The time in which the task waited for records
        is a part of the task's time.

        Args:
            task: task that is done.
            seconds: seconds that it took.
            waited: how many of these seconds it waited for records.
            rows: number of rows that it made.
            size: bytes of these rows; 0 if unknown.

        Returns:
            True if a result of `inputs`, `tasks`, `waits` or `tasks_within` may have changed.
        """
        stage, is_span, share = task.stage, isinstance(task, SpanTask), waited / max(seconds, 1e-9)
        before = self._together[stage], self.waits(stage), self._weights.get(stage, 0)
        self._waiting[stage] = max(share, self._waiting.get(stage, 0.0) * STILL_WAITING)
        inputs = max(task.stop - task.start if isinstance(task, SpanTask) else input_count(task), 1)
        each = (seconds - waited) / inputs
        self.seconds[stage] = (self.seconds.get(stage, each) + each) / 2
        least, _, most, nbytes = self._limits[stage]
        nbytes = min(nbytes, self._most_bytes)
        room = min(TASK_SECONDS / max(seconds, 1e-9), nbytes / max(size, 1), most / max(rows, 1))
        done = inputs if is_span else self._together[stage]
        wanted = min(inputs * room, 2 * done, most)
        self._together[stage] = least << max(int(wanted / least).bit_length() - 1, 0)
        if size and not before[2] // 2 <= size // inputs <= before[2]:  # it changes seldom
            self._weights[stage] = size // inputs
        return before != (self._together[stage], self.waits(stage), self._weights.get(stage, 0))


class TaskSizes:
    """Decides how long the tasks of workers are, and how many tasks are submitted in advance.

    Args:
        pipeline: pipeline of the run.
        options: options of workers and reading.
        pool: the pool, which knows how many workers are ready.
    """

    def __init__(
        self, pipeline: Pipeline, options: ExecutionOptions, pool: WorkerPool[Any]
    ) -> None:
        self._pipeline = pipeline
        self._reading = options.reading
        self._buffer_size = options.worker_buffer_size
        self._worker_count = options.workers
        self.pool = pool
        self._follows_room = False  # the transport says how many workers there are
        # a worker with a timeout gets one batch in a message
        self.pace = Pace(limits_of(pipeline, several=options.timeout is None))
        self._budget: Budget | None = None
        self._inputs: dict[int, int] = {}  # by stage, until something changes them …
        self._windows: dict[int, int] = {}  # … likewise

    def resize(self, workers: int, buffer: int) -> None:
        self._worker_count, self._buffer_size = workers, buffer
        self._windows.clear()

    def follow_room(self) -> None:
        """From now on, compute the lengths of tasks for as many workers as are ready in the pool.

        Before this call, they are computed for the number of workers in the options, or for the
        argument of `resize`.
        """
        self._follows_room = True

    def set_store(self, name: str, size: float) -> None:
        """Set the capacity in bytes of Ray's object store called `name`; 0 removes the store.

        From the first call on, tasks are kept so small that their rows fit into the stores.
        """
        self._budget = self._budget or Budget(len(self._pipeline.stages))
        self._budget.set_store(name, size)

    def note(self, task: Task, block: Block) -> None:
        """Record the times and sizes of a task that is done."""
        if self.pace.note(task, block.seconds, block.waited, block.count, block.nbytes):
            self._inputs.clear()
            self._windows.clear()
        if self._budget is not None:
            self._budget.note(task.stage, input_count(task), block.count, block.nbytes)

    def waits(self) -> bool:
        """Return True if tasks of some stage waited for records for over 10 % of their time."""
        return any(map(self.pace.waits, self._windows))

    def inputs(self, stage: int) -> int:
        """Return the number of inputs (positions, or rows of earlier tasks) of a stage's next task.

        A stage is a group of operations that run in one task. The number grows if tasks take little
        time, and stays small if the rows of more inputs would fill too much memory.
        """
        inputs = self._inputs.get(stage)
        if inputs is None:
            inputs = self._inputs[stage] = self.pace.inputs(stage)
        if self._budget is None:
            return inputs
        one = self._pipeline.stages[stage]
        return one.bounded(
            inputs, self.most_rows() if one.leaf is None else self._budget.most_inputs(stage)
        )

    def most_rows(self) -> int:
        return sys.maxsize if self._budget is None else self._budget.most_rows()

    def window(self, stage: int) -> int:
        """Return how many tasks of a stage may be submitted before the first one's result is taken.

        A stage is a group of operations that run in one task. The number is higher if workers wait
        for records, so that more records are read in advance; and lower if the rows of a task take
        much memory.
        """
        known = self._windows.get(stage)
        if known is None or self._budget is not None or self._follows_room:
            known = self._windows[stage] = self._window(stage)
        return known

    def _window(self, stage: int) -> int:
        if self._follows_room:
            self._worker_count = max(self.pool.ready_count, 1)
        workers, inputs, waits = self._worker_count, self.inputs(stage), self.pace.waits(stage)
        leaves = len(self._pipeline.leaves)
        window = window_of(workers, self._buffer_size, leaves) * self.pace.tasks(stage)
        if waits:
            ahead = tasks_ahead(self._pipeline, self._reading, stage, inputs)
            window = max(window, workers * (1 + ahead))
        within = self.pace.tasks_within(stage, inputs, self._reading.prefetch_buffer_bytes)
        most = max(within, workers)
        if self._budget is not None:
            most = self._budget.most_tasks(stage, inputs)
        window = min(window, most)
        if waits:
            self.pool.deepen(-(-window // workers))
        return window


def tasks_ahead(pipeline: Pipeline, options: ReadOptions, stage: int, positions: int) -> int:
    """Return for how many further tasks of a stage one worker should read records in advance.

    Args:
        pipeline: pipeline of the run.
        options: options for reading.
        stage: index of the stage (operations that run in one task). The result is 0 if the stage
            reads no source, or if its source is not read in advance.
        positions: number of positions in a task.
    """
    leaf = pipeline.stages[stage].leaf
    if (
        leaf is None
        or pipeline.leaves[leaf].in_order
        or not reads_under_way(pipeline.leaves[leaf], options)
    ):
        return 0
    return -(-keys_ahead(pipeline.leaves[leaf], options) // (positions * len(pipeline.leaves)))


def keys_ahead(leaf: Leaf, options: ReadOptions) -> int:
    """Return how many record keys of a source are read in advance.

    Usually one key is one record, and the result is `options.prefetch_buffer_size`. If a key stands
    for several records, the result is smaller, so that the keys stand for `prefetch_buffer_size`
    records. But the result is at least the number of concurrent reads, if `prefetch_buffer_size` is
    not smaller.

    Args:
        leaf: the source with its sampler.
        options: options for reading.
    """
    most = options.prefetch_buffer_size
    return max(most // leaf.source_facts.records_each(), min(reads_under_way(leaf, options), most))


def reads_under_way(leaf: Leaf, options: ReadOptions) -> int:
    """Return how many reads of a source run at once; 0 if its records are not read in advance.

    Args:
        leaf: the source with its sampler.
        options: options for reading; with `prefetch_buffer_size=0`, nothing is read in advance.
    """
    readers = options.prefetch_buffer_size
    if readers and leaf.source_facts.read_in_loop is None:
        readers = options.num_threads
    useful = leaf.source_facts.reads_ahead
    return readers if useful is True else min(readers, int(useful))
