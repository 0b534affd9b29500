"""Resume a run if records were appended to its sources, or other records are omitted than before.

In: the current pipeline, and saved states. Out: both, with a new order of records. Up to the
position where the run stopped, it is the earlier run's order; from this position on, it has the new
records. The parts of a mix each have such an order, under the part's name; a single source has one
order, under the name "" (`ONLY`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import CheckpointError
from ...samplers.changing.history import GENERATION, OMITTED, RECORDS, RecordsHistory, lasting
from ...samplers.changing.orders import ChangingOrders, changing_parts
from ...samplers.history import SavedOrder, Values, part_named
from ...samplers.mix.ends import saved_order
from ...samplers.protocol import VectorSampler
from ...sources import fingerprint_of
from ...sources.facts import Generations
from ..plan.growth import (
    at_generations,
    epoch_at_generation,
    generations_of,
    growing_parts,
    source_at,
)
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_weights import migrate_weights
from .checks.batch_sizes import check_sizes
from .checks.missing_shards import check_all_shards
from .checks.record_checks import (
    changes_of,
    check_omitted,
    check_unread,
    comes_before,
    first_unread,
    former_length,
    place_in,
    retold,
)
from .leftover import Run, set_apart
from .schema import LoaderState

Histories = Mapping[str, RecordsHistory]


def migrate_records(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Let a pipeline resume from states after records were appended, or others are omitted.

    The pipeline reads a single source, or one mix of several. It is changed so that it reads the
    saved order up to the position where the run stopped, and the current records from there on.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of all shards of one run, or of one shard.
        strict: if True, all records that the run omitted must still be omitted (more may be); and
            records may be appended only if the records before them are the same.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if a state was saved
            inside the window and earlier operations made its inputs.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: `strict` forbids the change of the omitted records; the source has fewer
            records than before; a record that is now omitted is in a partly delivered batch or
            window; states of some shards are missing; or a window that was delivered in part would
            now be made of other records.
    """
    states = [_with_generations(pipeline.leaf, state) for state in states]
    whole = pipeline.leaf.sampler.whole
    if whole is not pipeline.leaf.sampler:
        if not strict:
            _check_weights(whole, states)
        pipeline, states = in_generation(pipeline, states, strict)
        return migrate_weights(pipeline, in_epoch(pipeline, states, strict), strict, run)
    return migrate_weights(*_with_orders(pipeline, states, strict, run), strict, run)


