"""Origins of rows: the source and position from which each row of a block comes.

A block has the rows of one task.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = "array[int]"


def _ints() -> Ints:
    return array("q")


@dataclass(slots=True)
class RowOrigins:
    """The origin of each row of a block (the rows of one task), stored in one list per attribute.

    Attributes:
        inputs: for each row, the index in the task of the position or row that it was made of. For
            a batch, one of the indices of the positions or rows in the batch.
        positions: for each row, the position of this input, counted over all shards. In a pipeline
            with several sources, a tag: a number that stands for source and position. For rows of
            joined streams, the index of the joined row.
        rows: for each row, its index among all rows that were made of the same position.
        packed_rows: if rows of a `Pack` are traced to their documents: for each row, the documents
            of its window, and the row's index in the window. Otherwise empty.
        open: True if a failure came after the last row, so that further rows of the same inputs are
            missing.
    """

    inputs: Ints = field(default_factory=_ints)
    positions: Ints = field(default_factory=_ints)
    rows: list[int] = field(default_factory=list)
    open: bool = False
    packed_rows: list[Any] = field(default_factory=list)

    def add(self, number: int, position: int, row: int) -> None:
        self.inputs.append(number)
        self.positions.append(position)
        self.rows.append(row)

    def extend_each(
        self, inputs: NDArray[np.int64], positions: NDArray[np.int64], rows: Sequence[int]
    ) -> None:
        """Add the origins of rows of which each was made of one input (position or row) of a task.

        Args:
            inputs: for each row, the index in the task of the input that it was made of.
            positions: positions of all inputs of the task, counted over all shards.
            rows: for each input of the task, its index among all rows that were made of the same
                position; an empty list stands for zeros.
        """
        self.inputs.frombytes(inputs.tobytes())
        self.positions.frombytes(positions[inputs].tobytes())
        self.rows += map(rows.__getitem__, inputs.tolist()) if rows else [0] * len(inputs)

    def extend(self, other: RowOrigins, first: int) -> None:
        """Append the origins of rows of a later part of the same task.

        Args:
            other: origins of the rows of the later part.
            first: index, in the task, of the first input (position or row) of the later part.
        """
        self.open = other.open
        self.inputs.frombytes((np.frombuffer(other.inputs, dtype=np.int64) + first).tobytes())
        self.packed_rows += other.packed_rows
        self.positions += other.positions
        self.rows += other.rows

    def part(self, start: int, stop: int) -> RowOrigins:
        """Return the origins of the rows `[start, stop)` as a new object.

        In the new object, `open` is False and `packed_rows` is empty: these two are not copied.
        """
        return RowOrigins(
            self.inputs[start:stop], self.positions[start:stop], self.rows[start:stop]
        )

    def some(self, numbers: Sequence[int]) -> RowOrigins:
        """Return a new object with the origins of the rows with the given indices."""
        return RowOrigins(
            array("q", (self.inputs[number] for number in numbers)),
            array("q", (self.positions[number] for number in numbers)),
            [self.rows[number] for number in numbers],
            self.open and bool(numbers) and numbers[-1] == len(self.inputs) - 1,
            [self.packed_rows[number] for number in numbers] if self.packed_rows else [],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.rows if any(self.rows) else []
        return _from_bytes, (self.inputs.tobytes(), self.positions.tobytes(), rows, self.open)

    def cut(self, count: int) -> None:
        """Remove the origins of all rows except the first `count` rows."""
        del self.inputs[count:], self.positions[count:], self.rows[count:], self.packed_rows[count:]


def _from_bytes(inputs: bytes, positions: bytes, rows: list[int], is_open: bool) -> RowOrigins:
    """Restore a pickled `RowOrigins`.

    Args:
        inputs: the attribute `inputs`, as bytes of int64.
        positions: the attribute `positions`, as bytes of int64.
        rows: the attribute `rows`; an empty list stands for a list of zeros.
        is_open: the attribute `open`.
    """
    numbers = array("q", inputs)
    return RowOrigins(numbers, array("q", positions), rows or [0] * len(numbers), is_open)
