"""A task, and what the user's process alone knows of it.

In: spans, or rows of earlier blocks. Out: what an executor is given; and, when its block is there, where that comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

from ..plan.cursor import Cursor, Note
from ..work.tasks import Block, GroupTask, SpanTask, Task
from .pull import Ended
from .rows import GroupOrigin, Origin, SpanOrigin


@dataclass(frozen=True, slots=True)
class SpanRequest:
    """A span of a leaf."""

    task: SpanTask
    unit: int  # positions that make one row
    blocks: Mapping[int, Any] = field(default_factory=dict)  # that the task reads: none
    notes: tuple[tuple[Note, ...], tuple[Note, ...]] = ((), ())  # as of `SpanOrigin`
    pieces_left: int = 0  # tasks that come after it and go on with its one unit

    @property
    def stop(self) -> int:
        """The local position of the first leaf that comes after it."""
        return self.task.stop

    def origin(self, block: Block, before: int = 0) -> Origin:
        """Of the rows that came of it; so many came before of its unit."""
        is_open = self.pieces_left > 0 or (block.tags is not None and block.tags.open)
        task = self.task
        return SpanOrigin(task.leaf, task.start, task.stop, self.unit, block.tags, self.notes, before, is_open)

    def divided(self, parts: Sequence[Task]) -> list[SpanRequest]:
        """A request for each part of the task, in their order."""
        spans = cast("Sequence[SpanTask]", parts)
        return [
            dataclasses.replace(self, task=part, pieces_left=0 if part.only is None else len(parts) - number)
            for number, part in enumerate(spans, 1)
        ]


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """Rows of earlier blocks."""

    task: GroupTask
    blocks: Mapping[int, Any]  # that the task reads, by number
    parts: tuple[tuple[Origin, int, int], ...]  # where these rows come from
    start: Cursor  # at which the first of them stands
    after: Cursor  # that follows the last of them
    one_to_one: bool  # each of them becomes one row, without the others
    pieces_left: int = 0  # tasks that come after it and go on with these rows

    @property
    def stop(self) -> int:
        """The local position of the first leaf that comes after it."""
        return self.after.positions[0]

    def origin(self, block: Block, before: int = 0) -> Origin:
        """Of the rows that came of it; so many came before of the same rows."""
        failed = block.failure is not None
        whole = sum(stop - start for _, start, stop in self.parts)
        alone = self.one_to_one and not before and (failed or block.count == whole)
        is_open = failed or self.pieces_left > 0
        return GroupOrigin(self.parts, self.start, self.after, block.count, alone, before, is_open)

    def divided(self, parts: Sequence[Task]) -> list[GroupRequest]:
        """A request for each part of the task, in their order."""
        groups = cast("Sequence[GroupTask]", parts)
        return [
            dataclasses.replace(self, task=part, pieces_left=len(parts) - number)
            for number, part in enumerate(groups, 1)
        ]


Request: TypeAlias = SpanRequest | GroupRequest


class Results(Protocol):
    """What has tasks run and gives their blocks in order. Used by one thread at a time."""

    def fill(self) -> None:
        """Have work begin, without waiting."""

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The next request and its block; `Ended`, ever again; None if `wait` is False and there is none at hand."""
