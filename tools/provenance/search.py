"""Finds the element of a step, by running a pipeline with labels from the nearest place that is known.

In: where a shard stands. Out: the label of the element, and the leaves that it tells of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from ...errors import TraceError
from ...loader.epochs import epoch_of
from ...loader.iterator import run_here
from ...loader.plan.leaf import Leaf
from ...loader.state.loader_state import LoaderState
from ...loader.state.mark import Mark
from .labelled import labelled
from .labels import Found, Label, found_in
from .stand import Described, Place


@dataclass(frozen=True)
class Element:
    """What an element was made of.

    Attributes:
        label: of the element.
        leaves: every leaf of its pipeline.
        ran_from: as of a `Trace`.
    """

    label: Label
    leaves: Sequence[Leaf]
    ran_from: int | None

    @cached_property
    def records(self) -> list[Found]:
        """The records, in the order in which they stand in the element."""
        return found_in(self.label, self.leaves)


@dataclass(frozen=True)
class Search:
    """Where a shard stands, and how its stream goes on."""

    described: Described
    mark: Mark
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
            label, passed = _run_to(place, left)
            if label is not None:
                ran = None if place.told else began
                return Element(label, place.pipeline.every_leaf, ran)
            end = place.step + passed
            if search.epoch is None or not search._has_epoch(search.epoch + 1):
                raise TraceError(f"step {step} is after the end of the stream, which has {step - left + end} elements.")
            search, left = search._at_epoch(search.epoch + 1), left - end

    def _in_epoch_of(self, step: int) -> tuple[Search, int]:
        """The epoch to begin at, and the number of the step as counted there."""
        mark = self.mark
        if self.epoch is None:
            return self, step
        if not mark.pipeline.aligned:
            return (self, step) if step >= mark.step else (self._at_epoch(0), step)
        delivered = mark.pipeline.stages[0].outputs(mark.cursor.positions[0])
        first = mark.step - delivered
        if first <= step < first + self._length:
            return dataclasses.replace(self, mark=mark._replace(step=delivered)), step - first
        return self._in_other_epoch(step, first)

    def _in_other_epoch(self, step: int, first: int) -> tuple[Search, int]:
        """The same for an epoch before or after the one of now, which begins with step `first`. All are of one length."""
        assert self.epoch is not None, "a loop per epoch"
        length = self._at_epoch(0)._length
        if step < first and (first != self.epoch * length or self.mark.pipeline.leaf.lineage.layers):
            raise TraceError(
                f"step {step} came before the epoch of the checkpoint, which begins with step {first}, and the number of "
                "shards or the batch size changed on the way; pass a checkpoint of before that."
            )
        begin, epoch = (0, 0) if step < first else (first + self._length, self.epoch + 1)
        epochs, left = divmod(step - begin, length)
        if not self._has_epoch(epoch + epochs):
            raise TraceError(f"step {step} is after the end of the stream, which has no epoch {epoch + epochs}.")
        return self._at_epoch(epoch + epochs), left

    @property
    def _length(self) -> int:
        """Elements of an epoch."""
        return self.mark.pipeline.stages[0].outputs(self.mark.pipeline.leaf.total)

    def _at_epoch(self, epoch: int) -> Search:
        return Search(self.described, self.described.in_epoch(epoch).stand([], True), epoch)

    def _has_epoch(self, epoch: int) -> bool:
        leaf = self.described.pipeline.leaf
        return leaf.endless or epoch * leaf.epoch_length < len(leaf.sampler)


def _run_to(place: Place, step: int) -> tuple[Label | None, int]:
    """The label of the element of a step, or None if the stream ends before; and how many elements came before it."""
    pipeline = place.pipeline
    if pipeline.aligned and pipeline.leaf.left_from(place.cursor.positions[0]) == 0:
        return None, pipeline.stages[0].outputs(pipeline.leaf.total) - place.step
    passed = 0
    with closing(run_here(labelled(pipeline), place.cursor)) as elements:
        for element, _, _ in elements:
            if place.step + passed == step:
                return element.label, passed
            passed += 1
    return None, passed
