"""The place where a stream goes on.

In: nothing. Out: a value of plain numbers; what checkpoints keep and stages start from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

Note: TypeAlias = tuple[Any, ...]
"""What a join, or a source that can only be run through, must know to go on: numbers, or text; see `joins`."""


MAX_ROWS = 1 << 60
"""No stream gets so far: a larger count is that of a damaged state."""


class Size(NamedTuple):
    """How many leaves, stages and joins there are in a part of a pipeline."""

    leaves: int
    stages: int
    joins: int

    def plus(self, other: Size) -> Size:
        """That of two parts."""
        return Size(*(one + two for one, two in zip(self, other)))


class Cursor(NamedTuple):
    """Where a pipeline goes on, or the part of one that ends with some stage or join.

    Leaves, stages and joins are numbered so that the inputs of each stand right before it (see `compile`). So the cursor of
    a part of the pipeline is that of its inputs, one after the other, and what its last stage or join adds.

    Attributes:
        positions: for each leaf, the local position of the first record that is still to be read.
        skips: for each stage, how many of the rows that come next out of it were delivered before. All 0 except after
            a flat map.
        notes: for each join, and each source that can only be run through, what it must know to go on.
    """

    positions: tuple[int, ...]
    skips: tuple[int, ...]
    notes: tuple[Note, ...] = ()

    def then(self, skip: int) -> Cursor:
        """This cursor, continued by one stage."""
        return Cursor(self.positions, (*self.skips, skip), self.notes)

    def before(self) -> Cursor:
        """This cursor, without its last stage."""
        return Cursor(self.positions, self.skips[:-1], self.notes)

    def parts(self, sizes: Sequence[Size]) -> list[Cursor]:
        """The cursors of the parts that it consists of."""
        found, at = [], Size(0, 0, 0)
        for size in sizes:
            to = at.plus(size)
            found.append(
                Cursor(
                    self.positions[at.leaves : to.leaves],
                    self.skips[at.stages : to.stages],
                    self.notes[at.joins : to.joins],
                )
            )
            at = to
        return found


def cursor_of_join(cursors: Iterable[Cursor], note: Note) -> Cursor:
    """The cursor of a join, from those of its inputs."""
    positions: list[int] = []
    skips: list[int] = []
    notes: list[Note] = []
    for cursor in cursors:
        positions += cursor.positions
        skips += cursor.skips
        notes += cursor.notes
    return Cursor(tuple(positions), tuple(skips), (*notes, note))


def are_numbers(note: Note) -> bool:
    """Whether a note, which a state may tell, has no text in it, and no number that is too large to count further."""
    return all(isinstance(value, int) and value < MAX_ROWS for value in note)
