"""Make batches in the user's process, if that is faster than in a worker.

It is faster if the rows of a batch are columns (one array per field) in shared memory. `Pack` makes
such rows.

In: a group of rows, and the blocks that contain them (a block has the rows of one task). Out: the
block of their batch; or None if a worker has to make the batch.

If all rows of a batch are in one block, the batch is a view of the block's memory. If they are in
several blocks, they are copied, provided that they are few. A worker would need more time to copy
the rows into a batch than it needed to pack them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ...errors import BatchMemoryError
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.row_origins import RowOrigins
from ..work.slabs import ALIGNMENT, SlabPool
from ..work.stacked_rows import StackedRows, batch_of
from ..work.tasks import Block, Blocks, GroupTask, Task

# Chosen: the user's process must not spend its time on copies.
MOST_COPIED = 1 / 4
"""Largest number of rows in a batch copied here, as a share of the rows of its smallest block.

The last block does not count. A batch is copied if its rows are in several blocks. A block has the
rows that one task returned.
"""


class BatchesAtHand:
    """Makes batches in the user's process, for stages that only stack rows.

    A stage is a group of operations that run in one task.

    Args:
        pipeline: pipeline of the run.
        rows_stay: True if rows can still be read after the worker or machine that made them has
            ended.

    Attributes:
        stages: indices of the stages whose batches may be made in the user's process. Empty if
            `rows_stay` is False. Also empty if the pipeline is traced: workers then record which
            documents (records that `Pack` put together) are in each row.
    """

    def __init__(self, pipeline: Pipeline, rows_stay: bool) -> None:
        self._pipeline = pipeline
        can_be = rows_stay and not pipeline.traced
        self.stages = frozenset(
            stage.number for stage in pipeline.stages if can_be and _only_stacks(stage)
        )
        self._allocate = SlabPool().allocate

    def handle(self, task: Task, blocks: Blocks) -> DoneHandle | None:
        """Make a task's batch here, if this is faster than in a worker.

        It is if the batch's rows are columns of one of `blocks`, or a few rows of several.

        Args:
            task: the task.
            blocks: the blocks (the rows of one task each) to whose rows the task refers.

        Returns:
            A handle (result to come) that already has the batch; None if a worker has to make the
            batch.
        """
        if not isinstance(task, GroupTask) or task.order is not None:
            return None
        parts = [(blocks[number].columns(), start, stop) for number, start, stop in task.rows]
        if any(columns is None or not _is_aligned(columns) for columns, _, _ in parts):
            return None
        try:
            batch = self._batch(parts)
        except (BatchMemoryError, MemoryError):  # a worker tells of it, with the record
            return None
        return None if batch is None else DoneHandle(Block.of([batch], self._tags(task, blocks)))

    def _batch(self, parts: Sequence[tuple[StackedRows, int, int]]) -> Any:
        (first, start, stop), *others = parts
        if not others:
            return first[start:stop].as_batch()
        rows = sum(stop - start for _, start, stop in parts)
        if rows > MOST_COPIED * min(map(len, (first, *(each for each, _, _ in others[:-1])))):
            return None
        return (
            batch_of(parts, self._allocate)
            if all(first.is_like(each) for each, _, _ in others)
            else None
        )

    def _tags(self, task: GroupTask, blocks: Blocks) -> RowOrigins:
        """Return the origin of a task's batch: the source and position of its first row.

        If the rows come from joined streams, the position is the first row's index in the joined
        stream, counted over all shards.

        Args:
            task: the task that makes the batch.
            blocks: the blocks (the rows of one task each) to which the task refers.
        """
        number, start, _ = task.rows[0]
        tags: RowOrigins = blocks[number].tags
        position = tags.positions[start]
        if self._pipeline.stages[task.stage].on_join:
            shard = self._pipeline.shard_of(task.former)
            position = task.first * shard.shard_count + shard.shard_index
        return RowOrigins(array("q", [0]), array("q", [position]), [tags.rows[start]])


def _only_stacks(stage: Stage) -> bool:
    if stage.leaf is not None or len(stage.operations) != 1:
        return False
    (only,) = stage.operations
    return only.only_stacks and only.takes == stage.unit


def _is_aligned(rows: StackedRows) -> bool:
    """Return True if each row of the columns begins at a multiple of 64 bytes in memory.

    Batches that workers make begin at such a multiple, too.
    """
    return all(
        column.flags.c_contiguous and column.strides[0] % ALIGNMENT == 0 for column in rows.columns
    )


class DoneHandle:
    """Handle (result to come) of a task that is already done, so `result` does not wait."""

    __slots__ = ("_block",)

    def __init__(self, block: Block) -> None:
        self._block = block

    def ready(self) -> bool:
        return True

    def result(self) -> Block:
        return self._block
