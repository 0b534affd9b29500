"""Rows in order, and where they come from: the records that each was made of, and the cursor that follows it.

In: what a task was about, and its block; or what a join took of several. Out: rows; local positions and cursors, found when
somebody asks, not row by row. An origin holds no row, so that what is kept of a batch that was delivered is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..plan.cursor import Cursor, Note, cursor_of_join
from ..work.tasks import Block, RowTags

T = TypeVar("T")

Records: TypeAlias = dict[int, Sequence[int]]
"""For each of every leaf, the local positions of some records, in the stream's order."""


@dataclass(frozen=True, slots=True)
class SpanOrigin:
    """Of rows that came out of the span `[start, stop)` of local positions."""

    leaf: int  # its number, among every leaf
    start: int
    stop: int
    unit: int  # positions of one unit
    tags: RowTags | None  # None where unit i gave row i
    notes: tuple[tuple[Note, ...], tuple[Note, ...]] = ((), ())  # for cursors inside the span, and for that at its end
    before: int = 0  # rows of the first unit that came out of earlier tasks
    open: bool = False  # the last unit is not finished

    def records(self, row: int) -> Records:
        """The records that a row of the block was made of."""
        start = self.start + self._unit_of(row) * self.unit
        return {self.leaf: range(start, min(start + self.unit, self.stop))}

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row of the block."""
        unit = self._unit_of(row)
        if self.tags is not None:
            units = self.tags.units
            if units[row + 1] == unit if row + 1 < len(units) else self.open:
                skip = self.before + row + 1 - units.index(unit)
                return Cursor((self.start + unit * self.unit,), (skip,), self.notes[0])
        position = min(self.start + (unit + 1) * self.unit, self.stop)
        return Cursor((position,), (0,), self.notes[position == self.stop])

    def _unit_of(self, row: int) -> int:
        return row if self.tags is None else self.tags.units[row]


@dataclass(frozen=True, slots=True)
class GroupOrigin:
    """Of rows that were made of rows of earlier blocks."""

    parts: tuple[tuple[Origin, int, int], ...]  # the origins of these blocks, and the rows `[start, stop)` of each
    start: Cursor  # at which the first of these rows stands
    stop: Cursor  # that follows the last of them
    count: int  # of the rows made of them
    each_alone: bool  # every one of these rows became one row, without the others, up to the last row that there is
    before: int = 0  # rows made of them that came out of earlier tasks
    open: bool = False  # more may be made of them

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
        if row + 1 == self.count and not self.open:
            return self.stop.then(0)
        if not self.each_alone:
            return self.start.then(self.before + row + 1)
        origin, inner = _at(self.parts, row)
        return origin.cursor_after(inner).then(0)


@dataclass(frozen=True, slots=True)
class JoinedOrigin:
    """Of rows that a join took."""

    choices: NDArray[np.int64]  # the input that each row comes from
    parts: list[list[tuple[Origin, int, int]]]  # of each input the origins of its rows, and the rows `[start, stop)`
    before: Sequence[Cursor]  # the cursors of the inputs before these rows
    note: Callable[[int], Note]  # that of the join after some number of rows

    def records(self, row: int) -> Records:
        """The records that a row was made of."""
        number = int(self.choices[row])
        origin, inner = _at(self.parts[number], int(np.count_nonzero(self.choices[:row] == number)))
        return origin.records(inner)

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row."""
        cursors = list(self.before)
        for number, count in enumerate(np.bincount(self.choices[: row + 1]).tolist()):
            if count:
                origin, inner = _at(self.parts[number], count - 1)
                cursors[number] = origin.cursor_after(inner)
        return cursor_of_join(cursors, self.note(row + 1))


def _at(parts: Iterable[tuple[T, int, int]], number: int) -> tuple[T, int]:
    """Where one of the rows of an input is, and its number there."""
    for there, start, stop in parts:
        if number < stop - start:
            return there, start + number
        number -= stop - start
    raise IndexError(number)


class Origin(Protocol):
    """Where rows come from."""

    def records(self, row: int) -> Records:
        """The records that a row was made of."""

    def cursor_after(self, row: int) -> Cursor:
        """Where the stream goes on after a row."""


@dataclass(slots=True)
class Rows:
    """Rows `[start, stop)`, one after the other: of a block, or those that a join took."""

    origin: Origin
    start: int
    stop: int
    number: int  # the first row's, among those of a join that it comes out of; 0 elsewhere

    def unpack(self) -> None:
        """Make the rows of what a worker sent, which the first `take` does otherwise."""

    def take(self, row: int) -> Any:
        """A row, which is let go of, so that its memory is free once the user drops it."""
        raise NotImplementedError

    def of_blocks(self, start: int, stop: int) -> tuple[list[BlockRows], NDArray[np.int64] | None]:
        """Some of the rows as those of blocks, and their numbers among these in order; None: as they stand."""
        raise NotImplementedError


@dataclass(slots=True)
class RowRun(Rows):
    """Rows of a block."""

    block_number: int  # among those of its iterator
    block: Block

    def unpack(self) -> None:
        _ = self.block.elements

    def take(self, row: int) -> Any:
        elements = self.block.elements
        element, elements[row] = elements[row], None
        return element

    def of_blocks(self, start: int, stop: int) -> tuple[list[BlockRows], None]:
        return [(self, start, stop)], None


BlockRows: TypeAlias = tuple[RowRun, int, int]
"""Rows `[start, stop)` of a block that a run knows."""


@dataclass(slots=True)
class JoinedRows(Rows):
    """Rows that a join took."""

    origin: JoinedOrigin
    parts: list[list[tuple[Rows, int, int]]]  # of each input, its rows: what has them, and which

    def take(self, row: int) -> Any:
        choices = self.origin.choices
        number = int(choices[row])
        at = int(np.count_nonzero(choices[:row] == number))
        rows, inner = _at(self.parts[number], at)
        return rows.take(inner)

    def of_blocks(self, start: int, stop: int) -> tuple[list[BlockRows], NDArray[np.int64]]:
        choices = self.origin.choices
        some = choices[start:stop]
        before, count = (np.bincount(part, minlength=len(self.parts)).tolist() for part in (choices[:start], some))
        found: list[BlockRows] = []
        places = np.empty(len(some), dtype=np.int64)  # of the rows of all inputs, one input after the other
        done = 0
        for number in np.flatnonzero(count).tolist():
            for rows, first, last in _some_of(self.parts[number], before[number], before[number] + count[number]):
                blocks, order = rows.of_blocks(first, last)
                found += blocks
                numbers = np.arange(last - first, dtype=np.int64) if order is None else order
                places[done : done + last - first] = numbers + done
                done += last - first
        by_input = np.argsort(some, kind="stable")
        result = np.empty(len(some), dtype=np.int64)
        result[by_input] = places
        return found, result


def _some_of(parts: list[tuple[Rows, int, int]], start: int, stop: int) -> list[tuple[Rows, int, int]]:
    """What of these stands at `[start, stop)` of all of them."""
    found = []
    for rows, first, last in parts:
        low, high = max(start, 0), min(stop, last - first)
        if low < high:
            found.append((rows, first + low, first + high))
        start, stop = start - (last - first), stop - (last - first)
    return found
