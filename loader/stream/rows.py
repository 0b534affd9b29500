"""Rows in order, and where they come from: the records that each was made of, and the cursor that follows it.

In: what a task was about, and its block. Out: rows; local positions and cursors, found when somebody asks, not row by row. An
origin holds no row, so that what is kept of a batch that was delivered is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..plan.cursor import Cursor
from ..work.tasks import Block, RowTags

Records: TypeAlias = dict[int, Sequence[int]]
"""For each leaf, the local positions of some records, in the stream's order."""


@dataclass(frozen=True, slots=True)
class SpanOrigin:
    """Of rows that came out of a span.

    Attributes:
        leaf: number of the leaf.
        start: local position at which the span begins.
        stop: and ends.
        unit: positions of one unit.
        tags: of the rows; None where unit i gave row i.
    """

    leaf: int
    start: int
    stop: int
    unit: int
    tags: RowTags | None

    def records(self, row: int) -> Records:
        """The records that a row of the block was made of."""
        start = self.start + self._unit_of(row) * self.unit
        return {self.leaf: range(start, min(start + self.unit, self.stop))}

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row of the block."""
        unit = self._unit_of(row)
        if self.tags is not None:
            units = self.tags.units
            if row + 1 < len(units) and units[row + 1] == unit:
                return Cursor((self.start + unit * self.unit,), (row + 1 - units.index(unit),))
        return Cursor((min(self.start + (unit + 1) * self.unit, self.stop),), (0,))

    def _unit_of(self, row: int) -> int:
        return row if self.tags is None else self.tags.units[row]


@dataclass(frozen=True, slots=True)
class GroupOrigin:
    """Of rows that were made of rows of earlier blocks.

    Attributes:
        parts: the origins of these blocks, and the rows `[start, stop)` of each.
        start: the cursor at which the first of these rows stands.
        stop: the cursor that follows the last of them.
        count: rows of the block.
    """

    parts: tuple[tuple[Origin, int, int], ...]
    start: Cursor
    stop: Cursor
    count: int

    def records(self, row: int) -> Records:
        """The records that the group was made of, each once."""
        found: dict[int, dict[int, None]] = {}
        for origin, start, stop in self.parts:
            for part in range(start, stop):
                for leaf, positions in origin.records(part).items():
                    found.setdefault(leaf, {}).update(dict.fromkeys(positions))
        return {leaf: list(positions) for leaf, positions in found.items()}

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row of the block."""
        return self.stop.then(0) if row + 1 == self.count else self.start.then(row + 1)


Origin: TypeAlias = SpanOrigin | GroupOrigin


@dataclass(slots=True)
class RowRun:
    """Rows `[start, stop)` of a block.

    Attributes:
        number: of the block, among those of its iterator.
    """

    number: int
    block: Block
    origin: Origin
    start: int
    stop: int

    def take(self, row: int) -> Any:
        """Row `row` of the block, which lets go of it, so that its memory is free once the user drops it."""
        elements = self.block.elements
        element, elements[row] = elements[row], None
        return element

    def records(self, row: int) -> Records:
        """The records that row `row` of the block was made of."""
        return self.origin.records(row)

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after row `row` of the block."""
        return self.origin.cursor_after(row)
