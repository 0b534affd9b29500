"""The origin of rows of a block (the rows of one task): records they were made from, and cursors.

The cursor of a row is the place from which the stream continues after the row. In: a task, and the
`RowOrigins` of its block. Out: records and cursors, which are computed only when a caller asks for
them. An origin has no reference to rows, so it does not keep a delivered batch in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...common.distinct import distinct
from ...common.fields import replaced
from ...operations.packing.pieces import Pieces
from ...sources.provenance import TokenSpan
from ..plan.cursor import Cursor
from ..plan.stages import Stage
from ..work.row_origins import RowOrigins

Ints: TypeAlias = NDArray[np.int64]


class Table(NamedTuple):
    """The records from which some rows were made, in the order of their use; one entry per record.

    Attributes:
        of: `int64[n]`, index of the row that contains the record, among the rows for which the
            table was made.
        leaf: `int64[n]`, index in `Pipeline.every_leaf` of the record's leaf (source with its
            sampler).
        position: `int64[n]`, position of the record in that leaf, counted on this shard.
        row: `int64[n]`, row of the record in the batch; -1 if there is no batch.
        segment: `int64[n]`, segment of the record in the packed row, from 1. 0 if the record is not
            packed, or if `Pipeline.traced` is False: then packed rows do not remember their
            documents.
        tokens: `object[n]`, tokens of the record in that segment: a tuple with a `TokenSpan` for
            each packed field; None if the segment is 0.
    """

    of: Ints
    leaf: Ints
    position: Ints
    row: Ints
    segment: Ints
    tokens: NDArray[np.object_]

    def taken(self, places: NDArray[Any]) -> Table:
        """Return the table with only the entries that `places` (indices, or a mask) selects."""
        return Table(*(column[places] for column in self))


def _gathered(parts: Iterable[tuple[Ints, Table]]) -> Table:
    """Merge tables of records into one table, sorted by row.

    Args:
        parts: pairs of an array and a table. The array has the new index of each row of the table.
    """
    tables = [replaced(table, of=places[table.of]) for places, table in parts]
    if len(tables) == 1:
        return tables[0]
    whole = Table(*map(np.concatenate, zip(*tables)))
    return whole.taken(np.argsort(whole.of, kind="stable"))


@dataclass(slots=True, eq=False)
class Provenance:
    """Origin of the rows of a block: the records they were made from, and the cursor after each.

    A block is the rows of one task. The cursor after a row is the place where the stream continues.
    The task read positions of a leaf (a source with its sampler), or a group of earlier rows. A
    unit is the inputs of one output.

    Attributes:
        stage: stage (group of operations that run in one task) that made the rows.
        start: cursor before the first input.
        stop: cursor after the last input.
        leaf: index in `Pipeline.every_leaf` of the leaf that was read; None if the inputs are
            earlier rows.
        inputs: for inputs that are earlier rows, their origins, each with the range `[start, stop)`
            of rows.
        columns: the `RowOrigins` of the rows; None if row i was made of unit i.
        count: number of rows.
        first: index of the task's first input among `inputs`; more than 0 if the task is a part of
            another task that was divided.
        before: number of rows that earlier tasks made of the first unit.
        open: True if later tasks may make more rows of the last unit.
        which: always None here. In a `Selection`, the block of each row.
        at: always None here. In a `Selection`, the index of each row in its block.
    """

    stage: Stage
    start: Cursor
    stop: Cursor
    leaf: int | None = None
    inputs: tuple[tuple[Origin, int, int], ...] = ()
    columns: RowOrigins | None = None
    count: int = 0
    first: int = 0
    before: int = 0
    open: bool = False

    which: ClassVar[None] = None
    at: ClassVar[None] = None

    @property
    def sources(self) -> Sequence[Provenance]:
        return (self,)

    def cursor_after(self, row: int) -> Cursor:
        """Return the cursor (place in the stream) from which the stream continues after a row.

        Args:
            row: index of the row in the block (the rows of one task).
        """
        if self._is_by_input:
            return self._after_row_of_input(row)
        unit = self._unit(row)
        if not self.open if row + 1 == self.count else self._unit(row + 1) != unit:
            return self._end(unit).then(0)
        return self._at(unit).then(self.before + row + 1 - self._first_row(unit))

    @property
    def _is_by_input(self) -> bool:
        """True if each row was made of one earlier row, so that a task takes any number of rows."""
        return self.leaf is None and self.columns is not None and not self.stage.groups

    def _after_row_of_input(self, row: int) -> Cursor:
        """Return the cursor (place in the stream) after a row that was made of one earlier row.

        The cursor does not depend on the number of earlier rows that a task takes.
        """
        assert self.columns is not None, "it was asked before"
        inputs = self.columns.inputs
        number = self.first + inputs[row]
        if not self.columns.open if row + 1 == self.count else inputs[row + 1] != inputs[row]:
            return self._after_input(number).then(0)
        before = self._after_input(number - 1) if number else self.start
        return before.then(row + 1 - bisect_left(inputs, inputs[row]))

    def _after_input(self, number: int) -> Cursor:
        origin, row = row_at(self.inputs, number)
        return origin.cursor_after(row)

    def _first_row(self, unit: int) -> int:
        """Return the index of the first row of the block made of a unit (inputs of one output)."""
        if self.leaf is None:
            return 0
        return (
            unit
            if self.columns is None
            else bisect_left(self.columns.inputs, unit * self.stage.unit)
        )

    def _unit(self, row: int) -> int:
        if self.leaf is None:
            return 0
        return row if self.columns is None else self.columns.inputs[row] // self.stage.unit

    def _at(self, unit: int) -> Cursor:
        position = self.start.positions[0] + unit * self.stage.unit
        return (
            self.start
            if self.leaf is None
            else Cursor((position,), self.start.skips, self.start.notes)
        )

    def _end(self, unit: int) -> Cursor:
        after = self._at(unit + 1)
        return self.stop if self.leaf is None or after.positions >= self.stop.positions else after

    def table(self, rows: Ints) -> Table:
        """Return a table of the records from which some rows of the block were made.

        A block is the rows of one task. For a row of a `Pack`, the table has the row's own records
        if `Pipeline.traced` is True, otherwise all records of the row's window (the documents that
        were packed together).

        Args:
            rows: `int64[n]`, indices of the rows in the block.
        """
        size = (
            self.stage.unit
            if self.stage.window is None
            else self.stage.inputs_of(self.stage.window)
        )
        if self.columns is None:
            firsts = rows * size
        else:
            firsts = np.frombuffer(self.columns.inputs, dtype=np.int64)[rows] // size * size
        if self.columns is not None and self.columns.packed_rows:
            made = self._of_segments(rows, firsts, self.columns.packed_rows)
        else:
            made = _table_of(
                np.repeat(np.arange(len(rows)), size), (firsts[:, None] + np.arange(size)).ravel()
            )
        if self.leaf is None:
            total = sum(stop - start for _, start, stop in self.inputs)
        else:
            total = self.stop.positions[0] - self.start.positions[0]
        made = made.taken(made.position < total)
        row = np.where(made.row >= 0, made.row, self._rows_of(made.position % size, size))
        below = self._of_inputs(made.position + self.first)
        made = replaced(made, row=row).taken(below.of)
        segments = made.segment > 0
        return Table(
            made.of,
            below.leaf,
            below.position,
            np.where(made.row >= 0, made.row, below.row),
            np.where(segments, made.segment, below.segment),
            np.where(segments, made.tokens, below.tokens),
        )

    def _rows_of(self, places: Ints, size: int) -> Ints:
        """Return, for each input of a task, the index of its row in the batch that the task makes.

        The index is -1 for each input if the task makes no batch. If the task makes batches of
        batches, it is the index in the batch that is made last.

        Args:
            places: index of each input among the inputs of its element.
            size: number of inputs of an element.
        """
        for operation in reversed(self.stage.operations):
            if operation.takes is None or operation.keeps_elements:
                continue
            size //= operation.takes
            if operation.one_to_one and not operation.puts_together:
                return places // size % operation.takes
        return np.full(len(places), -1)

    def _of_segments(self, rows: Ints, firsts: Ints, packed: Sequence[Any]) -> Table:
        """Return a table of the inputs of some rows of a `Pack`, or batches of a `BudgetBatch`.

        A window is the elements that are packed or batched together. For a `Pack`, the table has
        segments.

        Args:
            rows: indices of the rows or batches.
            firsts: for each row or batch, the index of the first input of its window.
            packed: for each row of this block (the rows of one task), a pair. With `Pack`: the
                documents of the row's window, and the row's index in the window. With
                `BudgetBatch`: the indices of the batch's records in the window, and None.
        """
        pack: Any
        number, pack = next(
            (number, one)
            for number, one in enumerate(self.stage.operations, self.stage.first)
            if one.plans_rows or one.plans_batches
        )
        each, known, found = self.stage.inputs_of(number), dict[int, Pieces](), list[Table]()
        for asked, (row, first) in enumerate(zip(rows.tolist(), firsts.tolist())):
            documents, index = packed[row]
            if index is None:
                found.append(_rows_of_batch(asked, first, documents, each))
                continue
            if id(documents) not in known:
                known[id(documents)] = pack.pieces(documents)
            pieces = known[id(documents)].row(index)
            for segment, (document, spans) in enumerate(
                zip(pieces.documents.tolist(), pieces.spans), 1
            ):
                inputs = first + document * each + np.arange(each)
                part = _table_of(np.full(each, asked), inputs)
                part.segment[:] = segment
                part.tokens[:] = [tuple(TokenSpan(*span) for span in spans)] * each
                found.append(part)
        return Table(*map(np.concatenate, zip(*found)))

    def _of_inputs(self, numbers: Ints) -> Table:
        if self.leaf is not None:
            return _table_of(np.arange(len(numbers)), self.start.positions[0] + numbers, self.leaf)
        ends = list(accumulate(stop - start for _, start, stop in self.inputs))
        part_of = np.searchsorted(ends, numbers, side="right")
        parts = []
        for part in distinct(part_of):
            origin, _, stop = self.inputs[part]
            places = np.flatnonzero(part_of == part)
            parts.append((places, origin.table(stop - ends[part] + numbers[places])))
        return _gathered(parts)


def _rows_of_batch(asked: int, first: int, places: Sequence[int], each: int) -> Table:
    """Return a table of the inputs that a batch of a `BudgetBatch` contains.

    Args:
        asked: number of the batch, which becomes the column `of` of the table.
        first: index of the first input of the window (elements that are batched together) of the
            batch.
        places: indices of the batch's elements in the window.
        each: number of inputs of one element.
    """
    inputs = (
        first + np.repeat(np.array(places) * each, each) + np.tile(np.arange(each), len(places))
    )
    return _table_of(np.full(len(inputs), asked), inputs)._replace(
        row=np.repeat(np.arange(len(places)), each)
    )


def _table_of(of: Ints, position: Ints, leaf: int = 0) -> Table:
    n, tokens = len(of), np.empty(len(of), dtype=object)
    return Table(
        of, np.full(n, leaf), position, np.full(n, -1), np.zeros(n, dtype=np.int64), tokens
    )


def row_at(parts: Iterable[tuple[Origin, int, int]], number: int) -> tuple[Origin, int]:
    """Find the row with index `number` in consecutive parts of rows.

    Args:
        parts: for each part, its origin (from which records its rows were made), and the range
            `[start, stop)` of its rows.
        number: index among the rows of all parts.

    Returns:
        the origin of the part that contains the row, and the index of the row in this origin.

    Raises:
        IndexError: if the parts have too few rows.
    """
    for there, start, stop in parts:
        if number < stop - start:
            return there, start + number
        number -= stop - start
    raise IndexError(number)


@dataclass(frozen=True, slots=True)
class Selection:
    """Origin of rows selected from blocks: the records they were made from, and their cursors.

    The cursor after a row is the place where the stream continues. A block has the rows that one
    task returned. A selection may also have all rows of one block, to replace the cursors of the
    block's own origin by others.

    Attributes:
        sources: the origin of each block.
        which: `int64[rows]`, index of the block of each row; None if the rows are all rows of the
            only block.
        at: `int64[rows]`, index of each row in its block; None if `which` is None.
        cursor_after: function that takes the index of a row, and returns the cursor from which the
            stream continues after the row.
    """

    sources: Sequence[Provenance]
    which: Ints | None
    at: Ints | None
    cursor_after: Callable[[int], Cursor]

    def table(self, rows: Ints) -> Table:
        if self.which is None or self.at is None:
            return self.sources[0].table(rows)
        which, at = self.which[rows], self.at[rows]
        each = ((number, np.flatnonzero(which == number)) for number in distinct(which))
        return _gathered(
            (places, self.sources[number].table(at[places])) for number, places in each
        )


Origin: TypeAlias = Provenance | Selection
