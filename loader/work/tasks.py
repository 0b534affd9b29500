"""What is to be done, and what came of it: the messages between the consumer and the executors.

A task needs nothing beside it and can be repeated. Plain dataclasses, so that they can cross a process boundary.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..plan.cursor import Cursor
from ..plan.stages import Span
from .notices import Told


@dataclass(slots=True)
class Failure:
    """A task could not be finished.

    Attributes:
        error: the exception, with notes that say where in the stream it happened.
    """

    error: Exception


Ints: TypeAlias = "array[int]"

PackedTags = tuple[bytes, bytes, list[int]]
"""`RowTags` on their way between processes: for pickle, which takes ten times as long for the object. No rows: all are 0."""


def _ints() -> Ints:
    return array("q")


@dataclass(slots=True)
class RowTags:
    """Where each row of a block comes from: `unit` of the task, global `position`, and `row` within that position."""

    units: Ints = field(default_factory=_ints)
    positions: Ints = field(default_factory=_ints)
    rows: list[int] = field(default_factory=list)

    def add(self, unit: int, position: int, row: int) -> None:
        """Tag one more row."""
        self.units.append(unit)
        self.positions.append(position)
        self.rows.append(row)

    def extend_each(self, units: Sequence[int], positions: NDArray[np.int64]) -> None:
        """Tag one row of each of these units, which stand at these positions."""
        self.units.extend(units)
        self.positions.frombytes(positions[units].tobytes())
        self.rows += [0] * len(units)

    def extend(self, other: RowTags, unit: int) -> None:
        """Add the tags of units, the first of which is number `unit` here."""
        self.units.frombytes((np.frombuffer(other.units, dtype=np.int64) + unit).tobytes())
        self.positions += other.positions
        self.rows += other.rows

    def part(self, start: int, stop: int) -> RowTags:
        """The tags of rows `[start, stop)`."""
        return RowTags(self.units[start:stop], self.positions[start:stop], self.rows[start:stop])

    def some(self, numbers: Sequence[int]) -> RowTags:
        """The tags of these rows."""
        return RowTags(
            array("q", (self.units[number] for number in numbers)),
            array("q", (self.positions[number] for number in numbers)),
            [self.rows[number] for number in numbers],
        )

    def packed(self) -> PackedTags:
        """The same, to be sent."""
        return self.units.tobytes(), self.positions.tobytes(), self.rows if any(self.rows) else []

    @classmethod
    def unpacked(cls, packed: PackedTags) -> RowTags:
        """What was packed."""
        units, positions = (array("q", data) for data in packed[:2])
        return cls(units, positions, packed[2] or [0] * len(units))

    def cut_before(self, unit: int) -> int:
        """Drop the tags from `unit` on; the number of those that stay."""
        count = bisect_left(self.units, unit)
        del self.units[count:], self.positions[count:], self.rows[count:]
        return count


@dataclass(slots=True)
class Block:
    """The rows that came out of a task, in order.

    Attributes:
        elements: the rows, a list; `StackedRows` on their way between processes.
        tags: their origin; None where unit i gave row i.
        failure: what stopped the task after these rows; None when it was finished.
        skipped: what failed and was left out, in words.
        notices: what the user should be told of leaves, each with the leaf's name.
        parts: tasks that are to be done in place of this one, which was not done.
    """

    elements: Any
    tags: RowTags | None = None
    failure: Failure | None = None
    skipped: Sequence[str] = ()
    notices: Told = ()
    parts: Sequence[Task] = ()

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.elements)

    def decode_plain(self) -> None:
        """Nothing: these rows are no bytes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `[start, stop)` of a block.

    Attributes:
        local_positions: tells the local positions behind a row of the block; unknown in a worker process.
    """

    block: Block
    start: int
    stop: int
    local_positions: Callable[[int], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive rows that make one unit of a later segment.

    Attributes:
        segment: which.
        parts: the rows, in order.
        start: the cursor at which the first of them stands.
        stop: the cursor that follows the last of them.
    """

    segment: int
    parts: tuple[Rows, ...]
    start: Cursor
    stop: Cursor


Task = Span | Group


def local_positions(task: Task) -> Sequence[int]:
    """The local positions of the records that a task is about, ascending; of a group, only in the user's process."""
    if isinstance(task, Span):
        return range(task.start, task.stop)
    parts = [map(part.local_positions or _unknown, range(part.start, part.stop)) for part in task.parts]
    return list(dict.fromkeys(chain.from_iterable(chain.from_iterable(parts))))


def _unknown(row: int) -> Sequence[int]:
    return ()
