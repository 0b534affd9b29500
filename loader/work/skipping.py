"""Do a task again without the records that fail, for `on_error="skip"`.

In: a task and the block (the rows of one task) in which it failed. Out: a block without what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ...common.fields import replaced
from ...operations.protocol import Element
from ..failures import ends_stream
from ..plan.pipeline import Pipeline
from .explain import forget, keys_of, told
from .tasks import Block, Blocks, Failure, GroupTask, RowOrigins, SpanTask, Task, input_count, single_rows

RunPart = Callable[[Task], Block]
"""Do a task of one position, or of one row, of the task that failed."""


def without_failures(pipeline: Pipeline, task: Task, blocks: Blocks, failed: Block, run_part: RunPart) -> Block:
    """Do each position or row of a task on its own, and leave out those that fail.

    Args:
        pipeline: the pipeline.
        task: the task.
        blocks: the blocks that have the rows of a group.
        failed: the block in which the task failed.
        run_part: does one position or row.

    Returns:
        A block of what did not fail. It ends at a failure that is to end the stream, if `on_error` says so of one.
    """
    elements: list[Element] = []
    tags, skipped = RowOrigins(), []
    for number, (single, block) in enumerate(_one_by_one(pipeline, task, failed, run_part)):
        ending = None
        if block.failure is not None:
            error = block.failure.take()
            ending = ends_stream(pipeline.skips_errors, error, partial(keys_of, single, blocks, pipeline))
            if ending is None:
                skipped.append(told(error))
                forget(error)
                continue
            del error
        assert block.tags is not None, "what may be skipped is tagged"
        elements += block.elements
        tags.extend(block.tags, number)
        if ending is not None:
            return Block.of(elements, tags, Failure(ending), skipped)
    return Block.of(elements, tags, skipped=skipped)


def _one_by_one(pipeline: Pipeline, task: Task, failed: Block, run_part: RunPart) -> Iterator[tuple[Task, Block]]:
    """Give a task for each position or row, and its block; for a group that makes one unit, the block that failed.

    A unit is the group of inputs that make one output. A block has the rows that one task returned.
    """
    if isinstance(task, GroupTask) and (pipeline.stages[task.stage].groups or input_count(task) == 1):
        yield task, failed
        return
    if failed.failure is not None:
        forget(failed.failure.take())  # each unit that fails has a failure of its own
    if isinstance(task, SpanTask):
        for position in range(task.start, task.stop):
            single = replaced(task, start=position, stop=position + 1)
            yield single, run_part(single)
    else:
        for group in single_rows(task):
            yield group, run_part(group)
