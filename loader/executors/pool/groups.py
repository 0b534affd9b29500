"""Tasks on rows on their way to a worker: plain tuples, as pickle takes ten times as long for objects.

In: groups that go in one message. Out: the same, and which rows of which blocks they name; and the tasks again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...work.tasks import GroupTask, RowRange

EncodedGroup = tuple[int, int, list[tuple[int, int, int]], bytes | None, int, int, int | None]
"""A `GroupTask`, after its number: stage, rows `(block, start, stop)`, and the rest."""

RowsNamed = dict[int, tuple[int, int]]
"""Of each block that groups name, the first row that they name, and what follows the last."""


def encoded(tasks: Sequence[tuple[int, GroupTask]]) -> tuple[list[EncodedGroup], RowsNamed]:
    """The groups of a message, and the rows that they name. These count from the first one that goes along."""
    ranges: RowsNamed = {}
    for _, task in tasks:
        for block, start, stop in task.rows:
            first, last = ranges.get(block, (start, stop))
            ranges[block] = min(first, start), max(last, stop)
    groups: list[EncodedGroup] = [
        (
            number,
            task.stage,
            [(block, start - ranges[block][0], stop - ranges[block][0]) for block, start, stop in task.rows],
            task.order,
            task.first,
            task.former,
            task.only,
        )
        for number, task in tasks
    ]
    return groups, ranges


def decoded(groups: Sequence[EncodedGroup]) -> list[tuple[int, GroupTask]]:
    """The tasks again, with their numbers."""
    return [
        (number, GroupTask(stage, tuple(RowRange(*some) for some in rows), order, first, former, only))
        for number, stage, rows, order, first, former, only in groups
    ]