def _with_orders(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Do the work of `migrate_records` for `iter(loader)`, which reads all epochs.

    The returned pipeline has the records of the earlier run up to the position where the run
    stopped, and the current records after it. For loops over `loader.epochs()`, `migrate_records`
    calls `in_generation` and `in_epoch` instead.
    """
    latest = max(states, key=changes_of)
    known, leaf = latest.order(), pipeline.leaf
    generations = generations_of(leaf.source)
    orders = changing_parts(leaf.sampler, known, generations)
    histories = {name: RecordsHistory.of(known.part(name)) for name in orders}
    if orders and leaf.growth is not None:  # what came since comes in where the run looks
        growing = [name for name in growing_parts(leaf.source) if name in orders]
        pipeline = at_generations(
            pipeline, {name: histories[name].last.generation for name in growing}
        )
        orders = changing_parts(pipeline.leaf.sampler, known, generations)
    if not orders or (
        strict and _former_source(pipeline, orders, histories) != latest.identity.sources[0]
    ):
        return pipeline, states  # comparing the identities will tell
    for name, order in orders.items() if strict else ():
        whose = part_named(name) if name else leaf.name
        check_omitted(
            histories[name].last.omitted, order.omitted.digest, f" of {whose}" if whose else ""
        )
    states = [_as_of(state, latest, orders) for state in states]
    knowing = [state for state in states if state.order() == known]
    former = _with_order(
        pipeline, {name: order.with_history(histories[name]) for name, order in orders.items()}
    )
    marks = [mark for state in knowing if (mark := state.marks.get(0)) is not None and mark.place]
    length = former_length(knowing, known, former.leaf.sampler)
    known_places = {min(mark.position, length): mark.place for mark in marks}
    mix = saved_order(known) if leaf.sampler.facts.parts else None
    if any(order.has_other_records(histories[name]) for name, order in orders.items()):
        check_all_shards(states, "records were appended or left out")
        for state in states if not strict else ():
            check_sizes(pipeline, state)
        states = set_apart(
            former if mix is None else _as_it_was(former, known, length), states, length, run
        )
    lasts = {name: history.last.position for name, history in histories.items()}
    position, counts = place_in(mix, min(first_unread(former, states), length), lasts)
    places = known_places.get(position, {})
    changed = {
        name: order.with_records_from(known.part(name), counts[name], places.get(name))
        for name, order in orders.items()
    }
    now = _with_order(pipeline, changed)
    if any(order.omitted.digest != histories[name].last.omitted for name, order in orders.items()):
        whole = now if mix is None else _as_it_was(now, known, length)
        check_unread(pipeline, whole.leaf.sampler, states, position)
    grown = any(
        order.generation > histories[name].last.generation for name, order in changed.items()
    )
    saved = known
    for name, order in changed.items():
        saved = saved.with_part(name, order.saved)
    return now, retold(states, known, saved, now.identity.sources[0] if grown else None)


def _with_order(pipeline: Pipeline, orders: ChangingOrders) -> Pipeline:
    """Return the pipeline with new orders of its mix's parts, or of its single source.

    Args:
        pipeline: the pipeline.
        orders: the new orders, by name of the mix's part; "" for a single source.
    """
    sampler = pipeline.leaf.sampler.with_parts(orders)
    return pipeline.with_leaf(sampler=sampler)


def _as_it_was(pipeline: Pipeline, saved: SavedOrder, length: int) -> Pipeline:
    """Return the pipeline of a mix, with the weights and the ends of parts of the earlier run.

    Args:
        pipeline: pipeline of the mix.
        saved: the mix as the state of the earlier run describes it.
        length: number of positions of the earlier run's order, on all shards together.
    """
    mix: Any = pipeline.leaf.sampler.as_it_was(saved, length)
    return pipeline.with_leaf(sampler=mix)


def _former_source(pipeline: Pipeline, orders: ChangingOrders, histories: Histories) -> Values:
    """Return the fingerprint of the source, or of the mix's sources, as the earlier run read it.

    A generation is a version of the files of a growing source. Each growing source is taken at the
    generation that the earlier run read last, so records that were appended later do not count.

    Args:
        pipeline: the current pipeline.
        orders: the orders whose records may change, by name of the mix's part; "" for a single
            source.
        histories: by the same names, the changes of each order that the run has seen.
    """
    then = {name: history.last.generation for name, history in histories.items()}
    then = {name: number for name, number in then.items() if number < orders[name].generation}
    return (
        fingerprint_of(source_at(pipeline.leaf.source, then))
        if then
        else pipeline.identity.sources[0]
    )


def _as_of(state: LoaderState, latest: LoaderState, names: Iterable[str]) -> LoaderState:
    """Add, to the state of a shard, the changes of orders that other shards have already reached.

    The state is returned unchanged if it differs from `latest` in anything else than such changes.

    Args:
        state: state of the shard.
        latest: state of the shard that has reached most changes.
        names: names of the orders: the parts of a mix; or "" for a single source.
    """
    own, known, identity = state.order(), latest.order(), latest.identity.of_any_sizes
    if (state.identity.of_any_sizes, own) == (identity, known):
        return state
    for name in names:
        before, now = own.part(name), known.part(name)
        if lasting(before.described) != lasting(now.described):
            return state
        if not comes_before(RecordsHistory.of(before), RecordsHistory.of(now)):
            return state
        own = own.with_part(name, now)
    # its marks are places in an order without these changes
    earlier = dataclasses.replace(state, marks={})
    taken = earlier.with_order(0, own._replace(ended=known.ended), latest.identity.sources[0])
    return taken if (taken.identity.of_any_sizes, taken.order()) == (identity, known) else state


def _with_generations(leaf: Leaf, state: LoaderState) -> LoaderState:
    """Add the numbers of generations to a state, for sources whose generation it does not contain.

    A generation is a version of the files of a growing source. It is found by the number of records
    that the state has for the source. Sources whose order cannot change during a run get no number.
    """
    saved, parts = state.order(), leaf.sampler.whole.parts
    for name, generations in generations_of(leaf.source).items():
        part = saved.part(name)
        knows = not part.described or part.changes or GENERATION in part.described
        if generations.generation and not knows and parts[name].facts.keeps_history:
            generation = _generation_of(part.described.get(RECORDS), generations)
            saved = saved.with_part(name, part._replace(described={**part.described, **generation}))
    return state if saved == state.order() else state.with_order(0, saved)


def _generation_of(records: Any, generations: Generations) -> dict[str, int]:
    """Return {GENERATION: number} of the first generation that has a given number of records.

    A generation is a version of the files of a growing source. Return {} if this is generation 0,
    or if no generation has this number of records.

    Args:
        records: number of records.
        generations: the source's generations.
    """
    every = range(generations.generation + 1)
    found = next((one for one in every if generations.generation_records(one) == records), 0)
    return {GENERATION: found} if found else {}


def in_generation(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Give the current pipeline of an epoch and the saved states the same generation.

    A generation is a version of the files of a growing source. If a state was saved inside the
    epoch, the pipeline is changed to the generation that the run was reading. Otherwise, the states
    are changed to the current generation.

    Args:
        pipeline: pipeline of the epoch, over the current generation.
        states: states of one run.
        strict: if True, pipeline and states are returned unchanged if the source's content in the
            generation that the run read is no longer the same.
    """
    known, sources, order = states[0].order(), states[0].identity.sources, pipeline.leaf.sampler
    saved = known.described
    whole: Any = order.whole
    if not whole.facts.keeps_history or pipeline.leaf.source_facts.generations is None:
        return pipeline, states
    if lasting(saved) != lasting(order.fingerprint):
        return pipeline, states
    last = RecordsHistory.of(known).last
    if last.generation > whole.generation:
        return pipeline, states  # comparing the identities will tell
    former = epoch_at_generation(pipeline, last.generation)
    other_source = strict and former.identity.sources != sources
    if other_source or former.identity.order[RECORDS] != last.records:
        return pipeline, states
    if any(map(_is_inside, states)):
        return former, states
    now = {name: value for name, value in order.fingerprint.items() if name != OMITTED}
    kept = {OMITTED: saved[OMITTED]} if OMITTED in saved else {}
    return pipeline, retold(
        states, known, SavedOrder({**now, **kept}), pipeline.identity.sources[0]
    )


def in_epoch(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> Sequence[LoaderState]:
    """Replace the omitted records in states of a loop over `loader.epochs()` by the current ones.

    States are returned unchanged if the same records are omitted as before. They are also returned
    unchanged if the order differs in something other than omitted records; the caller then compares
    the orders.

    Args:
        pipeline: pipeline of the epoch.
        states: states of one run.
        strict: if True, all records that the run omitted must still be omitted; more may be.

    Raises:
        CheckpointError: other records are omitted, and a state was saved inside the epoch, or
            states of some shards are missing; or `strict` forbids the change.
    """
    known, order = states[0].order(), pipeline.leaf.sampler
    saved, present = known.described, order.fingerprint
    before, now = (each.get(OMITTED, "") for each in (saved, present))
    if before == now or lasting(saved) != lasting(present) or saved[RECORDS] != present[RECORDS]:
        return states
    if strict:
        check_omitted(before, now)
    if any(map(_is_inside, states)):
        raise CheckpointError(
            "other records are omitted than in the state, which was saved inside an epoch of "
            "loader.epochs(): its batches would change. Restore with the former omit= or a "
            "checkpoint that was saved between two epochs. In later runs, loop over iter(loader), "
            "where omit= can change at any step."
        )
    check_all_shards(states, "records were left out")
    return retold(states, known, order.saved)


def _check_weights(whole: VectorSampler, states: Sequence[LoaderState]) -> None:
    """Check that no weights or parts of a mix have changed if a state was saved inside an epoch.

    This check is only for loops over `loader.epochs()`.

    Args:
        whole: the current program's order of all epochs.
        states: states of one run.

    Raises:
        CheckpointError: weights or parts have changed, so that some records would come twice in the
            epoch, and others never.
    """
    known = states[0].order()
    saved = known._replace(
        described={key: value for key, value in known.described.items() if key != "epoch"}
    )
    if saved.described.get("kind") != whole.fingerprint.get("kind") or not any(
        map(_is_inside, states)
    ):
        return
    if change := whole.differs_from(saved):
        raise CheckpointError(
            f"{change} since the state was saved inside an epoch of loader.epochs(): some records "
            "would come twice in this epoch, and others never. Restore with the former weights or "
            "parts, or a checkpoint that was saved between two epochs. In later runs, loop over "
            "iter(loader), where they can change at any step."
        )


def _is_inside(state: LoaderState) -> bool:
    """Return True if a state of `loader.epochs()` was saved after some of its epoch was read.

    The epoch may have been begun by the shard of this state, or by the shards of an earlier run
    that had another number of shards.
    """
    cursor = state.cursor
    return any(
        (
            *cursor.positions,
            *cursor.skips,
            cursor.unfinished,
            *(shards.orders for shards in state.history.shards),
        )
    )
