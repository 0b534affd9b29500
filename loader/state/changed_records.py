"""Resume a run whose source has more records than before, or that omits other records.

In: the pipeline as its loader made it, and states. Out: both, with the run's order up to where it
stopped, and the present order from there on. For other pipelines: the result of `migrate_mix`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...errors import CheckpointError
from ...samplers import IndexSampler
from ...samplers.chain_order import ChainOrder
from ...samplers.changing.growth import ONLY
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, PASSING, History
from ...samplers.changing.sampler import ChangingSampler, lasting
from ...samplers.mix.parts import part_named
from ...samplers.mix.sampler import MixSampler
from ...samplers.one_epoch import OneEpoch
from ...samplers.protocol import ENDLESS
from ...sources import fingerprint_of
from ...sources.facts import facts_of
from ..plan.fingerprint import Fingerprint
from ..plan.growth import at_generation, epoch_at_generation, source_at
from ..plan.pipeline import Pipeline
from .changed_mix import adapted, migrate_mix
from .changed_parts import check_begun, place_in_mix, with_parts
from .leftover import Run, check_row_windows
from .loader_state import LivingPlace, LoaderState
from .record_checks import (
    changes_of,
    changing,
    check_all_shards,
    check_last_windows,
    check_omitted,
    check_unread,
    comes_before,
    first_unread,
    length_of,
    retold,
)

MOST_CHECKED = 1 << 22
"""Largest number of positions that are checked for one shard; if shards are further apart, resuming fails."""


def migrate_records(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline of one leaf and states to records that were appended or omitted since the states were saved.

    A leaf is a source with its sampler.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of all shards of one run, or of one shard.
        strict: True: more records may be omitted than before, but not fewer, and appended records
            must come after the same records.
        run: function that runs a pipeline. It is used to find the end of something made of rows.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: fewer records are omitted, or fewer exist; a record that is now omitted is
            inside something that was begun; states of some shards are missing; or a window would be
            made of other records.
    """
    if isinstance(pipeline.leaf.sampler, MixSampler):
        states = _with_records(pipeline, states)
        return migrate_mix(*with_parts(pipeline, states, strict, run), strict, run)
    if isinstance(pipeline.leaf.sampler, OneEpoch):
        pipeline, states = _in_generation(pipeline, _with_records(pipeline, states), strict)
        return migrate_mix(pipeline, _in_epoch(pipeline, states, strict), strict, run)
    states = _with_records(pipeline, states)
    latest = max(states, key=changes_of)
    known = latest.fingerprint
    saved: Any = known["sampler"]
    counts = pipeline.leaf.source_facts.generations is not None
    sampler = changing(pipeline.leaf.sampler, saved, counts)
    if sampler is None or lasting(saved) != lasting(sampler.fingerprint):
        return migrate_mix(pipeline, states, strict, run)
    history = History.of(saved)
    if pipeline.leaf.growth is not None:  # what came since comes in where the run looks
        pipeline = at_generation(pipeline, history.last.generation)
        sampler = changing(pipeline.leaf.sampler, saved, counts)
        assert sampler is not None, "it was one before"
    former = pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=sampler.with_history(history)))
    if strict and _former_source(pipeline, sampler, history) != known["source"]:
        return pipeline, states  # comparing the fingerprints will tell
    if strict:
        name = pipeline.leaf.name
        check_omitted(history.last.omitted, sampler.omitted.digest, f" of {name}" if name else "")
    position, told, length = _from_where(former, states, history)
    changed = sampler.going_on(
        saved, position, told.place if told is not None and isinstance(told.place, int) else None
    )
    total = length_of(changed)
    if changed.history != history:
        check_all_shards(states, "records were appended or left out")
        check_begun(pipeline, states, strict)
        if changed.omitted.digest != history.last.omitted:
            check_unread(pipeline, changed, states, position)
        check_row_windows(pipeline, states, position, changed, run)
    check_last_windows(pipeline, states, length, total)
    now = pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=changed))
    fingerprint = _told(known, now, changed)
    return now, [_as_of(state, known, history, fingerprint, total) for state in states]


