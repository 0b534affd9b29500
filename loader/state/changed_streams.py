"""Resume a pipeline whose order or records differ from those of the run before; also one of joined streams.

In: the pipeline as its loader made it, and states. Out: both, in the form to resume. Each leaf (a
source with its sampler) of joined streams is treated as if it were alone, because joins choose
rows, whatever records these are made of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...common.messages import first_few
from ...errors import CheckpointError
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.mix.sampler import MixSampler
from ..plan.compile import compiled
from ..plan.cursor import Cursor
from ..plan.fingerprint import Fingerprint
from ..plan.joins import Apply, Read
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_joins import orders_in
from .changed_mix import migrate_mix
from .changed_records import migrate_records
from .leftover import Run
from .loader_state import LoaderState


def migrate(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to changes of the order or the records since the states were saved.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of all shards of one run, or of one shard.
        strict: True: the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline. It is used to find the end of something made of rows.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the run cannot be resumed with these changes, see `migrate_mix` and
            `migrate_records`.
    """
    for state in states if not strict else ():
        _check_plans(pipeline, state)
    if not states or not pipeline.joins:
        return (migrate_records if states else migrate_mix)(pipeline, states, strict, run)
    pipeline, states = migrate_mix(pipeline, states, strict, run)
    for number in range(len(pipeline.leaves)):
        if _may_change(pipeline.leaves[number], _orders(states[0])[number : number + 1]):
            pipeline, states = _with_leaf(pipeline, states, number, strict, run)
    return pipeline, states


def _check_plans(pipeline: Pipeline, state: LoaderState) -> None:
    """Check that planned batches or rows of a pipeline have the same plan as in a state that is not of the beginning.

    Positions count batches, and with another plan each would have other records.

    Raises:
        CheckpointError: the plan differs.
    """
    begun = any(state.cursor.positions) or any(lineage.layers for lineage in state.lineages)
    for leaf, saved in zip(pipeline.leaves, _orders(state)) if begun else ():
        planned = leaf.sampler.fingerprint
        if leaf.of_several and isinstance(saved, dict) and saved != planned:
            names = first_few([name for name in {**saved, **planned} if saved.get(name) != planned.get(name)])
            raise CheckpointError(
                f"batches or packed rows are planned from lengths, and the plan differs from the state ({names} "
                "changed): records would come twice or never. Restore with the former budget, lengths, window "
                "and costs. Or begin the new plan without the state, or between two epochs of loader.epochs()."
            )


def _orders(state: LoaderState) -> list[Any]:
    """Return the fingerprints of the orders of a state's leaves; [] if their number does not fit."""
    orders = orders_in(state.fingerprint["sampler"])
    return orders if len(orders) == len(state.lineages) else []


def _may_change(leaf: Leaf, saved: Sequence[Any]) -> bool:
    """Return True if a leaf (a source with its sampler) can omit or append records, or did so in the run.

    `saved` has the fingerprint of the leaf's order in the run, or nothing.
    """
    orders = leaf.sampler.parts.values() if isinstance(leaf.sampler, MixSampler) else [leaf.sampler]
    told = [each for order in saved if isinstance(order, dict) for each in (order, *order.values())]
    changed = any(isinstance(each, dict) and each.keys() & {HISTORY, OMITTED} for each in told)
    return bool(saved) and (changed or any(isinstance(order, ChangingSampler) for order in orders))


