"""Batches that need no worker, as their rows lie side by side in shared memory already: those of a `Pack`, for example.

In: a group of rows, and the blocks that have them. Out: the block of their batch, made in the user's process; or None, where a
worker is to make it.

Such a batch is a part of the memory of its rows. To have a worker copy them takes longer than to pack them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ...errors import BatchMemoryError
from ..plan.pipeline import Pipeline
from ..plan.stages import Stage
from ..work.slabs import ALIGNMENT, SlabPool
from ..work.stacked_rows import StackedRows, batch_of
from ..work.tasks import Block, Blocks, GroupTask, RowOrigins, Task

MOST_COPIED = 1 / 4
"""Share of batches that are of rows of two blocks, and are copied in the user's process, at most. Chosen: it must not wait."""


class BatchesAtHand:
    """Makes the batches of stages that do nothing but stack rows.

    Attributes:
        stages: the numbers of these stages; none if rows may be lost, or if only workers note what packed rows were made of.
    """

    def __init__(self, pipeline: Pipeline, rows_stay: bool) -> None:
        self._pipeline = pipeline
        can_be = rows_stay and not pipeline.traced
        self.stages = frozenset(stage.number for stage in pipeline.stages if can_be and _only_stacks(stage))
        self._allocate = SlabPool().allocate

    def handle(self, task: Task, blocks: Blocks) -> DoneHandle | None:
        """The handle of a task of one of the stages, which is done already; None if a worker is to do it."""
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
        return batch_of(parts, self._allocate) if all(first.is_like(each) for each, _, _ in others) else None

    def _tags(self, task: GroupTask, blocks: Blocks) -> RowOrigins:
        """The origin of the batch: that of its first row."""
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
    """True if every part of these rows begins at a multiple of a cache line, as batches do."""
    return all(column.flags.c_contiguous and column.strides[0] % ALIGNMENT == 0 for column in rows.columns)


class DoneHandle:
    """A task that is done."""

    __slots__ = ("_block",)

    def __init__(self, block: Block) -> None:
        self._block = block

    def ready(self) -> bool:
        return True

    def result(self) -> Block:
        return self._block
