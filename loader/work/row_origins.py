"""The origins of rows: the source and position from which each row of a block comes.

A block has the rows that one task returned.
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
    """The origin of each row of a block (the rows of one task), stored by columns.

    Attributes:
        inputs: for each row, the index in the task of the position or row that it was made of; for
            a batch, the index of one of the positions or rows in the batch.
        positions: global position of that input, or its tag (a number that names a record) in a
            pipeline with several sources; for joined streams, the index of the joined row.
        rows: for each row, its index among all rows made of the same position.
        packed_rows: if the pipeline is traced, for each row of a `Pack` the documents of its
            window, and the row's index in the window; otherwise empty.
        open: True if the inputs that made the last row failed after it, so that more rows of them
            are missing.
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
        """Add one row for each index in `inputs`.

        Args:
            inputs: index, in the task, of the input of each row.
            positions: positions of all inputs of the task, counted over all shards.
            rows: for each input of the task, its index among the rows of its position; empty if all
                are 0.
        """
        self.inputs.frombytes(inputs.tobytes())
        self.positions.frombytes(positions[inputs].tobytes())
        self.rows += map(rows.__getitem__, inputs.tolist()) if rows else [0] * len(inputs)

    def extend(self, other: RowOrigins, first: int) -> None:
        """Append the origins of another block, whose first input gets the index `first`.

        A block has the rows of one task.
        """
        self.open = other.open
        self.inputs.frombytes((np.frombuffer(other.inputs, dtype=np.int64) + first).tobytes())
        self.packed_rows += other.packed_rows
        self.positions += other.positions
        self.rows += other.rows

    def part(self, start: int, stop: int) -> RowOrigins:
        """Return the origins of rows `[start, stop)`, without `open` and `packed_rows`."""
        return RowOrigins(
            self.inputs[start:stop], self.positions[start:stop], self.rows[start:stop]
        )

    def some(self, numbers: Sequence[int]) -> RowOrigins:
        """Return the origins of the rows with these indices."""
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
        """Keep only the origins of the first `count` rows."""
        del self.inputs[count:], self.positions[count:], self.rows[count:], self.packed_rows[count:]


def _from_bytes(inputs: bytes, positions: bytes, rows: list[int], is_open: bool) -> RowOrigins:
    """Decode `RowOrigins` from `inputs` and `positions` as bytes.

    If `rows` is empty, all row indices are 0.
    """
    numbers = array("q", inputs)
    return RowOrigins(numbers, array("q", positions), rows or [0] * len(numbers), is_open)