def _in_generation(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Return the pipeline of an epoch, and states, with the same generation (a version of the source's files).

    If the states are inside the epoch, it is their generation; otherwise, the present one.

    Args:
        pipeline: pipeline of the epoch, over the present generation.
        states: states of one run.
        strict: True: the pipeline is unchanged if the source was another one at the run's
            generation.
    """
    known, order = states[0].fingerprint, pipeline.leaf.sampler
    saved: Any = known["sampler"]
    assert isinstance(order, OneEpoch), "it was asked before"
    if not isinstance(order.sampler, ChangingSampler) or pipeline.leaf.source_facts.generations is None:
        return pipeline, states
    if not isinstance(saved, dict) or lasting(saved) != lasting(order.fingerprint):
        return pipeline, states
    last = History.of(saved).last
    if last.generation > order.sampler.generation:
        return pipeline, states  # comparing the fingerprints will tell
    former = epoch_at_generation(pipeline, last.generation)
    if (former.fingerprint["source"] != known["source"] and strict) or former.fingerprint["sampler"][
        "records"
    ] != last.records:
        return pipeline, states
    if any(any(state.cursor.positions) or any(state.cursor.skips) or state.cursor.unfinished for state in states):
        return former, states
    now = {name: value for name, value in order.fingerprint.items() if name != OMITTED}
    kept = {OMITTED: saved[OMITTED]} if OMITTED in saved else {}
    fingerprint = Fingerprint({**known, "sampler": {**now, **kept}, "source": pipeline.fingerprint["source"]})
    return pipeline, retold(states, known, fingerprint)


def _in_epoch(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> Sequence[LoaderState]:
    """Return states of a loop per epoch in the form of an epoch that omits the present records.

    States are returned unchanged if the same records are omitted as before, or if the order is
    another one.

    Args:
        pipeline: pipeline of the epoch.
        states: states of one run.
        strict: True: not fewer records may be omitted than before.

    Raises:
        CheckpointError: other records are omitted, and a state is inside the epoch, or states of
            some shards are missing; or, if `strict`, fewer are omitted.
    """
    known, order = states[0].fingerprint, pipeline.leaf.sampler
    saved: Any = known["sampler"]
    before, now = (of.get(OMITTED, "") if isinstance(of, dict) else "" for of in (saved, order.fingerprint))
    if (
        before == now
        or lasting(saved) != lasting(order.fingerprint)
        or saved["records"] != order.fingerprint["records"]
    ):
        return states
    if strict:
        check_omitted(before, now)
    if any(any(state.cursor.positions) or any(state.cursor.skips) for state in states):
        raise CheckpointError(
            "other records are omitted than in the state, which was saved inside an epoch of "
            "loader.epochs(): its batches would change. Restore a checkpoint that was saved between two "
            "epochs, or loop over iter(loader), where omit= can change at any step."
        )
    check_all_shards(states, "records were left out")
    fingerprint = Fingerprint({**known, "sampler": order.fingerprint})
    return retold(states, known, fingerprint)


def _with_records(pipeline: Pipeline, states: Sequence[LoaderState]) -> Sequence[LoaderState]:
    """Return the states, with the number of records added to fingerprints that lack it, as those of some chains do."""
    sampler, source = pipeline.leaf.sampler, pipeline.leaf.source
    whole = sampler.sampler if isinstance(sampler, OneEpoch) else sampler
    told = [(state, _counted(whole, source, state.fingerprint["sampler"])) for state in states]
    return [
        state
        if saved is state.fingerprint["sampler"]
        else dataclasses.replace(state, fingerprint=Fingerprint({**state.fingerprint, "sampler": saved}))
        for state, saved in told
    ]


def _counted(sampler: Any, source: Any, saved: Any) -> Any:
    """Return the saved order of a sampler that can change, with the number of records and the generation.

    Any other saved order is returned unchanged. A generation is a version of the source's files.
    """
    if not isinstance(saved, dict):
        return saved
    if isinstance(sampler, MixSampler):
        names = {part_named(name): (part, source.parts[name]) for name, part in sampler.parts.items()}
        parts = {name: _counted(*part, saved[name]) for name, part in names.items() if name in saved}
        return {**saved, **parts} if any(saved[name] is not part for name, part in parts.items()) else saved
    if not isinstance(sampler, ChangingSampler):
        return saved
    if saved.get("kind") == "ChainOrder" and isinstance(sampler.sampler, IndexSampler):  # before it grew
        by_epochs = ChainOrder.describe_by_epochs(saved)
        kept = {name: value for name, value in saved.items() if name in PASSING}
        saved = saved if by_epochs is None else {**by_epochs, **kept}
    saved = saved if "records" in saved else {**saved, "records": sampler.num_records}
    return saved if saved.keys() & {HISTORY, GENERATION} else {**saved, **_generation_of(saved["records"], source)}


def _generation_of(records: Any, source: Any) -> dict[str, int]:
    """Return {GENERATION: number} of the generation of a source that had `records` records; {} if it is number 0.

    This is for a state from before the source grew. A generation is a version of the source's
    files.
    """
    own = facts_of(source).generations
    if own is None or not own.generation:
        return {}
    found = next((one for one in range(own.generation + 1) if own.generation_records(one) == records), 0)
    return {GENERATION: found} if found else {}


def _as_of(state: LoaderState, known: Fingerprint, history: History, now: Fingerprint, total: int) -> LoaderState:
    """Return a state in the form of the present order, even if its shard had not reached the run's last changes.

    Args:
        state: state to adapt.
        known: fingerprint of the run, with all changes.
        history: all changes of the run's order.
        now: fingerprint of the present pipeline.
        total: number of positions of the present order.
    """
    own = state.fingerprint
    if own != known and lasting(own["sampler"]) == lasting(known["sampler"]):
        until = History.of(own["sampler"])
        rest = {"source": known["source"], "sampler": known["sampler"]}
        if comes_before(until, history) and {**own, **rest} == known:
            known = own
    return adapted(state, known, now, total)


def _former_source(pipeline: Pipeline, sampler: ChangingSampler, history: History) -> dict[str, Any]:
    """Return the identity of the source at the run's generation, if that is an earlier one; else the present one.

    A generation is a version of the source's files.

    Args:
        pipeline: the present pipeline.
        sampler: its order.
        history: changes of the run's order.
    """
    then, now = history.last.generation, sampler.history.last.generation
    if then < now and pipeline.leaf.source_facts.generations is not None:
        return fingerprint_of(source_at(pipeline.leaf.source, {ONLY: then}))
    assert pipeline.identity is not None
    return pipeline.identity.source


def _told(known: Fingerprint, now: Pipeline, sampler: ChangingSampler) -> Fingerprint:
    """Return the fingerprint of the resumed run: `known`, that of the state, with the present order `sampler`.

    The source is that of the pipeline `now` if the order has a newer generation (version of the
    source's files) than the state. All other values stay those of the state, so that differences
    are still noticed.
    """
    source = known["source"]
    if sampler.generation > History.of(known["sampler"]).last.generation:
        source = now.fingerprint["source"]
    return Fingerprint({**known, "sampler": sampler.fingerprint, "source": source})


def _from_where(
    former: Pipeline, states: Sequence[LoaderState], history: History
) -> tuple[int, LivingPlace | None, int]:
    """Return the position from which the order may differ, a state's `LivingPlace` there or None, and the run's length.

    If some shards have ended and others have not, the position is at most the end.

    Args:
        former: pipeline with the order of the run.
        states: states of the run.
        history: all changes of the run's order.
    """
    most = max(map(changes_of, states))
    knowing = [state for state in states if changes_of(state) == most]  # others tell former places
    told = [state.places[0] for state in knowing if state.places]
    length = next((each.length for each in told if each.length is not None), None)
    if length is None:
        length = length_of(former.leaf.sampler)
    position = max(min(first_unread(former, states), length), history.last.position)
    return position, next((each for each in told if min(each.position, length) == position), None), length


def places_of(pipeline: Pipeline, state: LoaderState) -> dict[int, LivingPlace]:
    """Return the value `places` of a state: the place from which on each leaf that omits records is unread.

    Keys are the numbers of the leaves (sources with their samplers).
    """
    found = ((number, _place_of(pipeline, state, number)) for number in range(len(pipeline.leaves)))
    return {number: place for number, place in found if place is not None}


def _place_of(pipeline: Pipeline, state: LoaderState, number: int) -> LivingPlace | None:
    sampler: Any = pipeline.leaves[number].sampler
    if not isinstance(sampler, (ChangingSampler, MixSampler)):
        return None
    parts = {"": sampler} if isinstance(sampler, ChangingSampler) else sampler.parts
    orders = {name: part for name, part in parts.items() if isinstance(part, ChangingSampler)}
    total = length_of(sampler)
    ends = (
        isinstance(sampler, MixSampler) and total < ENDLESS
    )  # where, once a part has grown, its fingerprint does not tell
    omitting = {name: part for name, part in orders.items() if len(part.omitted) or (ends and part.changes)}
    if not omitting:
        return None
    position = first_unread(pipeline, [state], number)
    length = None if total >= ENDLESS else total
    if isinstance(sampler, ChangingSampler):
        position = max(position, sampler.history.last.position)
        return LivingPlace(position, sampler.place(position), length)
    lasts = {name: part.history.last.position for name, part in omitting.items()}
    position, counts = place_in_mix(position, sampler.order, lasts)
    return LivingPlace(position, {name: part.place(counts[name]) for name, part in omitting.items()}, length)
