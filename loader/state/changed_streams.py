"""Resume a pipeline whose order or records have changed since the states were saved.

In: the current pipeline, which may join several streams, and saved states. Out: a changed pipeline
and changed states, with which the run resumes. Each source of joined streams is changed separately.
The joins themselves (mix, zip and others) need no change if records have changed, because they
count rows, and do not depend on which records these rows are made of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import CheckpointError
from ...samplers.changing.history import GENERATION, OMITTED
from ...samplers.history import SavedOrder, Values, parts_in
from ..plan.compile import compiled
from ..plan.cursor import Cursor
from ..plan.joins import Apply, Read
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_plans import with_plan, without_epochs
from .changed_records import migrate_records
from .changed_weights import is_within, migrate_weights
from .leftover import Run
from .schema import LoaderState


def migrate(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Let the current program's pipeline resume from states saved with another order or records.

    The pipeline is changed so that it reads the saved order up to the position where the run
    stopped, and its own order from there on.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of all shards of one run, or of one shard.
        strict: if True, the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if a state was saved
            inside the window and earlier operations made its inputs.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the run cannot be resumed with these changes, see `migrate_weights` and
            `migrate_records`.
    """
    pipeline, states = with_plan(pipeline, states, strict)
    for state in states if not strict else ():
        _check_plans(pipeline, state)
    if not states or not pipeline.joins:
        return (migrate_records if states else migrate_weights)(pipeline, states, strict, run)
    if [*map(_inputs, states[0].identity.joins)] == [*map(_inputs, pipeline.identity.joins)]:
        # Records before weights: the run's place is one in the order of the records that it read.
        pipeline, states = _with_leaves(pipeline, states, strict, run)
        return migrate_weights(pipeline, states, strict, run)
    if any(map(is_within, states)) and not _omitted_by(pipeline) <= _omitted(states[0]):
        raise CheckpointError(
            "datasets were added to a mix or removed from it, and other records are omitted than "
            "in the state. Both changes at once are not possible here, because the state was saved "
            "between two rows of a FlatMap, or while a Pack, window_shuffle or the like held "
            "records back. Restore with the former omit=, and change omit= at a later step; or "
            "restore a checkpoint of another step."
        )
    pipeline, states = migrate_weights(pipeline, states, strict, run)
    return _with_leaves(pipeline, states, strict, run)


def _omitted(state: LoaderState) -> set[str]:
    """Return digests of the sets of records that a run omitted, at its start or later."""
    values = (*state.identity.every_order, *(change.values for change in state.history.changes))
    return {each[OMITTED] for each in values if each.get(OMITTED)}


def _omitted_by(pipeline: Pipeline) -> set[str]:
    return {order[OMITTED] for order in pipeline.identity.every_order if order.get(OMITTED)}


def _inputs(join: Values) -> Values:
    return {name: join.get(name) for name in ("kind", "names", "sizes")}


