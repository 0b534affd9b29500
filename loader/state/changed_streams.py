"""Resume a pipeline whose order or records have changed since the states were saved; it may join several streams.

In: the new pipeline, and saved states. Out: both, in the form to resume. Each source of joined streams is
adapted separately. The joins (mix, zip and others) need no work, because they choose among rows, not records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...common.messages import first_few
from ...errors import CheckpointError
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, History
from ...samplers.changing.sampler import ChangingSampler
from ..plan.compile import compiled
from ..plan.cursor import Cursor
from ..plan.identity import Identity, Values, orders_in
from ..plan.joins import Apply, Read
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_mix import is_within, migrate_mix
from .changed_plans import with_plan
from .changed_records import migrate_records
from .leftover import Run
from .schema import LoaderState


def migrate(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to changes of the order or the records since the states were saved.

    Args:
        pipeline: the new pipeline, as the program built it, before any state is applied.
        states: states of all shards of one run, or of one shard.
        strict: if True, the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline (see `Run`). It is called only if a state was saved inside a window of
            rows, to find the end of the window.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the run cannot be resumed with these changes, see `migrate_mix` and
            `migrate_records`.
    """
    pipeline, states = with_plan(pipeline, states, strict)
    for state in states if not strict else ():
        _check_plans(pipeline, state)
    if not states or not pipeline.joins:
        return (migrate_records if states else migrate_mix)(pipeline, states, strict, run)
    if [*map(_inputs, states[0].identity.joins)] == [*map(_inputs, pipeline.identity.joins)]:
        # Records before weights: the run's place is one in the order of the records that it read.
        pipeline, states = _with_leaves(pipeline, states, strict, run)
        return migrate_mix(pipeline, states, strict, run)
    if any(map(is_within, states)) and not _omitted(pipeline.identity) <= _omitted(states[0].identity):
        raise CheckpointError(
            "datasets were added to a mix or removed from it, and other records are omitted than in the state, which was saved "
            "between two rows of a FlatMap or inside a window. Make one of the two changes now, and the other one at a "
            "later step; or restore a checkpoint of another step."
        )
    pipeline, states = migrate_mix(pipeline, states, strict, run)
    return _with_leaves(pipeline, states, strict, run)


def _omitted(identity: Identity) -> set[str]:
    """Return the digests of all sets of records that the orders omit now, or omitted earlier in the run."""
    return {
        digest
        for order in identity.every_order
        if "records" in order
        for digest in (order.get(OMITTED), *(change.omitted for change in History.of(order).changes))
        if digest
    }


def _inputs(join: Values) -> Values:
    return {name: join.get(name) for name in ("kind", "names", "sizes")}


