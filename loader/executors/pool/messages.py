"""Messages as plain tuples, as they cross to a worker and back: pickle takes ten times as long for objects.

In: tasks and headers of blocks. Out: tuples, and from these the same in the other process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...timing.times import TaskTimes
from ...work.tasks import Block, GroupTask, RowOrigins, RowRange, SpanTask, Task
from ..transport import Message, NamedRows, Rows
from . import remote_errors as errors

Packed = tuple[Any, ...]
"""A task, or the header of a block."""


def message_of(tasks: Sequence[Task], blocks: Mapping[int, Block], rows_of: Callable[[Block], Rows]) -> Message:
    """A message of tasks that name rows of these blocks. Their rows count from the first one that goes along."""
    groups = [task for task in tasks if isinstance(task, GroupTask)]
    if not groups:
        return Message(tasks)
    ranges: dict[int, tuple[int, int]] = {}
    for task in groups:
        for block, start, stop in task.rows:
            first, last = ranges.get(block, (start, stop))
            ranges[block] = min(first, start), max(last, stop)

    named = [
        NamedRows(number, first, last, blocks[number].tags.part(first, last), rows_of(blocks[number]))  # type: ignore[union-attr]
        for number, (first, last) in ranges.items()
    ]
    moved = [
        tuple([RowRange(block, start - ranges[block][0], stop - ranges[block][0]) for block, start, stop in task.rows])
        for task in groups
    ]
    return Message([GroupTask(task.stage, rows, *task[2:]) for task, rows in zip(groups, moved)], named)


def pack_tasks(tasks: Iterable[Task]) -> list[Packed]:
    """Tasks to be sent."""
    return [
        tuple(task) if isinstance(task, SpanTask) else (task.stage, list(map(tuple, task.rows)), *task[2:])
        for task in tasks
    ]


def unpack_task(fields: Packed) -> Task:
    """A task that was sent."""
    if isinstance(fields[1], int):
        return SpanTask(*fields)
    return GroupTask(fields[0], tuple(RowRange(*rows) for rows in fields[1]), *fields[2:])


def pack_header(block: Block) -> Packed:
    """The header of a block to be sent."""
    tags = None if block.tags is None else block.tags.packed()
    error = None if block.failure is None else errors.encode(block.failure.error)
    times = block.times
    return (
        block.count,
        tags,
        error,
        block.skipped,
        block.notices,
        block.stand,
        block.waited,
        None if times is None else tuple(times) if times.look is None else times.packed(),
        block.seconds,
        block.nbytes,
    )


def unpack_block(header: Packed, rows: Any) -> Block:
    """A block that was sent, whose rows are where a transport has them."""
    count, tags, error, skipped, notices, stand, waited, times, seconds, nbytes = header
    block = Block((), None if tags is None else RowOrigins.unpacked(tags))
    block.rows, block.count = rows, count
    block.failure = None if error is None else errors.EncodedFailure(error)
    block.skipped, block.notices, block.stand = skipped, notices, stand
    if times is not None:
        block.times = TaskTimes._make(times) if times[-1] is None else TaskTimes.unpacked(times)
    block.waited, block.seconds, block.nbytes = waited, seconds, nbytes
    return block