def _with_leaves(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    if len(states[0].identity.orders) != len(pipeline.leaves):
        return pipeline, states  # a later comparison tells
    for number in range(len(pipeline.leaves)):
        if _may_change(pipeline.leaves[number], states[0].order(number)):
            pipeline, states = _with_leaf(pipeline, states, number, strict, run)
    return pipeline, states


def _check_plans(pipeline: Pipeline, state: LoaderState) -> None:
    """Check that planned batches or packed rows have the same plan as in a state.

    A plan says, before anything is read, which records each batch (or packed row) has. Positions
    count these batches. So with another plan, the positions in the state would stand for other
    records. A state that was saved before the first batch may have any plan.

    Raises:
        CheckpointError: the plan differs.
    """
    begun = any(state.cursor.positions) or any(lineage.orders for lineage in state.history.shards)
    for leaf, saved in zip(pipeline.leaves, state.identity.orders) if begun else ():
        planned = leaf.sampler.fingerprint
        if leaf.source_facts.planned and without_epochs(saved) != without_epochs(planned):
            raise CheckpointError(
                "batches or packed rows are planned from lengths, and this plan differs from that "
                "of the state, so records would come twice or never. Restore with the former "
                "sampler (seed, num_epochs), records, lengths, window= and costs. Or begin the new "
                "plan without the state, or between two epochs of loader.epochs()."
            )


@dataclass(frozen=True)
class LeafAlone:
    """A leaf (a source with its sampler) of joined streams, as a pipeline of its own.

    If the whole pipeline has no joins, it has only one leaf, and `pipeline` is the whole pipeline.

    Attributes:
        number: index of the leaf.
        pipeline: pipeline of this leaf, and of the operations on its records.
        joined: False if the whole pipeline has no joins.
    """

    number: int
    pipeline: Pipeline
    joined: bool

    @classmethod
    def of(cls, whole: Pipeline, number: int) -> LeafAlone:
        if not whole.joins:
            return cls(number, whole, False)
        alone = compiled(Apply(Read(whole.leaves[number]), whole.stage_on(number).operations))
        sources = whole.identity.sources[number : number + 1]
        snapshot = dataclasses.replace(alone.snapshot, sources=sources)
        return cls(number, dataclasses.replace(alone, snapshot=snapshot), True)

    def state_of(self, whole: Pipeline, state: LoaderState) -> LoaderState:
        """Return a state for this leaf's pipeline, taken from a state of the whole pipeline.

        A leaf is a source with its sampler.

        Args:
            whole: the whole pipeline.
            state: a state of the whole pipeline.
        """
        if not whole.joins:
            return state
        number, stage = self.number, whole.stage_on(self.number).number
        return dataclasses.replace(
            state,
            cursor=Cursor((state.cursor.positions[number],), state.cursor.skips[stage : stage + 1]),
            identity=self.pipeline.identity.with_order(
                0, state.identity.orders[number], state.identity.sources[number]
            ),
            history=state.history.leaf(number),
            marks={0: state.marks[number]} if number in state.marks else {},
        )

    def put_back(self, whole: Pipeline, changed: Pipeline) -> Pipeline:
        """Return the whole pipeline, with this leaf (source with its sampler) replaced.

        Args:
            whole: the whole pipeline.
            changed: the leaf's own pipeline after a change; its leaf is the new one.
        """
        if not whole.joins:
            return changed
        leaves, sources = list(whole.leaves), list(whole.snapshot.sources)
        leaves[self.number], sources[self.number] = changed.leaf, changed.snapshot.sources[0]
        snapshot = dataclasses.replace(whole.snapshot, sources=tuple(sources))
        return dataclasses.replace(whole, leaves=tuple(leaves), snapshot=snapshot)

    def put_back_state(self, whole: LoaderState, of_leaf: LoaderState) -> LoaderState:
        """Return a state of the whole pipeline, with new values for this leaf.

        A leaf is a source with its sampler. Its source, order and history are replaced.

        Args:
            whole: the state of the whole pipeline.
            of_leaf: a state of the leaf's own pipeline, which has the new source, order and
                history.
        """
        if not self.joined:
            return of_leaf
        number = self.number
        identity = whole.identity.with_order(
            number, of_leaf.identity.order, of_leaf.identity.sources[0]
        )
        history = whole.history.with_history_of(number, of_leaf.history)
        return dataclasses.replace(whole, identity=identity, history=history)


def _may_change(leaf: Leaf, saved: SavedOrder) -> bool:
    """Return True if records of a source can be omitted or appended, now or in the earlier run.

    Args:
        leaf: the source with its sampler.
        saved: the source's order in the earlier run.
    """
    begun = any(OMITTED in each for each in (saved.described, *parts_in(saved.described).values()))
    changed = any(order.facts.keeps_history for order in leaf.sampler.parts.values())
    return begun or bool(saved.changes) or changed


def _with_leaf(
    pipeline: Pipeline, states: Sequence[LoaderState], number: int, strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Let one source of joined streams resume if its records or their order have changed.

    The source is changed so that it is read in the saved order up to the position where the run
    stopped, and in the current program's order from there on.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of one run.
        number: index of the source among all sources of the pipeline.
        strict: if True, the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline (see `Run`).

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the run cannot be resumed with this change.
    """
    alone = LeafAlone.of(pipeline, number)
    before = [alone.state_of(pipeline, state) for state in states]
    changed, after = migrate_records(alone.pipeline, before, strict, run)
    if _records(changed.leaf.sampler.saved) not in [
        _records(state.order(number)) for state in states
    ]:
        _check_between(pipeline, states, number)
        if any(state.cursor.positions[0] for state in before):
            _check_repeated(pipeline, number)
            _check_not_ended(pipeline, states, number)
    return alone.put_back(pipeline, changed), [
        alone.put_back_state(*both) for both in zip(states, after)
    ]


def _records(order: SavedOrder) -> list[Any]:
    """Return the values that decide which records an order has, to compare two orders by them.

    They are: the omitted records and the generation (version of the source's files) at the start of
    the run, also for each part of a mix; and all later changes of the order.
    """
    begins = (order.described, *parts_in(order.described).values())
    return [
        [{name: each[name] for name in (OMITTED, GENERATION) if name in each} for each in begins],
        order.changes,
    ]


def _check_between(pipeline: Pipeline, states: Sequence[LoaderState], number: int) -> None:
    """Check that no state was saved inside a batch or window of rows of joined streams.

    It is called if the order of a source has changed. Batches and windows that are made of one
    source's records, before streams are joined, are not checked.

    Args:
        pipeline: the pipeline.
        states: states of one run.
        number: index of the source whose order has changed, for the message.

    Raises:
        CheckpointError: a state was saved inside such a batch or window.
    """
    leaf = pipeline.leaves[number].name or "the source"
    stages = {pipeline.stage_on(each).number for each in range(len(pipeline.leaves))}
    if any(
        state.cursor.unfinished or pipeline.begun_at(pipeline.top, state.cursor) - stages
        for state in states
    ):
        raise CheckpointError(
            f"other records of {leaf} are omitted than in the state, which was saved inside a "
            "window of a Pack, window_shuffle or the like, or inside a batch that a FlatMap "
            "splits, after streams were joined. Restore a checkpoint of another step."
        )


def _check_repeated(pipeline: Pipeline, number: int) -> None:
    """Check that a source whose order has changed is not read several times, by `repeat()`.

    Args:
        pipeline: the pipeline.
        number: index of the source.

    Raises:
        CheckpointError: a stream with this source is repeated.
    """
    if pipeline.begins_anew(number):
        leaf = pipeline.leaves[number].name or "the source"
        raise CheckpointError(
            f"omit= of {leaf} differs from the state, but a stream that repeat() reads again "
            "cannot change it. Restore with the former omit=, or begin without the state. To "
            "change omit= in later runs, repeat before: MapDataset.repeat(n).to_iter_dataset()."
        )


def _check_not_ended(pipeline: Pipeline, states: Sequence[LoaderState], number: int) -> None:
    """Check that a growing source whose order has changed has not ended on any shard of a mix.

    A shard on which the source has ended in the mix would not read records that are appended later.
    For sources that do not grow, nothing is checked.

    Args:
        pipeline: the pipeline of joined streams.
        states: states of one run.
        number: index of the source.

    Raises:
        CheckpointError: the source has ended on a shard.
    """
    leaf = pipeline.leaves[number]
    if leaf.growth is None:
        return
    for join in pipeline.joins:
        ended = {
            each
            for state in states
            for each in join.rule.ended_inputs(state.cursor.notes[join.number])
        }
        if any(
            join.inputs[each].leaves.start <= number < join.inputs[each].leaves.stop
            for each in ended
        ):
            raise CheckpointError(
                f"omit= of {leaf.name or 'the source'} differs from the state, but this growing "
                "stream has ended in the mix on a shard, so later records would not be read there. "
                "Restore with the former omit=, restore an earlier checkpoint, or pass "
                'growth="hand".'
            )