def _with_leaves(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt all sources of a pipeline of joined streams, and the states, to changed orders or records."""
    for number in range(len(pipeline.leaves)):
        if _may_change(pipeline.leaves[number], states[0].identity.orders[number]):
            pipeline, states = _with_leaf(pipeline, states, number, strict, run)
    return pipeline, states


def _check_plans(pipeline: Pipeline, state: LoaderState) -> None:
    """Check that planned batches or packed rows have the same plan as in a state; a state at the start may have any plan.

    Positions count planned batches. With another plan, each position would stand for other records.

    Raises:
        CheckpointError: the plan differs.
    """
    begun = any(state.cursor.positions) or any(lineage.layers for lineage in state.lineages)
    for leaf, saved in zip(pipeline.leaves, state.identity.orders) if begun else ():
        planned = leaf.sampler.fingerprint
        if leaf.of_several and saved != planned:
            names = first_few([name for name in {**saved, **planned} if saved.get(name) != planned.get(name)])
            raise CheckpointError(
                f"batches or packed rows are planned from lengths, and the plan differs from the state ({names} "
                "changed): records would come twice or never. Restore with the former lengths, window and "
                "costs. Or begin the new plan without the state, or between two epochs of loader.epochs()."
            )


def _may_change(leaf: Leaf, saved: Values) -> bool:
    """Return True if records of a source can be omitted or appended, or were during the earlier run.

    Args:
        leaf: the source with its sampler.
        saved: fingerprint of its order in the earlier run.
    """
    changed = any(each.keys() & {HISTORY, OMITTED} for each in (saved, *orders_in(saved)))
    return changed or any(isinstance(order, ChangingSampler) for order in leaf.sampler.parts.values())


def _with_leaf(
    pipeline: Pipeline, states: Sequence[LoaderState], number: int, strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt one source of a pipeline of joined streams, and the states, if the order of its records has changed.

    Args:
        pipeline: the new pipeline, as the program built it, before any state is applied.
        states: states of one run.
        number: index of the source among all sources (leaves) of the pipeline.
        strict: if True, the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline (see `Run`).

    Returns:
        The pipeline and the states.

    Raises:
        CheckpointError: the run cannot be resumed with this change.
    """
    leaf = pipeline.leaves[number]
    alone = _alone(pipeline, number)
    before = [_of_leaf(pipeline, alone, state, number) for state in states]
    changed, after = migrate_records(alone, before, strict, run)
    if changed.leaf.sampler is leaf.sampler and after == before:
        return pipeline, states
    if _histories(changed.leaf.sampler.fingerprint) not in [
        _histories(state.identity.orders[number]) for state in states
    ]:
        _check_between(pipeline, states, number)
        if any(state.cursor.positions[0] for state in before):
            _check_repeated(pipeline, number)
    leaves = (*pipeline.leaves[:number], changed.leaf, *pipeline.leaves[number + 1 :])
    return dataclasses.replace(pipeline, leaves=leaves), [
        _with_order(state, number, of_leaf) for state, of_leaf in zip(states, after)
    ]


def _alone(pipeline: Pipeline, number: int) -> Pipeline:
    """Return a pipeline with only the source at index `number`, and the operations on its records before the first join."""
    alone = compiled(Apply(Read(pipeline.leaves[number]), pipeline.stage_on(number).operations))
    assert alone.snapshot is not None
    sources = pipeline.identity.sources[number : number + 1]
    return dataclasses.replace(alone, snapshot=dataclasses.replace(alone.snapshot, sources=sources))


def _of_leaf(pipeline: Pipeline, alone: Pipeline, state: LoaderState, number: int) -> LoaderState:
    """Reduce a state of joined streams to the values of one source.

    Args:
        pipeline: the pipeline of joined streams.
        alone: the pipeline of this source alone, from `_alone`.
        state: a state of `pipeline`.
        number: index of the source.

    Returns:
        A state of `alone`.
    """
    stage = pipeline.stage_on(number).number
    identity = alone.identity.with_order(0, state.identity.orders[number], state.identity.sources[number])
    return dataclasses.replace(
        state,
        cursor=Cursor((state.cursor.positions[number],), state.cursor.skips[stage : stage + 1]),
        identity=identity,
        lineages=(state.lineages[number],),
        places={0: state.places[number]} if number in state.places else {},
    )


def _with_order(state: LoaderState, number: int, of_leaf: LoaderState) -> LoaderState:
    """Return a state of joined streams in which one source gets the order and history of `of_leaf`.

    Args:
        state: the state of joined streams.
        number: index of the source.
        of_leaf: state of that source alone.
    """
    lineages = (*state.lineages[:number], *of_leaf.lineages, *state.lineages[number + 1 :])
    return dataclasses.replace(
        state, identity=state.identity.with_order(number, of_leaf.identity.order), lineages=lineages
    )


def _histories(order: Values) -> list[Values]:
    """Return the changes of records in the fingerprint of an order; for a mix, also those of each part."""
    return [
        {name: each[name] for name in (HISTORY, OMITTED, GENERATION) if name in each}
        for each in (order, *orders_in(order))
    ]


def _check_between(pipeline: Pipeline, states: Sequence[LoaderState], number: int) -> None:
    """Check that no state was saved inside a batch or window of joined streams, because the order of a source has changed.

    Args:
        pipeline: the pipeline.
        states: states of one run.
        number: index of the source whose order has changed.

    Raises:
        CheckpointError: a state was saved inside one.
    """
    leaf = pipeline.leaves[number].name or "the source"
    stages = {pipeline.stage_on(each).number for each in range(len(pipeline.leaves))}
    if any(state.cursor.unfinished or pipeline.begun_at(pipeline.top, state.cursor) - stages for state in states):
        raise CheckpointError(
            f"other records of {leaf} are omitted than in the state, which was saved inside a window of a "
            "Pack or window_shuffle, or inside a batch that is unbatched, after streams were joined. Restore "
            "a checkpoint of another step."
        )


def _check_repeated(pipeline: Pipeline, number: int) -> None:
    """Check that the source at index `number`, whose order has changed, is not part of a stream that `repeat()` reads again.

    Raises:
        CheckpointError: it is.
    """
    if pipeline.begins_anew(number):
        leaf = pipeline.leaves[number].name or "the source"
        raise CheckpointError(
            f"omit= of {leaf} differs from the state, but a stream that repeat() reads again cannot change it. Restore "
            "with the former omit=, or begin without the state. To change omit= in later runs, repeat before: "
            "MapDataset.repeat(n).to_iter_dataset()."
        )
