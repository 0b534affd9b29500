"""A task, and what the user's process alone knows of it.

In: spans, or rows of earlier blocks. Out: what an executor is given; and, when its block is there, where that comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ..plan.cursor import Cursor, Note
from ..work.tasks import Block, GroupTask, SpanTask
from .pull import Ended
from .rows import GroupOrigin, Origin, SpanOrigin


@dataclass(frozen=True, slots=True)
class SpanRequest:
    """A span of a leaf.

    Attributes:
        task: for the executor.
        leaf: number of the leaf, among every leaf.
        unit: positions that make one row.
        blocks: that the task reads: none.
        notes: as of `SpanOrigin`.
    """

    task: SpanTask
    leaf: int
    unit: int
    blocks: Mapping[int, Any] = field(default_factory=dict)
    notes: tuple[tuple[Note, ...], tuple[Note, ...]] = ((), ())

    @property
    def stop(self) -> int:
        """The local position of the first leaf that comes after it."""
        return self.task.stop

    def origin(self, block: Block) -> Origin:
        """Of the rows that came of it."""
        return SpanOrigin(self.leaf, self.task.start, self.task.stop, self.unit, block.tags, self.notes)


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """Rows of earlier blocks.

    Attributes:
        task: for the executor.
        blocks: that the task reads, by number.
        parts: where these rows come from.
        start: the cursor at which the first of them stands.
        after: the cursor that follows the last of them.
        one_to_one: each of them becomes one row, without the others.
    """

    task: GroupTask
    blocks: Mapping[int, Any]
    parts: tuple[tuple[Origin, int, int], ...]
    start: Cursor
    after: Cursor
    one_to_one: bool

    @property
    def stop(self) -> int:
        """The local position of the first leaf that comes after it."""
        return self.after.positions[0]

    def origin(self, block: Block) -> Origin:
        """Of the rows that came of it."""
        rows = sum(stop - start for _, start, stop in self.parts)
        alone = self.one_to_one and block.count == rows
        return GroupOrigin(self.parts, self.start, self.after, block.count, alone)


Request: TypeAlias = SpanRequest | GroupRequest


class Results(Protocol):
    """What has tasks run and gives their blocks in order. Used by one thread at a time."""

    def fill(self) -> None:
        """Have work begin, without waiting."""

    def next(self, wait: bool) -> tuple[Request, Block] | Ended | None:
        """The next request and its block; `Ended`, ever again; None if `wait` is False and there is none at hand."""
