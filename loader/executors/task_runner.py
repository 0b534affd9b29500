"""Run tasks in a worker outside the user's process, and encode their results for sending.

Used by all transports (which carry messages between the user's process and workers).

In: tasks. Out: for each task, the header of its block (all but the rows), and the rows, encoded as
the transport sends them. A row that cannot be pickled counts as a failure of the operation that
made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from ...common.generators.global_random import reseed
from ...errors import DebuggerError
from ...operations.protocol import Allocate
from ..failures import ends_stream
from ..options import ExecutionOptions
from ..plan.pipeline import Pipeline
from ..timing.times import TaskTimes
from ..work.explain import describe_error, explained, keys_of_tags, maker_for, place, users_keys
from ..work.row_origins import RowOrigins
from ..work.stopwatch import stopwatches
from ..work.tasks import NO_BLOCKS, Block, Blocks, Failure, RecordsAhead, SpanTask, Task
from ..work.worker import Worker
from .hang_watch import Hang, HangWatch, log_hang
from .reading.read_ahead import ReadAhead
from .worker_logs import levels_here, set_levels

T = TypeVar("T")

# Chosen: the error can then say what the task was doing.
LATE_SHARE = 0.75
"""Share of a task's timeout after which the task is reported as taking long."""

_number: int | None = None  # of the worker that this process is


def begin_worker(number: int) -> None:
    """Prepare this process to be a worker, before anything is unpickled.

    From now on, `breakpoint()` raises an error. The global random generators get new seeds.

    Args:
        number: number of the worker.
    """
    global _number
    _number = number
    sys.breakpointhook = _no_debugger
    reseed()


def _no_debugger(*_: Any, **__: Any) -> None:
    """Raise an error in place of the debugger that `breakpoint()` would start.

    Raises:
        DebuggerError: always, because a worker process has no terminal.
    """
    raise DebuggerError(
        "breakpoint() was called in a worker process, which has no terminal. Pass worker_count=0: "
        "operations then run in your own process, where the debugger can stop."
    )


class WorkerSetup(NamedTuple):
    """Options of a worker, after its `worker_init_fn` was called.

    Attributes:
        options: the options.
        failure: failure of `worker_init_fn`, with which all tasks of the worker fail; None if it
            did not fail.
    """

    options: ExecutionOptions
    failure: Failure | None


class OptionsFirst:
    """Options that become a `WorkerSetup` when they are unpickled in a worker.

    Unpickling the options calls the user's `worker_init_fn`. The options are pickled before the
    pipeline, so `worker_init_fn` is called before the pipeline is unpickled.
    """

    def __init__(self, options: ExecutionOptions) -> None:
        self._options = options

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WorkerSetup], tuple[ExecutionOptions, dict[str, int]]]:
        return _set_up, (self._options, levels_here())


def _set_up(options: ExecutionOptions, levels: Mapping[str, int]) -> WorkerSetup:
    set_levels(levels)
    if options.worker_init_fn is None or _number is None:
        return WorkerSetup(options, None)
    # one that stands for another that crashed has a number in the same range
    number = _number % options.workers
    try:
        options.worker_init_fn(number, options.workers)
    except Exception as error:
        error.add_note(f"headrace: worker_init_fn failed in worker {number} of {options.workers}.")
        return WorkerSetup(options, Failure(error))
    return WorkerSetup(options, None)


class TaskRunner(Generic[T]):
    """Runs tasks in a worker.

    Args:
        number: number of the worker.
        setup: options of the worker.
        pipeline: pipeline of the run.
        allocate: function that returns the memory for batches.
        encode: function that takes rows, and returns a pair: the rows encoded for sending, and
            their number of bytes.
        tell_of_hang: function that is called with the report about a task that takes long.
        weighs_records: True to report, as the size of a task, the bytes of the records that it read
            if these are more than the bytes of its rows. False: always the bytes of its rows.
    """

    def __init__(
        self,
        number: int,
        setup: WorkerSetup,
        pipeline: Pipeline,
        allocate: Allocate,
        encode: Callable[[Any], tuple[T, int]],
        tell_of_hang: Callable[[Hang], None] = log_hang,
        weighs_records: bool = False,
    ) -> None:
        options, self._unready = setup
        self._pipeline = pipeline
        self._encode = encode
        self._worker = Worker(
            pipeline,
            allocate,
            stacks_rows=True,
            owns_globals=True,
            stopwatch=stopwatches(number, options.observe),
            seeds_globals=options.seed_globals,
        )
        self._ahead = ReadAhead(pipeline, options.reading)
        # a task is shorter where its records are large, not only its rows
        self._weighs_records = weighs_records and self._ahead.helps
        self._hang_watch = HangWatch(_hang_seconds(options), self._ahead, tell_of_hang)
        self._hang_watch.add(self._worker)
        self.reads_ahead = self._ahead.helps

    def begin(self, tasks: Sequence[Task]) -> RecordsAhead | None:
        """Begin to read the records of the first task of a message.

        Return a function that waits for the records and returns them; None if they are not read in
        advance.
        """
        return self._ahead.begin(tasks[0]) if self.reads_ahead else None

    def run(
        self, task: Task, blocks: Blocks = NO_BLOCKS, reading: RecordsAhead | None = None
    ) -> tuple[tuple[Any, ...], T]:
        began = perf_counter()
        block = (
            Block(failure=self._unready)
            if self._unready
            else self._worker.run(task, blocks, reading)
        )
        try:
            block, (rows, block.nbytes) = _encoded(block, task, self._pipeline, self._encode)
        except Exception as failure:
            block = Block.of([], None if block.tags is None else RowOrigins(), Failure(failure))
            rows, _ = self._encode([])
        if self._weighs_records:
            block.nbytes = max(block.nbytes, int(self._ahead.bytes_of(task)))
        ended = perf_counter()
        block.seconds = ended - began
        if (times := block.times) is not None:
            packing = ended - times.ended
            block.times = TaskTimes(
                times.worker, times.began, ended, times.reading, packing, *times[5:]
            )
        return block.header, rows