def _with_leaf(
    pipeline: Pipeline, states: Sequence[LoaderState], number: int, strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt leaf number `number` of a pipeline, and the states, if its order differs from that of the run.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of one run.
        number: number of the leaf (source with its sampler).
        strict: True: the order must be the same, except that records may be appended and more
            records omitted.
        run: function that runs a pipeline.

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
    if _histories(changed.leaf.sampler.fingerprint) not in [_histories(_orders(state)[number]) for state in states]:
        _check_between(pipeline, states, number)
        if any(state.cursor.positions[0] for state in before):
            _check_repeated(pipeline, number)
    leaves = (*pipeline.leaves[:number], changed.leaf, *pipeline.leaves[number + 1 :])
    return dataclasses.replace(pipeline, leaves=leaves), [
        _with_order(state, number, of_leaf) for state, of_leaf in zip(states, after)
    ]


def _alone(pipeline: Pipeline, number: int) -> Pipeline:
    """Return a pipeline of leaf number `number` (a source with its sampler) and the operations on its records alone."""
    alone = compiled(Apply(Read(pipeline.leaves[number]), pipeline.stage_on(number).operations))
    assert alone.identity is not None
    assert pipeline.identity is not None
    source = _one(pipeline.identity.source, "sources", number)
    return dataclasses.replace(alone, identity=dataclasses.replace(alone.identity, source=source))


def _one(values: Any, name: str, number: int) -> Any:
    """Return the fingerprint of source number `number`.

    `values` are the fingerprints of all sources, under `name`, or of one.
    """
    return values[name][number] if name in values else values


def _of_leaf(pipeline: Pipeline, alone: Pipeline, state: LoaderState, number: int) -> LoaderState:
    """Return what a state says about leaf number `number`, as a state of `alone`, the pipeline of this leaf.

    A leaf is a source with its sampler.
    """
    stage = pipeline.stage_on(number).number
    source = _one(state.fingerprint["source"], "sources", number)
    told = {**alone.fingerprint, "source": source, "sampler": _orders(state)[number]}
    return dataclasses.replace(
        state,
        cursor=Cursor((state.cursor.positions[number],), state.cursor.skips[stage : stage + 1]),
        fingerprint=Fingerprint(told),
        lineages=(state.lineages[number],),
        places={0: state.places[number]} if number in state.places else {},
    )


def _with_order(state: LoaderState, number: int, of_leaf: LoaderState) -> LoaderState:
    """Return a state with the order and the history of shards of leaf number `number` replaced by those in `of_leaf`.

    `of_leaf` is the state of that leaf's own pipeline. A leaf is a source with its sampler.
    """
    saved: Any = state.fingerprint["sampler"]
    order: Any = of_leaf.fingerprint["sampler"]
    if "samplers" in saved:
        orders = saved["samplers"]
        sampler = {**saved, "samplers": [*orders[:number], order, *orders[number + 1 :]]}
    else:
        sampler = {**order, "joins": saved["joins"]}
    lineages = (*state.lineages[:number], *of_leaf.lineages, *state.lineages[number + 1 :])
    return dataclasses.replace(
        state, fingerprint=Fingerprint({**state.fingerprint, "sampler": sampler}), lineages=lineages
    )


def _histories(order: Any) -> list[Any]:
    """Return the changes of an order, and of each part of a mix, from its fingerprint."""
    orders = [order, *order.values()] if isinstance(order, dict) else []
    return [
        {name: each[name] for name in (HISTORY, OMITTED, GENERATION) if name in each}
        for each in orders
        if isinstance(each, dict) and "kind" in each
    ]


def _check_between(pipeline: Pipeline, states: Sequence[LoaderState], number: int) -> None:
    """Check that no state is inside something made of several rows, as the order of leaf `number` has changed.

    A leaf is a source with its sampler.

    Raises:
        CheckpointError: a state is inside such a window or batch.
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
    """Check that no join reads leaf number `number`, whose order has changed, again from its beginning.

    A leaf is a source with its sampler.

    Raises:
        CheckpointError: a join reads it again.
    """
    if pipeline.begins_anew(number):
        leaf = pipeline.leaves[number].name or "the source"
        raise CheckpointError(
            f"omit= of {leaf} differs from the state, but a stream that repeat() reads again cannot change it. Restore "
            "with the former omit=, or begin without the state. To change omit= in later runs, repeat before: "
            "MapDataset.repeat(n).to_iter_dataset()."
        )
