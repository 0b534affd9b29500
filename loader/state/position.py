"""A mark of where an iterator stands, set at no cost; what is asked about the place is found when somebody asks.

In: what the iterator delivered last. Out: the cursor that follows it, its state, its records. A device feeder takes one for
every batch. Any thread may ask: nothing here changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...common.messages import short_repr
from ...common.validation import whole_number
from ..plan.cursor import Cursor
from ..plan.pipeline import Pipeline
from ..plan.steps.lookup import number_of, part_epochs, part_records, records_of_step
from ..plan.steps.ranges import within
from ..plan.steps.skipped import SkippedSteps
from ..stream.rows import Rows
from .loader_state import LoaderState


class StreamPosition(NamedTuple):
    """The place between two elements: the user has received one and not the next. Answers what iterators are asked."""

    pipeline: Pipeline  # as it goes on from a state
    skipped: SkippedSteps
    start: Cursor  # where the iterator began, or was set to
    run: Rows | None  # the rows of which the element is one; None: nothing was delivered since the start
    row: int  # its number among them
    step: int  # elements delivered, or left out on purpose, in all runs

    @property
    def cursor(self) -> Cursor:
        """The cursor from which the stream goes on."""
        return self.start if self.run is None else self.run.origin.cursor_after(self.row)

    @property
    def state(self) -> LoaderState:
        """The state from which the stream goes on here."""
        shard = self.pipeline.shard
        return LoaderState(
            cursor=self.cursor,
            step=self.step,
            shard=(shard.shard_index, shard.shard_count),
            fingerprint=self.pipeline.fingerprint,
            lineages=tuple(leaf.lineage for leaf in self.pipeline.leaves),
            skipped=self.skipped,
        )

    def get_state(self) -> bytes:
        return self.state.to_json()

    @property
    def epoch(self) -> int:
        cursor = self.cursor
        position = cursor.positions[0]
        return self.pipeline.leaves[0].epoch_of(position if any(cursor.skips) else max(position - 1, 0))

    @property
    def part_epochs(self) -> dict[str, int]:
        return part_epochs(self.pipeline, self.cursor)

    @property
    def part_records(self) -> dict[str, int]:
        return part_records(self.pipeline, self.cursor)

    def len(self) -> int:
        return number_of(self.pipeline, (self.cursor.positions[0], self.step), self.skipped)

    @property
    def passed(self) -> int:
        """The number of the `len()` elements before this place; where that is not known, the step."""
        return self.pipeline.stages[0].outputs(self.cursor.positions[0]) if self.pipeline.aligned else self.step

    def records_at(self, step: int) -> Any:
        step = whole_number("step", step, 0, None, "the number of an element, from 0")
        if step < self.step or within(self.skipped.absorbed, step) is not None:
            raise IndexError(
                f"step {short_repr(step)} was delivered or left out: step {self.step} comes next in this iterator; ask for "
                "that one or a later one."
            )
        return records_of_step(self.pipeline, step, (self.cursor.positions[0], self.step), self.skipped)

    def last_records(self) -> Any:
        if self.run is None:
            raise ValueError("last_records needs an element that was delivered; call next() first.")
        leaves, every = self.pipeline.leaves, self.pipeline.every_leaf
        table = self.run.origin.table(np.array([self.row]))
        found = [np.empty(0, dtype=np.int64) for _ in leaves]
        for number in dict.fromkeys(table.leaf.tolist()):
            positions, own = table.position[table.leaf == number], number % len(leaves)
            each_once = np.array(list(dict.fromkeys(positions.tolist())), dtype=np.int64)
            keys = every[number].record_keys(every[number].positions_of(each_once))
            found[own] = np.concatenate([found[own], keys])
        told = [leaf.by_part(keys) for leaf, keys in zip(leaves, found)]
        return told[0] if len(told) == 1 else {leaf.name or str(n): told[n] for n, leaf in enumerate(leaves)}
