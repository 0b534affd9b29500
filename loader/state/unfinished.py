"""What a former shard was in the middle of: a batch that a `FlatMap` takes apart, and that no other shard could make again.

In: the place where that shard stood. Out: its elements from there on, as it would have made them, up to the first place at
which any shard can go on. One of the new shards delivers them before its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError
from ..executors import InlineExecutor
from ..options import ReadOptions
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.record_keys import KeyBlocks
from ..stats import Waits
from ..stream.flow import Flow
from ..stream.row_runs import RowRun
from ..stream.skipped import SkippedRecords
from .loader_state import Unfinished

MAX_ELEMENTS = 10_000
"""Elements after which the search for a place to go on is given up."""


def in_a_batch(pipeline: Pipeline, cursor: Cursor) -> bool:
    """Whether a cursor stands inside what a `Batch` and a `FlatMap` behind it make."""
    first, *others = cursor.skips
    return any(others) or (first > 0 and pipeline.segments[0].unit > 1)


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
    run: RowRun
    index: int

    def cursor_after(self, index: int) -> Cursor:
        """Where the new shard's own stream goes on: at its beginning."""
        return self.start

    def record_keys(self) -> NDArray[np.int64]:
        """The keys of the records behind the element."""
        return KeyBlocks(self.former).behind(self.run.local_positions(self.index))


def rows(formers: list[Pipeline], unfinished: tuple[Unfinished, ...], start: Cursor) -> Iterator[tuple[Any, Any, int]]:
    """What is still to be delivered, as `Flow` gives elements.

    Args:
        formers: the pipeline of each of the former shards.
        unfinished: what these were in the middle of.
        start: where the new shard's own stream begins.
    """
    for number, (former, rest) in enumerate(zip(formers, unfinished)):
        for count, (element, run, index) in enumerate(_elements(former, rest.cursor)):
            if count >= rest.delivered:
                left = (dataclasses.replace(rest, delivered=count + 1), *unfinished[number + 1 :])
                yield element, Row(start, left, former, run, index), 0


def place_behind(former: Pipeline, cursor: Cursor) -> Cursor:
    """The first place, behind where a former shard stood, at which any shard can go on.

    Raises:
        CheckpointError: there is none nearby.
    """
    count = 0
    for _, run, index in _elements(former, cursor):
        place, count = run.cursor_after(index), count + 1
        if not in_a_batch(former, place):
            return place
        if count > MAX_ELEMENTS:
            raise CheckpointError(
                f"a shard stands inside a batch that a FlatMap takes apart, and so it does after {MAX_ELEMENTS} more elements; "
                "take the checkpoint at another step, or keep the number of shards."
            )
    return Cursor(former.total, (0,) * len(former.segments))


def _elements(former: Pipeline, cursor: Cursor) -> Iterator[tuple[Any, RowRun, int]]:
    executor = InlineExecutor(former, ReadOptions(num_threads=0))
    try:
        for element, run, index in Flow(former, cursor, executor, SkippedRecords(), Waits()):
            yield element, run, index
            if not in_a_batch(former, run.cursor_after(index)):
                return
    finally:
        executor.close()
