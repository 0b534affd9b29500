"""Blocks on their way to another process: rows that cannot be pickled are failures of the operation that made them.

In: a block, and what sends rows. Out: the block without such rows, and what came of sending the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...plan.pipeline import Pipeline
from ...work.explain import explained, maker_for, place, told
from ...work.tasks import Block, Failure, SpanTask, Task

T = TypeVar("T")


def sent(block: Block, task: Task, pipeline: Pipeline, send: Callable[[Any], T]) -> tuple[Block, T]:
    """A block and what `send` makes of its rows: up to the first that it cannot, or without those if failures are left out.

    Raises:
        OSError, MemoryError: of `send`; no row is at fault.
    """
    while True:
        try:
            return block, send(block.elements)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            if not isinstance(block.elements, list) or not block.elements:
                raise
            block = _without_first(block, task, pipeline, *_culprit(block.elements, send, error))


def _culprit(rows: list[Any], send: Callable[[Any], Any], failure: Exception) -> tuple[int, Exception]:
    """The number of the first row that cannot be sent, and why; the first one of all if each of them can."""
    for number, row in enumerate(rows):
        try:
            send([row])
        except Exception as error:
            return number, error
    return 0, failure


def _without_first(block: Block, task: Task, pipeline: Pipeline, row: int, error: Exception) -> Block:
    """The block up to a row that cannot be sent; or without all that its unit gave, if failures are left out."""
    stage = pipeline.stages[task.stage]
    where = _place(block, task, pipeline, row)
    why = 'what it gave cannot be pickled, to leave its worker. Return what can be, or pass worker_kind="thread"'
    reason = explained(error, f"{where}: {why}", maker_for(pipeline, stage.first + len(stage.operations)))
    units = range(block.count) if block.tags is None else block.tags.units
    unit = units[row]
    kept = [number for number, one in enumerate(units) if (one != unit if pipeline.skips_errors else one < unit)]
    block.elements = [block.elements[number] for number in kept]
    block.tags = None if block.tags is None else block.tags.some(kept)
    if pipeline.skips_errors:
        block.skipped = [*block.skipped, told(reason)]
    else:
        block.failure = Failure(reason)
    return block


def _place(block: Block, task: Task, pipeline: Pipeline, row: int) -> str:
    """Where the record of a row stands."""
    stage = pipeline.stages[task.stage]
    if block.tags is None:
        assert isinstance(task, SpanTask), "rows of groups are tagged"
        leaf = pipeline.every_leaf[task.leaf]
        return place(leaf, leaf.position(task.start + row * stage.unit))
    tag = block.tags.positions[row]
    if pipeline.is_below_join(stage) and not stage.on_join:
        return f"at row {tag} of what was joined"
    return place(*pipeline.place_of(tag))