def _hang_seconds(options: ExecutionOptions) -> float | None:
    """Return the seconds after which a task is reported as taking long; None if never.

    The result is the smaller of the option `hang_seconds` and 75 % of the timeout.
    """
    both = [options.hang_seconds, None if options.timeout is None else LATE_SHARE * options.timeout]
    return min((seconds for seconds in both if seconds is not None), default=None)


def _encoded(
    block: Block, task: Task, pipeline: Pipeline, encode: Callable[[Any], T]
) -> tuple[Block, T]:
    """Encode the rows of a block (the result of a task); leave out rows that cannot be encoded.

    If a row cannot be encoded, `on_error` decides. If it skips the failure, all rows made of the
    same inputs as that row are left out, and are counted as skipped. Otherwise the block ends
    before these rows, with the failure as its `failure`, which ends the stream there.

    Args:
        block: rows of the task.
        task: the task.
        pipeline: pipeline of the run.
        encode: function that takes rows, and returns them encoded for sending.

    Returns:
        A pair: the block without rows that were left out, and its encoded rows.

    Raises:
        OSError, MemoryError: raised by `encode`, for example because memory is short; no row is at
            fault.
        Exception: raised by `encode` for rows that are not a list, so that none can be left out.
    """
    while True:
        try:
            return block, encode(block.elements)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            if not isinstance(block.elements, list) or not block.elements:
                raise
            block = _without_first(block, task, pipeline, *_culprit(block.elements, encode, error))


def _culprit(
    rows: list[Any], encode: Callable[[Any], Any], failure: Exception
) -> tuple[int, Exception]:
    """Return the index of the first row that cannot be encoded alone, and the exception.

    If each row can be encoded alone, return 0 and `failure`.

    Args:
        rows: the rows.
        encode: function that encodes a list of rows.
        failure: exception of encoding all rows together.
    """
    for number, row in enumerate(rows):
        try:
            encode([row])
        except Exception as error:
            return number, error
    return 0, failure


def _without_first(
    block: Block, task: Task, pipeline: Pipeline, row: int, error: Exception
) -> Block:
    """Remove a row that cannot be encoded from a block, together with other rows.

    A block has the rows of one task. If `on_error` skips the failure, all rows made of the same
    inputs as this row are removed, and counted as skipped. Otherwise, all later rows are removed as
    well, and the block ends with the failure.

    Args:
        block: rows of the task.
        task: the task.
        pipeline: pipeline of the run.
        row: index of the row.
        error: why the row cannot be encoded.
    """
    stage = pipeline.stages[task.stage]
    where = _place(block, task, pipeline, row)
    why = (
        "its result cannot be pickled, which is needed to send it to your process. "
        'Return something that can be pickled, or pass worker_kind="thread"'
    )
    reason = explained(
        error, f"{where}: {why}", maker_for(pipeline, stage.first + len(stage.operations))
    )
    units = (
        range(block.count)
        if block.tags is None
        else [each // stage.unit for each in block.tags.inputs]
    )
    unit = units[row]
    ending = ends_stream(pipeline.skips_errors, reason, lambda: _keys(block, task, pipeline, row))
    kept = [
        number
        for number, one in enumerate(units)
        if (one != unit if ending is None else one < unit)
    ]
    block.elements = [block.elements[number] for number in kept]
    block.tags = None if block.tags is None else block.tags.some(kept)
    if ending is None:
        block.skipped = [*block.skipped, describe_error(reason)]
    else:
        block.failure = Failure(ending)
    return block


def _keys(block: Block, task: Task, pipeline: Pipeline, row: int) -> list[Any]:
    """Return a list with the key of the first record from which a row was made.

    The list is empty if the record is unknown, because the row comes from joined streams.
    """
    stage = pipeline.stages[task.stage]
    if block.tags is None:
        assert isinstance(task, SpanTask), "rows of groups are tagged"
        start = task.start + row * stage.unit
        return users_keys(
            pipeline.every_leaf[task.leaf],
            pipeline.every_leaf[task.leaf].positions(start, start + 1),
        )
    if pipeline.is_below_join(stage) and not stage.on_join:
        return []
    return keys_of_tags([block.tags.positions[row]], pipeline)


def _place(block: Block, task: Task, pipeline: Pipeline, row: int) -> str:
    stage = pipeline.stages[task.stage]
    if block.tags is None:
        assert isinstance(task, SpanTask), "rows of groups are tagged"
        leaf = pipeline.every_leaf[task.leaf]
        return place(leaf, leaf.position(task.start + row * stage.unit))
    tag = block.tags.positions[row]
    if pipeline.is_below_join(stage) and not stage.on_join:
        return f"at row {tag} of the joined streams"
    return place(*pipeline.place_of(tag))
