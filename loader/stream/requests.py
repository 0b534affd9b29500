"""A task, and what the user's process alone knows of it.

In: spans, or rows of earlier blocks. Out: what an executor is given; and, when its block is there, where that comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

from ..plan.cursor import Cursor, Note
from ..plan.stages import Stage
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


class SpanRequests:
    """The spans of a leaf, in order: those of `ranges` of local positions, each as long as `length()` says then.

    Where the length grows, a span is shorter, so that it ends at a multiple of the length: groups made of its rows end there,
    too, and need not cut what comes of it.
    """

    def __init__(self, stage: Stage, leaf: int, ranges: Iterable[tuple[int, int]], length: Callable[[int], int]) -> None:
        self._stage, self._leaf, self._unit = stage.number, leaf, stage.unit
        self._ranges = iter(ranges)
        self._length = length
        self._first = self._start = self._stop = 0  # of the range, and where its next span begins

    def next(self, wait: bool) -> SpanRequest | Ended:
        """The next span; they are all at hand."""
        while self._start >= self._stop:
            found = next(self._ranges, None)
            if found is None:
                return Ended()
            self._first, self._stop = self._start, _ = found
        start, length = self._start, self._length(self._stage)
        self._start = stop = min(start + length - (start - self._first) % length, self._stop)
        return SpanRequest(SpanTask(self._stage, start, stop, self._leaf), self._unit)


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
