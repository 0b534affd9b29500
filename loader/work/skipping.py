"""Run a failed task a second time without the records that fail, for `on_error="skip"`.

In: a task, and the block (the rows of one task) in which it failed. Out: a block with the rows of
all other records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ...common.fields import replaced
from ...errors import BatchMemoryError
from ...operations.protocol import Element
from ..failures import ends_stream
from ..plan.pipeline import Pipeline
from .divided import single_rows
from .explain import describe_error, forget, keys_of
from .row_origins import RowOrigins
from .tasks import (
    NO_BLOCKS,
    Block,
    Blocks,
    Failure,
    GroupTask,
    ReadRecords,
    SpanTask,
    Task,
    input_count,
)

RunPart = Callable[[Task], Block]
"""Function that runs one position, or one row, of the failed task, which is given as a task."""

RunTask = Callable[[Task, Blocks, ReadRecords | None], Block]
"""Function that runs a task up to its first failure.

It runs on rows of blocks, or with records that were read in advance.
"""


def may_skip(pipeline: Pipeline, failure: Failure) -> bool:
    """Return True if a failed task should be run a second time without the failing record.

    This is so if the pipeline skips errors, except after a failure because memory was short.
    """
    return bool(pipeline.skips_errors) and not isinstance(failure.error, BatchMemoryError)


def without_failures(
    pipeline: Pipeline,
    task: Task,
    blocks: Blocks,
    failed: Block,
    read: ReadRecords | None,
    run: RunTask,
) -> Block:
    """Run each input (position or row) of a failed task alone, and leave out those that fail.

    Args:
        pipeline: pipeline of the task.
        task: task that failed.
        blocks: blocks (the rows of one task each), by number, to whose rows the task may refer.
        failed: block in which the task failed.
        read: records of the task that were read in advance; None if there are none.
        run: function that runs a task of one input, with its part of `read`.

    Returns:
        A block with the rows of the inputs that did not fail. It ends with the first failure that
        `on_error` does not skip.
    """
    elements: list[Element] = []
    tags, skipped = RowOrigins(), []
    run_part = partial(_run_part, task, blocks, read, run)
    for number, (single, block) in enumerate(_one_by_one(pipeline, task, failed, run_part)):
        ending = None
        if block.failure is not None:
            error = block.failure.take()
            ending = ends_stream(
                pipeline.skips_errors, error, partial(keys_of, single, blocks, pipeline)
            )
            if ending is None:
                skipped.append(describe_error(error))
                forget(error)
                continue
            del error
        assert block.tags is not None, "what may be skipped is tagged"
        elements += block.elements
        tags.extend(block.tags, number)
        if ending is not None:
            return Block.of(elements, tags, Failure(ending), skipped)
    return Block.of(elements, tags, skipped=skipped)


def _run_part(
    whole: Task, blocks: Blocks, read: ReadRecords | None, run: RunTask, part: Task
) -> Block:
    """Run one input (position or row) of a failed task, and return the block with its rows.

    Args:
        whole: the failed task.
        blocks: blocks (the rows of one task each), by number, to whose rows the task may refer.
        read: records of the failed task that were read in advance; None if there are none.
        run: function that runs a task.
        part: the task of the one position or row.
    """
    if not isinstance(part, SpanTask):
        return run(part, blocks, None)
    assert isinstance(whole, SpanTask), "parts of spans are spans"
    return run(part, NO_BLOCKS, None if read is None else read.at(part.start - whole.start))


def _one_by_one(
    pipeline: Pipeline, task: Task, failed: Block, run_part: RunPart
) -> Iterator[tuple[Task, Block]]:
    """Run each input (position or row) of a failed task alone.

    Args:
        pipeline: pipeline of the task.
        task: task that failed.
        failed: block (the rows of one task) in which it failed.
        run_part: function that runs a task of one position or row.

    Yields:
        For each input, the task of this input, and the block with its rows. If all inputs of the
        failed task make one output together, such as a batch, the task cannot be divided: then only
        the failed task itself and `failed`.
    """
    if isinstance(task, GroupTask) and (
        pipeline.stages[task.stage].groups or input_count(task) == 1
    ):
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
