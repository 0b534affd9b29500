"""What a former shard was in the middle of: a batch that a `FlatMap` takes apart, and that no other shard could make again.

In: the place where that shard stood. Out: its elements from there on, as it would have made them, up to the first place at
which any shard can go on. One of the new shards delivers them before its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import CheckpointError
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..stream.rows import Records, Rows
from .loader_state import Unfinished

Run: TypeAlias = Callable[[Pipeline, Cursor], Generator[tuple[Any, Rows, int], None, None]]
"""Runs a pipeline from a cursor on; what it gives are elements, each with its rows and its place there."""

MAX_ELEMENTS = 10_000
"""Elements after which the search for a place to go on is given up."""


def in_a_batch(pipeline: Pipeline, cursor: Cursor) -> bool:
    """Whether a cursor stands inside what a `Batch` and a `FlatMap` after it make, or a `Pack`."""
    return bool(stages_within(pipeline, cursor))


def stages_within(pipeline: Pipeline, cursor: Cursor) -> set[int]:
    """The numbers of the stages of which a cursor stands inside what they make of several inputs."""
    stages = zip(cursor.skips, pipeline.stages)
    return {stage.number for skip, stage in stages if skip > 0 and (stage.leaf is None or stage.unit > 1)}


@dataclass(slots=True)
class Row:
    """One element of the rest, in the place of a `RowRun`.

    Attributes:
        start: where the new shard's own stream begins.
        unfinished: what is still to be delivered of this and of others.
        former: the pipeline of the former shard.
        run: where the element stood there.
        index: its row.
    """

    start: Cursor
    unfinished: tuple[Unfinished, ...]
    former: Pipeline
    run: Rows
    index: int

    def cursor_after(self, index: int) -> Cursor:
        """Where the new shard's own stream goes on: at its beginning."""
        return self.start

    def records(self, index: int) -> Records:
        """The records that the element was made of, as `former` counts them."""
        return self.run.records(self.index)


def rows(
    formers: list[Pipeline], unfinished: tuple[Unfinished, ...], start: Cursor, run: Run
) -> Iterator[tuple[Any, Any, int]]:
    """What is still to be delivered, as `Flow` gives elements.

    Args:
        formers: the pipeline of each of the former shards.
        unfinished: what these were in the middle of.
        start: where the new shard's own stream begins.
        run: runs a pipeline from a cursor on.
    """
    for number, (former, rest) in enumerate(zip(formers, unfinished)):
        for count, (element, rows, index) in enumerate(_elements(former, rest.cursor, run)):
            if count >= rest.delivered:
                left = (dataclasses.replace(rest, delivered=count + 1), *unfinished[number + 1 :])
                yield element, Row(start, left, former, rows, index), 0


def place_after(former: Pipeline, cursor: Cursor, run: Run) -> Cursor:
    """The first place, after that where a former shard stood, at which any shard can go on.

    Raises:
        CheckpointError: there is none nearby.
    """
    count, place = 0, cursor
    for _, rows, index in _elements(former, cursor, run):
        place, count = rows.cursor_after(index), count + 1
        if not in_a_batch(former, place):
            return place
        if count > MAX_ELEMENTS:
            raise CheckpointError(
                f"a shard stands inside a batch that a FlatMap takes apart, and so it does after {MAX_ELEMENTS} more elements; "
                "take the checkpoint at another step, or keep the number of shards."
            )
    return Cursor(tuple(leaf.total for leaf in former.leaves), former.start.skips, place.notes)


def _elements(former: Pipeline, cursor: Cursor, run: Run) -> Iterator[tuple[Any, Rows, int]]:
    with closing(run(former, cursor)) as elements:
        for element, rows, index in elements:
            yield element, rows, index
            if not in_a_batch(former, rows.cursor_after(index)):
                return
