"""Find the records in the element of a step.

From the nearest known place, run the part of the pipeline that decides which records are in an
element. That place is the step itself if its position can be computed, or else the last known place
before it.
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
from ...loader.plan.cursor import Cursor, Subtree, cursor_of_join
from ...loader.plan.leaf import Leaf
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import within
from ...loader.run_here import run_here
from ...loader.state.position import StreamPosition
from ...loader.state.schema import LoaderState
from ...loader.stream.provenance import Table
from ...sources.facts import used_records
from ...sources.provenance import UsedRecord
from .reduced import reduced
from .streams import Described


@dataclass(frozen=True)
class StartPoint:
    """A place in the stream of one shard, from which the pipeline is run to find a step.

    Attributes:
        pipeline: pipeline that runs from there.
        cursor: the place in the stream.
        step: number of the next element there.
        told: True if the place was computed, without running the pipeline.
    """

    pipeline: Pipeline
    cursor: Cursor
    step: int
    told: bool

    @classmethod
    def nearest(cls, mark: StreamPosition, step: int) -> StartPoint:
        """Return the last place, at or before a step, that is known without reading.

        Args:
            mark: position of the run at a known step.
            step: number of the step.

        Raises:
            TraceError: the step was skipped, or is before `mark` and also before a change of shards
                or of the batch size.
        """
        if within(mark.kept.skipped.steps, step) is not None:
            raise TraceError(
                f"step {step} is skipped by skip(), so it has no records. Pass another step."
            )
        pipeline, at = mark.pipeline, mark.cursor
        if pipeline.aligned:
            return cls(
                pipeline,
                Cursor((_position(mark, step),), (0,) * len(at.skips), at.notes),
                step,
                True,
            )
        # the run did not change on its way
        if cursor_after(pipeline, pipeline.top, mark.step) == at:
            jump = cursor_after(pipeline, pipeline.top, step)
            if jump is not None:
                return cls(pipeline, jump, step, True)
        if step >= mark.step:
            return cls(pipeline, at, mark.step, False)
        if any(leaf.lineage.orders for leaf in pipeline.leaves):
            raise _too_early(mark, step)
        return cls(pipeline, pipeline.start, 0, False)


def _position(mark: StreamPosition, step: int) -> int:
    """Return the local position (within this shard) at which a step begins.

    Each step of the pipeline must have the same number of positions.

    Args:
        mark: position of the run at a known step, from which the position is computed.
        step: number of the step.

    Raises:
        TraceError: the step is before `mark`, and the shards or the batch size changed in between.
    """
    unit, at, leaf = mark.pipeline.stages[0].unit, mark.cursor.positions[0], mark.pipeline.leaf
    if step >= mark.step:
        return mark.kept.skipped.position_of(step, (at, mark.step), unit)
    if leaf.lineage.orders or mark.kept.skipped.absorbed:
        position = at - (mark.step - step) * unit
        known = position >= 0 and at % unit == 0 and not mark.kept.skipped.steps
    else:
        position, known = step * unit, min(mark.step * unit, leaf.total) == at
    if not known:
        raise _too_early(mark, step)
    return position


def _too_early(mark: StreamPosition, step: int) -> TraceError:
    return TraceError(
        f"step {step} is before the checkpoint, at step {mark.step}, and the number of shards or "
        "the batch size changed between them. Pass a checkpoint from before that change, or none "
        "for steps of the first run."
    )


def cursor_after(pipeline: Pipeline, part: Subtree, rows: int) -> Cursor | None:
    """Return the place in the stream after the first rows of a section of a pipeline.

    Return None if only running it would tell.

    That is so, for example, if an operation drops or adds elements, or errors are skipped.

    Args:
        pipeline: the pipeline.
        part: the section.
        rows: number of rows.
    """
    if pipeline.skips_errors:
        return None
    if part.stage is None:
        join = pipeline.joins[part.join or 0]
        cursors = [
            cursor_after(pipeline, one, count)
            for one, count in zip(join.inputs, join.rule.taken(rows))
        ]
        known = [cursor for cursor in cursors if cursor is not None]
        return (
            cursor_of_join(known, join.rule.after(join.rule.start, rows))
            if len(known) == len(cursors)
            else None
        )
    stage = pipeline.stages[part.stage]
    others = [operation for operation in stage.operations if not operation.one_to_one]
    window = (
        1
        if not others
        else others[0].takes
        if len(others) == 1 and others[0].keeps_elements
        else None
    )
    if window is None:
        return None
    units, skip = divmod(rows, window)
    inputs = units * stage.unit
    if stage.input is not None:
        below = cursor_after(pipeline, stage.input, inputs)
        return None if below is None else below.then(skip)
    leaf = pipeline.leaf_of(stage)
    known_leaf = not leaf.in_order and not leaf.lineage.orders and inputs + skip <= leaf.total
    return Cursor((inputs,), (skip,)) if known_leaf else None


class FoundRecord(NamedTuple):
    """A record in an element, and its place in the order.

    Attributes:
        used: the record, with its source.
        leaf: index in `Pipeline.every_leaf` of the leaf (source with its sampler) that it comes
            from.
        position: global position in the order of that leaf.
    """

    used: UsedRecord
    leaf: int
    position: int


@dataclass(frozen=True)
class Element:
    """The records of which an element was made.

    Attributes:
        records: the records, in their order in the element.
        leaves: all leaves (sources with their samplers) of the pipeline.
        ran_from: step from which the pipeline was run to find the records; None if they could be
            computed.
    """

    records: list[FoundRecord]
    leaves: Sequence[Leaf]
    ran_from: int | None


@dataclass(frozen=True)
class Search:
    """A position of a shard in its stream, from which the records of steps are searched.

    Attributes:
        described: description of the loader.
        mark: the position.
        epoch: number of the epoch, if the run loops over `loader.epochs()`; None for
            `iter(loader)`.
    """

    described: Described
    mark: StreamPosition
    epoch: int | None

    @classmethod
    def at(
        cls, described: Described, states: Sequence[LoaderState], epochs: bool, strict: bool
    ) -> Search:
        """Return a search in a stream from a run's states; without states, from the beginning.

        Args:
            described: the stream, on a shard.
            states: states of the shard, or of all shards of an earlier run.
            epochs: True: without states, steps are counted as `loader.epochs()` counts them.
            strict: False accepts states of another source, sampler or other operations.

        Raises:
            CheckpointError: a state belongs to another pipeline.
        """
        told = bool(states) and "epoch" in states[0].identity.order
        if not told and not (epochs and not states):
            return cls(described, described.stand(states, strict), None)
        epoch = epoch_of(states[0]) if told else 0
        return cls(described, described.in_epoch(epoch).stand(states, strict), epoch)

    def found(self, step: int) -> Element:
        """Find the element of a step.

        Raises:
            TraceError: the stream ends before the step; or the step was skipped, or is from before
                a change of shards or of the batch size.
        """
        search, left = self._in_epoch_of(step)
        began: int | None = None
        while True:
            place = StartPoint.nearest(search.mark, left)
            began = step - left + place.step if began is None else began
            table, passed = _run_to(place, left)
            if table is not None:
                leaves = place.pipeline.every_leaf
                return Element(list(_records(table, leaves)), leaves, None if place.told else began)
            end = place.step + passed
            if search.epoch is None or not search.has_epoch(search.epoch + 1):
                raise TraceError(
                    f"step {step} is after the end of the stream, which has {step - left + end} "
                    "elements. Pass a smaller step."
                )
            search, left = search.at_epoch(search.epoch + 1), left - end

    def _in_epoch_of(self, step: int) -> tuple[Search, int]:
        """Return the search in the epoch that contains a step, and the step's number in that epoch.

        If the run does not loop over `loader.epochs()`, it is this search and the step itself.

        Raises:
            TraceError: the stream ends before the step; or the step is from before a change of
                shards or of the batch size.
        """
        mark, pipeline = self.mark, self.mark.pipeline
        if self.epoch is None:
            return self, step
        if not pipeline.aligned:
            return (self, step) if step >= mark.step else (self.at_epoch(0), step)
        delivered = pipeline.stages[0].outputs(mark.cursor.positions[0])
        # step of the current epoch; all are of one length, but maybe that one
        first = mark.step - delivered
        after = first + pipeline.stages[0].outputs(pipeline.leaf.total)
        if first <= step < after:
            return replace(self, mark=replaced(mark, step=delivered)), step - first
        whole = self.at_epoch(0).mark.pipeline
        length = whole.stages[0].outputs(whole.leaf.total)
        if step < first and (first != self.epoch * length or pipeline.leaf.lineage.orders):
            raise TraceError(
                f"step {step} is before the epoch of the checkpoint, which begins with step "
                f"{first}, and the number of shards or the batch size changed between them. Pass a "
                "checkpoint from before that change."
            )
        begin, epoch = (0, 0) if step < first else (after, self.epoch + 1)
        epochs, left = divmod(step - begin, length)
        if not self.has_epoch(epoch + epochs):
            raise TraceError(
                f"step {step} is after the end of the stream, which has no epoch {epoch + epochs}. "
                "Pass a smaller step."
            )
        return self.at_epoch(epoch + epochs), left

    def at_epoch(self, epoch: int) -> Search:
        return Search(self.described, self.described.in_epoch(epoch).stand([], True), epoch)

    def has_epoch(self, epoch: int) -> bool:
        """Return True if the stream has an epoch with this number."""
        epochs = self.described.pipeline.leaf.sampler.epoch_count
        return epochs is None or epoch < epochs


def _run_to(place: StartPoint, step: int) -> tuple[Table | None, int]:
    """Run the pipeline from a place to a step.

    Return the step's records as a table, and the number of elements before it.

    The table is None if the stream ends before the step.
    """
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


def _records(table: Table, leaves: Sequence[Leaf]) -> Iterator[FoundRecord]:
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
            yield FoundRecord(
                replaced(each, segment=segment, tokens=tokens) if segment else each,
                number,
                position,
            )
