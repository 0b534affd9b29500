"""Finds the element of a step: runs what decides it from the nearest place that is known, and reads the table of its block.

In: where the run of a shard is. Out: the records that the element was made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...common.fields import replaced
from ...errors import TraceError
from ...loader.epochs import epoch_of
from ...loader.iterator import run_here
from ...loader.plan.leaf import Leaf
from ...loader.state.loader_state import LoaderState
from ...loader.state.position import StreamPosition
from ...loader.stream.provenance import Table
from ...sources.provenance import UsedRecord, used_records
from .places import Place
from .reduced import reduced
from .streams import Described


class Found(NamedTuple):
    """A record in an element, and the place, in the order of a leaf, of what it is a part of."""

    used: UsedRecord
    leaf: int
    position: int


@dataclass(frozen=True)
class Element:
    """The records that an element was made of."""

    records: list[Found]  # in the order in which they are in the element
    leaves: Sequence[Leaf]  # every leaf of its pipeline
    ran_from: int | None  # as of a `Trace`


@dataclass(frozen=True)
class Search:
    """A shard's place in its stream, from which a step is looked for."""

    described: Described
    mark: StreamPosition
    epoch: int | None  # of a loop per epoch

    @classmethod
    def at(cls, described: Described, states: Sequence[LoaderState], epochs: bool, strict: bool) -> Search:
        """At the states of a run, or at the start."""
        sampler = states[0].fingerprint["sampler"] if states else None
        told = isinstance(sampler, dict) and "epoch" in sampler
        if not told and not (epochs and not states):
            return cls(described, described.stand(states, strict), None)
        epoch = epoch_of(states[0]) if told else 0
        return cls(described, described.in_epoch(epoch).stand(states, strict), epoch)

    def found(self, step: int) -> Element:
        """The element of a step.

        Raises:
            TraceError: the stream ends before.
        """
        search, left = self._in_epoch_of(step)
        began: int | None = None
        while True:
            place = Place.nearest(search.mark, left)
            began = step - left + place.step if began is None else began
            table, passed = _run_to(place, left)
            if table is not None:
                leaves = place.pipeline.every_leaf
                return Element(list(_records(table, leaves)), leaves, None if place.told else began)
            end = place.step + passed
            if search.epoch is None or not search.has_epoch(search.epoch + 1):
                raise TraceError(f"step {step} is after the end of the stream, which has {step - left + end} elements.")
            search, left = search.at_epoch(search.epoch + 1), left - end

    def _in_epoch_of(self, step: int) -> tuple[Search, int]:
        """The epoch to begin at, and the number of the step as counted there."""
        mark, pipeline = self.mark, self.mark.pipeline
        if self.epoch is None:
            return self, step
        if not pipeline.aligned:
            return (self, step) if step >= mark.step else (self.at_epoch(0), step)
        delivered = pipeline.stages[0].outputs(mark.cursor.positions[0])
        first = mark.step - delivered  # step of the present epoch; all are of one length, but maybe that one
        after = first + pipeline.stages[0].outputs(pipeline.leaf.total)
        if first <= step < after:
            return replace(self, mark=replaced(mark, step=delivered)), step - first
        whole = self.at_epoch(0).mark.pipeline
        length = whole.stages[0].outputs(whole.leaf.total)
        if step < first and (first != self.epoch * length or pipeline.leaf.lineage.layers):
            raise TraceError(
                f"step {step} came before the epoch of the checkpoint, which begins with step {first}, and the number of "
                "shards or the batch size changed on the way; pass a checkpoint of before that."
            )
        begin, epoch = (0, 0) if step < first else (after, self.epoch + 1)
        epochs, left = divmod(step - begin, length)
        if not self.has_epoch(epoch + epochs):
            raise TraceError(f"step {step} is after the end of the stream, which has no epoch {epoch + epochs}.")
        return self.at_epoch(epoch + epochs), left

    def at_epoch(self, epoch: int) -> Search:
        return Search(self.described, self.described.in_epoch(epoch).stand([], True), epoch)

    def has_epoch(self, epoch: int) -> bool:
        leaf = self.described.pipeline.leaf
        return leaf.endless or epoch * leaf.epoch_length < len(leaf.sampler)


def _run_to(place: Place, step: int) -> tuple[Table | None, int]:
    """The table of the element of a step, or None if the stream ends before; and how many elements came before it."""
    pipeline = place.pipeline
    if pipeline.aligned and pipeline.leaf.left_from(place.cursor.positions[0]) == 0:
        return None, pipeline.stages[0].outputs(pipeline.leaf.total) - place.step
    passed = 0
    with closing(run_here(reduced(pipeline), place.cursor)) as elements:
        for _, rows, row in elements:
            if place.step + passed == step:
                return rows.origin.table(np.array([row])), passed
            passed += 1
    return None, passed


def _records(table: Table, leaves: Sequence[Leaf]) -> Iterator[Found]:
    for _, number, local, row, segment, tokens in zip(*(column.tolist() for column in table)):
        leaf = leaves[number]
        position = leaf.position(local)
        if leaf.in_order:
            used: Sequence[UsedRecord] = [UsedRecord(leaf.source.dataset, position)]
        else:
            used = used_records(leaf.source, int(leaf.record_keys(np.array([position]))[0]))
        for each in used:
            each = each.named(leaf.name)
            each = replaced(each, row=row) if row >= 0 else each
            yield Found(replaced(each, segment=segment, tokens=tokens) if segment else each, number, position)
