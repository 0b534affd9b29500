"""Run tasks: read records, pass them through the operations, and collect the resulting rows.

In: a task. Out: a block (the rows of one task). Each thread that runs tasks has its own `Worker`.
This module starts no threads or processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import get_ident
from time import perf_counter
from typing import Any

from ...common.generators.global_random import LateTorch, reseed_torch, restoring_global_generators
from ...common.generators.held_generators import generators_by_operation, restoring
from ...errors import BatchMemoryError
from ...operations.protocol import FROM_READERS, Allocate, Element
from ..interrupts import raise_if_of_signal_handler
from ..plan.pipeline import Pipeline
from ..plan.stages import spans
from .blocks import apart, without_delivered
from .explain import Busy, explained, name_of
from .notices import Notices
from .reader import ColumnReader, Gathering, readers_of
from .row_origins import RowOrigins
from .sequential import SequentialReader, run_throughs_of
from .skipping import may_skip, without_failures
from .slabs import SlabPool
from .stacked_rows import RowStack
from .steps.chain import StepChain
from .steps.stage_chains import StageChains
from .stopwatch import ReadSeconds, Stopwatch
from .tasks import (
    NO_BLOCKS,
    Block,
    Blocks,
    Failure,
    GroupTask,
    Located,
    ReadRecords,
    RecordsAhead,
    SpanTask,
    Task,
    input_count,
)


class Worker:
    """Runs tasks of a pipeline in one thread.

    Args:
        pipeline: pipeline to run.
        allocate: function that returns the memory of batches. The default is that of a new
            `SlabPool`.
        stacks_rows: True if rows may be stacked into columns, because they are sent to another
            process.
        owns_globals: True if nothing else in this process uses the global random generators, so
            their states may change.
        stopwatch: function that makes the stopwatch of a stage. None: nothing is timed.
        run_throughs: readers of sources without random access, which workers share, by the index of
            the stage. None: this worker makes readers of its own.
        seeds_globals: True to seed the global random generators, and generators that are attributes
            of operations, for each element. Their states are restored after a task.
        watches_globals: True to warn of operations that draw from global generators. False if other
            threads may draw from them, too.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        allocate: Allocate | None = None,
        stacks_rows: bool = False,
        owns_globals: bool = False,
        stopwatch: Callable[[], Stopwatch] | None = None,
        run_throughs: dict[int, SequentialReader] | None = None,
        seeds_globals: bool = False,
        watches_globals: bool = True,
    ) -> None:
        self._pipeline = self.pipeline = pipeline
        self._stopwatches = [] if stopwatch is None else [stopwatch() for _ in pipeline.stages]
        # Tasks of each stage up to the next that is timed. A stopwatch would be memory that no
        # cache holds, for each batch.
        self._until_timed = [1 if self._stopwatches else sys.maxsize] * len(pipeline.stages)
        self._timing = False  # True while a timed task runs
        self._reading = 0.0  # seconds that this task spent on reading
        self._ahead = 0.0  # further seconds that reads ahead for this task took
        self._inputs = 0  # number of positions or rows of this task
        self._stacks_rows = [
            stacks_rows and stage.makes_rows(pipeline.regrouped) for stage in pipeline.stages
        ]
        self._readers = readers_of(pipeline)
        self._run_throughs = run_throughs_of(pipeline) if run_throughs is None else run_throughs
        self._allocate = allocate or SlabPool().allocate
        self._columns = ColumnReader.of(pipeline, self._allocate)
        self._only_columns = (
            self._columns is not None and pipeline.aligned and len(pipeline.operations) == 1
        )
        self._notices = Notices()
        self._seeds_globals = seeds_globals
        self._held = generators_by_operation(pipeline.operations) if seeds_globals else {}
        self._owns_globals, self._torch = owns_globals, LateTorch()
        self._chains = StageChains(
            pipeline,
            self._allocate,
            None if self._columns is None else self._columns.batch_size,
            self._notices,
            self._stopwatches,
            watches_globals and not seeds_globals,
            self._held if seeds_globals else None,
        )
        self.busy: Busy | None = None
        self.units: Located | None = None  # elements of the current task that are made from columns

    def run(
        self, task: Task, blocks: Blocks = NO_BLOCKS, read_ahead: RecordsAhead | None = None
    ) -> Block:
        """Run a task, and return a block with its rows.

        After a failure, the block has the rows made before it, and the failure; nothing is raised.
        `blocks` are the results of earlier tasks to whose rows the task refers; `read_ahead` is a
        function that waits for records that are being read in advance.
        """
        self.busy = perf_counter(), task, get_ident()
        try:
            return self._run_task(task, blocks, read_ahead)
        finally:
            self.busy = None

    def gathering(self, task: SpanTask) -> tuple[StepChain, Gathering] | None:
        """Return a task's connected operations, and the object that makes its batches from columns.

        Columns are arrays with all records. Return None if the task's batches cannot be made from
        columns.
        """
        chain = self._chains.plain[task.stage]
        if self._columns is None or not chain.makes_one_of_each:
            return None
        try:
            return chain, self._columns.gathering(self._readers[task.leaf].keys(task))
        except Exception as error:
            raise_if_of_signal_handler(error)
            return None  # units that are read on their own find out which of them fails

    def count_untimed(self, stage: int, most: int) -> int:
        """Return how many of the next tasks of a stage (operations that run in one task) are plain.

        Plain tasks are neither timed nor watched for draws from global random generators, so the
        caller may make their elements itself. These tasks then count as run: a second call returns
        only later tasks. If random generators are seeded for each element, no task is plain.

        Args:
            stage: index of the stage.
            most: largest result.
        """
        torch_is_new = not self._torch.seen and "torch" in sys.modules
        if stage in self._chains.unwatched or self._seeds_globals or torch_is_new:
            return 0
        untimed = min(self._until_timed[stage] - 1, most)
        self._until_timed[stage] -= untimed
        return untimed

    def failed_unit(self, stage: int, failed: Block) -> Block:
        """Return the block (a task's result) for an element that the caller could not make.

        `failed` is a block with the failure. The result also has the warnings so far. The stage's
        operations are connected anew, because the failure has interrupted them.
        """
        assert failed.failure is not None, "it failed"
        self._chains.end(stage, True)
        return apart(self._with_notices(failed), failed.failure)

    def run_unit(
        self, task: SpanTask, read_ahead: RecordsAhead | None, made: list[Element]
    ) -> Block | None:
        """Run a task that makes a single element, and append the element to `made`.

        Return a block (the result of a task) without rows if there is a failure, times or warnings;
        otherwise None.
        """
        if not self.count_untimed(task.stage, 1):
            block = self.run(task, NO_BLOCKS, read_ahead)
            made += block.elements
            block.here = ()
            return block
        self.busy = perf_counter(), task, get_ident()
        try:
            failed = self._make(task, read_ahead, made)
        finally:
            self.busy = None
        if failed is not None and failed.failure is not None:
            return apart(self._with_notices(failed), failed.failure)
        return self._with_notices(Block()) if self._notices.new or FROM_READERS.texts else None

    def _make(
        self, task: SpanTask, read_ahead: RecordsAhead | None, made: list[Element]
    ) -> Block | None:
        read, failed = None if read_ahead is None else read_ahead(), True
        try:
            records, failure = self._records(task, read)
            self._chains.used = chain = self._chains.plain[task.stage]
            block = chain.run_unit(task, records, failure, made)
            del failure  # its traceback leads to this frame
            failed = block is not None
        finally:
            self._chains.end(task.stage, failed)
        return block

    def place_now(self) -> str:
        """Return a text that says which record is being processed; "" if it is unknown.

        Other threads may call this.
        """
        used = self.units or self._chains.used
        return "" if used is None else used.place_now()

    def _run_task(self, task: Task, blocks: Blocks, read_ahead: RecordsAhead | None) -> Block:
        block = self._run_alone(task, blocks, read_ahead)
        late = not self._torch.seen and "torch" in sys.modules and self._torch.is_newly_loaded()
        if late:
            block = self._with_torch(task, blocks, block)
        return block if block.failure is None else apart(block, block.failure)

    def _with_torch(self, task: Task, blocks: Blocks, block: Block) -> Block:
        """Run a task again whose first run imported torch, now with torch's generator seeded.

        Return the new block; or the first result, `block`, if seeding is not allowed.
        """
        self._chains.watch_again()
        if not (self._owns_globals or self._seeds_globals):
            return block
        if self._owns_globals:
            reseed_torch()
        again = self._run_alone(task, blocks, None)
        again.notices = [*block.notices, *again.notices]
        return again

    def _run_alone(self, task: Task, blocks: Blocks, read_ahead: RecordsAhead | None) -> Block:
        if self._seeds_globals:
            held = [one for some in self._held.values() for one in some]
            with restoring_global_generators(), restoring(held):
                return self._run_timed(task, blocks, read_ahead)
        return self._run_timed(task, blocks, read_ahead)

    def _run_timed(self, task: Task, blocks: Blocks, read_ahead: RecordsAhead | None) -> Block:
        stage = task.stage
        self._until_timed[stage] -= 1
        if self._until_timed[stage] > 0:
            return self._do(task, blocks, read_ahead)
        stopwatch = self._stopwatches[stage]
        stopwatch.begin()
        self._reading = self._ahead = 0.0
        self._inputs, self._timing = input_count(task), True
        block = self._do(task, blocks, read_ahead)
        self._timing = False
        look = self._chains.take_times(stage)
        batches = self._pipeline.stages[stage].groups
        reading = ReadSeconds(self._reading, self._reading + self._ahead)
        block.times = stopwatch.end(block, self._inputs, batches, reading, look)
        self._until_timed[stage] = stopwatch.every
        return block

    def _do(self, task: Task, blocks: Blocks, read_ahead: RecordsAhead | None) -> Block:
        if isinstance(task, SpanTask) and task.stage in self._run_throughs:
            return self._run_through(task)
        read, waited = None, 0.0
        if read_ahead is not None:
            began = perf_counter()
            read = read_ahead()
            self._reading += (waited := perf_counter() - began)
            self._ahead += read.seconds - waited if read is not None else 0.0
        block = self._run_whole(task, blocks, read)
        if block.failure is not None and may_skip(self._pipeline, block.failure):
            block = without_failures(self._pipeline, task, blocks, block, read, self._run_whole)
        block.waited = waited
        return self._with_notices(block)

    def _with_notices(self, block: Block) -> Block:
        self._chains.tell_of_draws()
        if self._notices.new or FROM_READERS.texts:
            block.notices = self._notices.take()
        return block

    def close(self) -> None:
        """Close iterators of sources without random access, and release what operations hold.

        If such a source has workers of its own, these workers are stopped.
        """
        for source in self._run_throughs.values():
            source.close()
        self._chains.close()

    def _run_through(self, task: SpanTask) -> Block:
        reader = self._run_throughs[task.stage]
        began = perf_counter()
        records, failure, stand = reader.read(task)
        self._reading, self._inputs = perf_counter() - began, len(records)
        read = ReadRecords(records, failure=failure)
        block = self._run_whole(task, NO_BLOCKS, read)
        if block.failure is not None and may_skip(self._pipeline, block.failure):
            block = without_failures(self._pipeline, task, NO_BLOCKS, block, read, self._run_whole)
        if block.failure is None and failure is not None:
            block.failure = Failure(failure)
        block.stand = stand
        return self._with_notices(block)

    def _run_whole(self, task: Task, blocks: Blocks, read: ReadRecords | None) -> Block:
        """Run a task up to its first failure; return the rows before it and the failure.

        `blocks` are the results of earlier tasks to whose rows the task refers. `read` are records
        of the task that were read in advance; None: this call reads them.
        """
        failed = True
        try:
            if isinstance(task, GroupTask):
                parts = [(blocks[block], start, stop) for block, start, stop in task.rows]
                block = self._chains.for_task(
                    task.stage, input_count(task), self._timing
                ).run_group(task, parts)
            elif read is None and task.stop - task.start > self._span(task):
                block = self._run_one_by_one(task)
            else:
                block = self._run(task, read)
            failed = block.failure is not None
        finally:
            self._chains.end(task.stage, failed)
        return block

    def _run_one_by_one(self, task: SpanTask) -> Block:
        """Run a long task in parts of consecutive positions, one after the other; return one block.

        The records of a part are then still in the processor's caches when they are used.
        """
        whole = Block.of([], None if self._pipeline.aligned else RowOrigins())
        self._readers[task.leaf].expect(task)
        stacks = self._stacks_rows[task.stage]
        rows: Any = RowStack(task.stop - task.start, self._allocate) if stacks else []
        for span in spans(task.start, task.stop, lambda: self._span(task)):
            block = self._run(SpanTask(task.stage, span.start, span.stop, *task[3:]), None)
            rows.extend(block.elements)
            if whole.tags is not None and block.tags is not None:
                whole.tags.extend(block.tags, span.start - task.start)
            if block.failure is not None:
                whole.failure = block.failure
                break
        whole.elements = rows.finish() if stacks else rows
        return whole

    def _span(self, task: SpanTask) -> int:
        leaf = self._pipeline.stages[task.stage].leaf
        assert leaf is not None, "only stages on leaves are given spans"
        return self._pipeline.spans[leaf]

    def _run(self, task: SpanTask, read: ReadRecords | None) -> Block:
        began = perf_counter()
        records, failure = self._records(task, read)
        self._reading += perf_counter() - began
        if self._timing and len(records):
            self._stopwatches[task.stage].add_records(records)
        if self._only_columns and failure is None:
            return Block.of(records)
        block = self._chains.for_task(task.stage, len(records), self._timing).run_span(
            task, records, failure
        )
        del failure  # its traceback leads to this frame
        leaf = self._pipeline.every_leaf[task.leaf]
        return without_delivered(leaf, task, block) if leaf.lineage.skips else block

    def _records(
        self, task: SpanTask, read: ReadRecords | None
    ) -> tuple[Sequence[Any], Exception | None]:
        """Return a pair: a task's records, and the exception that stopped the reading, or None.

        If batches are made directly from the columns of the source, the batches take the place of
        the records. After an exception, the records (or batches) before it are returned.

        Args:
            task: the task.
            read: records that were read in advance; None: this call reads them.
        """
        if read is not None and self._columns is None:
            return (
                self._readers[task.leaf].all_but_unread(task, read)
                if read.unread
                else (read.records, read.failure)
            )
        reader = self._readers[task.leaf]
        try:
            if self._columns is not None:
                return self._columns.batches(reader.keys(task)), None
            return reader.records(task), None
        except BatchMemoryError as error:
            return [], explained(error, "for want of memory", name_of(self._pipeline, 0))
        except Exception as error:
            # No variable keeps the failure, as its traceback leads to this frame.
            if self._columns is not None:
                return self._columns.whole(
                    reader, task, *reader.records_before_failure(task, error)
                )
            return reader.records_before_failure(task, error)
