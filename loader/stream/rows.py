"""Consecutive rows, the tasks that make them, and the interface by which stages pass both on.

A stage is a group of operations that run together in one task. In: spans (ranges of consecutive
positions), or rows of earlier blocks (results of tasks). Out: tasks for an executor; and rows with
their origin, which tells from which records they were made.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from ..plan.cursor import Cursor, JoinState
from ..plan.stages import Stage
from ..work.tasks import Block, Failure, GroupTask, SpanTask, Task, Units
from .provenance import Ints, Origin, Provenance, Selection

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream.

    Attributes:
        failure: the failure that ended the stream; None if the stream is complete.
    """

    failure: Failure | None = None


class Pull(Protocol[T]):
    """Interface of a supply of items in order, such as rows; `next` returns one after another.

    Only one thread at a time may use it.
    """

    def fill(self) -> None:
        """Begin to make items, without waiting for them. The default does nothing."""
        return

    def next(self, wait: bool) -> T | StreamEnd | None:
        """Return the next item. After the last item, every call returns a `StreamEnd`.

        Args:
            wait: if there is no item yet, True waits for it, and False returns None.
        """


class AtHand(Pull[T]):
    """Supply of items that exist already, so `next` never waits."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def next(self, wait: bool) -> T | StreamEnd | None:
        return next(self._items, None) or StreamEnd()


class NumberedBlock(NamedTuple):
    """A block (the rows of one task) with its number among the blocks of an iterator, from 0."""

    number: int
    block: Block


BlockRows: TypeAlias = tuple[NumberedBlock, int, int]
"""Rows `[start, stop)` of a block (the rows of one task)."""


@dataclass(slots=True)
class Rows:
    """Consecutive rows `[start, stop)` of a block (one task's rows) or of a join (merged streams).

    Attributes:
        origin: tells from which records the rows were made, and where the stream continues after
            each row.
        start: index of the first row, in the block or among the rows of `origin`.
        stop: end of the rows, exclusive.
        number: index of the first row among all rows of the join; 0 for rows of a block.
        blocks: the blocks that contain the rows, one for each source of `origin`.
    """

    origin: Origin
    start: int
    stop: int
    number: int
    blocks: Sequence[NumberedBlock]

    def take_all(self) -> list[Any] | Units | None:
        """Return all rows as a list in reverse order, and drop this object's references to them.

        If rows are made only when they are requested, return the `Units`, an object that makes
        them. Return None if each row must be taken with `take`.
        """
        _, block = self.blocks[0]
        if block.units is not None:
            return block.units
        if self.origin.which is not None or block.kept:
            return None
        elements, start = block.elements, self.start
        rows: list[Any] = elements[start : self.stop]
        elements[start : self.stop] = [None] * len(rows)
        rows.reverse()
        return rows

    def take(self, row: int) -> Any:
        """Return the row with index `row`, and drop this object's reference to it.

        The row can then be freed after use. If `keep` was called, because the row will be returned
        again, return a copy of the row instead.
        """
        origin = self.origin
        if origin.which is None:
            (_, block), at = self.blocks[0], row
        else:
            (_, block), at = self.blocks[origin.which[row]], origin.at[row]  # type: ignore[index]
        elements = block.elements
        if block.kept:
            return copy.deepcopy(elements[at])
        element, elements[at] = elements[at], None
        return element

    def of_blocks(self, start: int, stop: int) -> tuple[list[BlockRows], Ints | None]:
        """Convert rows `[start, stop)` to ranges of rows within blocks (the rows of one task each).

        Returns:
            the ranges; and, for each row, its index among all rows of the ranges. The second result
            is None if these indices are 0, 1, 2, ….
        """
        if self.origin.which is None or self.origin.at is None:
            return [(self.blocks[0], start, stop)], None
        which, at = self.origin.which[start:stop], self.origin.at[start:stop]
        order = np.argsort(which, kind="stable")
        which, at = which[order], at[order]
        cuts = np.flatnonzero((np.diff(which) != 0) | (np.diff(at) != 1)) + 1
        edges = [0, *cuts.tolist(), len(at)]
        found = [
            (self.blocks[which[first]], int(at[first]), int(at[last - 1]) + 1)
            for first, last in pairwise(edges)
        ]
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = np.arange(len(order))
        return found, numbers

    def keep(self) -> None:
        """Make `take` return copies from now on, because the rows will be returned again.

        Without copies, a change that the user makes to a row would be in the row when it is
        returned again.
        """
        for numbered in self.blocks:
            numbered.block.kept = True

    def with_cursors(self, cursor_after: Callable[[int], Cursor], start: int, stop: int) -> Rows:
        """Return the rows `[start, stop)`, with other cursors (places in the stream) after them.

        Args:
            cursor_after: function that takes the index of a row, and returns its new cursor.
            start: first row.
            stop: end of the rows, exclusive.
        """
        origin = Selection(self.origin.sources, self.origin.which, self.origin.at, cursor_after)
        return dataclasses.replace(self, origin=origin, start=start, stop=stop)


RowsOf: TypeAlias = tuple[Rows, int, int]
"""Some rows, and the range `[start, stop)` of them."""


def joined_rows(
    choices: Ints,
    parts: Sequence[Sequence[RowsOf]],
    number: int,
    cursor_after: Callable[[int], Cursor],
) -> Rows:
    """Return the rows of a join (a merge of streams), which takes rows of inputs in a given order.

    Args:
        choices: for each row of the join, the index of the input from which it comes.
        parts: for each input, its rows in their order.
        number: index of the first row among all rows of the join.
        cursor_after: function that takes the index of a row, and returns the cursor (a place in the
            stream) after the row.
    """
    blocks, sources = list[NumberedBlock](), list[Provenance]()
    which, at = np.empty(len(choices), dtype=np.int64), np.empty(len(choices), dtype=np.int64)
    for input_, part in enumerate(parts):
        places, done = np.flatnonzero(choices == input_), 0
        for rows, start, stop in part:
            here = places[done : done + stop - start]
            done += stop - start
            origin = rows.origin
            if origin.which is None or origin.at is None:
                used, which[here], at[here] = (
                    np.zeros(1, dtype=np.int64),
                    len(blocks),
                    np.arange(start, stop),
                )
            else:
                used, numbers = np.unique(origin.which[start:stop], return_inverse=True)
                which[here], at[here] = numbers + len(blocks), origin.at[start:stop]
            blocks += [rows.blocks[block] for block in used.tolist()]
            sources += [origin.sources[block] for block in used.tolist()]
    return Rows(Selection(sources, which, at, cursor_after), 0, len(choices), number, blocks)


@dataclass(slots=True, eq=False)
class Request:
    """A task for an executor, with values about the task that stay in the user's process.

    Attributes:
        task: the task.
        origin: tells from which records the task makes its rows, and where the stream continues
            after each row.
        blocks: the blocks (rows of one earlier task each) whose rows the task gets as inputs, by
            their numbers.
        pieces_left: number of later tasks that make more rows of the same inputs; more than 0 only
            after a task was divided.
    """

    task: Task
    origin: Provenance
    blocks: Mapping[int, Block] = dataclasses.field(default_factory=dict)
    pieces_left: int = 0

    def rows(self, numbered: NumberedBlock, skip: int, before: int) -> Rows:
        """Return the rows of the task's block (its result), except the first `skip` rows.

        Args:
            numbered: the block, with its number.
            skip: number of rows that were already delivered.
            before: number of rows that earlier tasks made of the same inputs; more than 0 only
                after a task was divided.
        """
        block, origin = numbered.block, self.origin
        failed = block.failure is not None
        is_open = failed if origin.leaf is None else block.tags is not None and block.tags.open
        origin.columns, origin.count, origin.before = block.tags, block.count, before
        origin.open = is_open or self.pieces_left > 0
        return Rows(origin, skip, block.count, 0, (numbered,))

    def divided(self, parts: Sequence[Task]) -> list[Request]:
        """Return a request for each part into which the task was divided, in order."""
        found = []
        for left, part in zip(range(len(parts) - 1, -1, -1), parts):
            if isinstance(part, SpanTask):
                found.append(
                    span_request(part, self.origin.stage, left=0 if part.only is None else left)
                )
                continue
            assert isinstance(self.task, GroupTask), "a part is of the kind of the whole"
            origin = dataclasses.replace(self.origin, first=part.first - self.task.first)
            found.append(Request(part, origin, self.blocks, left))
        return found


def span_request(
    task: SpanTask,
    stage: Stage,
    before: tuple[JoinState, ...] = (),
    after: tuple[JoinState, ...] = (),
    left: int = 0,
) -> Request:
    """Return a request for a task on consecutive positions of a leaf (a source with its sampler).

    Args:
        task: the task.
        stage: stage (operations that run in one task) that reads the positions.
        before: for a source without random access, the state of the source before the positions, in
            a tuple of notes as in `Cursor.notes`; () for other sources.
        after: the same for the state of the source after the positions; () if it is not known.
        left: number of later tasks that make more rows of the same inputs, after a task was
            divided.
    """
    start, stop = Cursor((task.start,), (), before), Cursor((task.stop,), (), after)
    return Request(task, Provenance(stage, start, stop, task.leaf), pieces_left=left)


def span_requests(
    stage: Stage, leaf: int, ranges: Iterable[tuple[int, int]], length: Callable[[int], int]
) -> Iterator[Request]:
    """Yield requests to read a leaf (a source with its sampler), within ranges of positions.

    Args:
        stage: stage (operations that run in one task) that reads the positions.
        leaf: index of the leaf.
        ranges: pairs `(start, stop)` of positions, counted on this shard.
        length: function that is called with the stage's number before each task, and returns the
            largest number of positions of the task.
    """
    for first, stop in ranges:
        start = first
        while start < stop:
            # where it grows, a span is shorter, so that groups end where it does
            size = length(stage.number)
            end = min(start + size - (start - first) % size, stop)
            yield span_request(SpanTask(stage.number, start, end, leaf), stage)
            start = end
