"""Resumes a run whose source has more records than before, or from which other records are left out.

In: the pipeline as its loader made it, and states. Out: both with the order of that run up to where it got, and the order of
now from there on. For any other pipeline: what `migrate_mix` makes of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...errors import CheckpointError
from ...samplers import IndexSampler, NoSharding
from ...samplers.chain_order import ChainOrder
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, PASSING, History
from ...samplers.changing.sampler import ChangingSampler, lasting
from ...samplers.mix.ends import order_told
from ...samplers.mix.order import MixOrder
from ...samplers.mix.sampler import MixSampler
from ...samplers.one_epoch import OneEpoch
from ...samplers.protocol import ENDLESS
from ...sources import fingerprint_of
from ..plan.cursor import Cursor
from ..plan.fingerprint import Fingerprint
from ..plan.growth import at_generation, epoch_at_generation
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from .changed_mix import adapted, check_last_windows, first_unread, former_length, migrate_mix
from .leftover import Run, check_sizes, those_within
from .loader_state import LivingPlace, LoaderState

MOST_CHECKED = 1 << 22
"""Positions that are looked at, between the shard that has read least and the one that has read most."""


def migrate_records(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """The pipeline of one leaf and the states that go on; as `migrate_mix`, also where records were appended, or are left out.

    With `strict`, more records may be left out than before and no fewer; what was appended must come after the same records.

    Raises:
        CheckpointError: fewer records are left out, or fewer are there; or a record that is left out now is within something
            that was begun.
    """
    if isinstance(pipeline.leaf.sampler, MixSampler):
        states = _with_records(pipeline.leaf.sampler, states)
        return migrate_mix(*_with_parts(pipeline, pipeline.leaf.sampler, states, strict), strict, run)
    if isinstance(pipeline.leaf.sampler, OneEpoch):
        pipeline, states = _in_generation(pipeline, states, strict)
        return migrate_mix(pipeline, _in_epoch(pipeline.leaf.sampler, states, strict), strict, run)
    states = _with_records(pipeline.leaf.sampler, states)
    latest = max(states, key=_changes_of)
    known = latest.fingerprint
    saved: Any = known["sampler"]
    counts = hasattr(pipeline.leaf.source, "generation")
    sampler = _changing(pipeline.leaf.sampler, saved, counts)
    if sampler is None or lasting(saved) != lasting(sampler.fingerprint):
        return migrate_mix(pipeline, states, strict, run)
    history = History.of(saved)
    if pipeline.leaf.growth is not None:  # what came since comes in where the run looks
        pipeline = at_generation(pipeline, history.last.generation)
        sampler = _changing(pipeline.leaf.sampler, saved, counts)
        assert sampler is not None, "it was one before"
    former = pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=sampler.with_history(history)))
    if strict and _former_source(pipeline, sampler, history) != known["source"]:
        return pipeline, states  # comparing the fingerprints will tell
    if strict:
        name = pipeline.leaf.name
        _check_omitted(history.last.omitted, sampler.omitted.digest, f" of {name}" if name else "")
    position, told, length = _from_where(former, states, history)
    changed = sampler.going_on(
        saved, position, told.place if told is not None and isinstance(told.place, int) else None
    )
    total = _length(changed)
    if changed.history != history:
        _check_begun(pipeline, states, strict)
        if changed.omitted.digest != history.last.omitted:
            _check_unread(pipeline, changed, states, position)
    check_last_windows(pipeline, states, length, total)
    now = pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=changed))
    fingerprint = _told(known, now, changed)
    return now, [_as_of(state, known, history, fingerprint, total) for state in states]


def _in_generation(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """The pipeline of an epoch, and states of the same generation: that of the states inside of the epoch, else that of now."""
    known, order, source = states[0].fingerprint, pipeline.leaf.sampler, pipeline.leaf.source
    saved: Any = known["sampler"]
    assert isinstance(order, OneEpoch), "it was asked before"
    if not isinstance(order.sampler, ChangingSampler) or not hasattr(source, "at_generation"):
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
    fingerprint = Fingerprint(
        {**known, "sampler": {**now, **kept}, "source": pipeline.fingerprint_like(known)["source"]}
    )
    return pipeline, _retold(states, known, fingerprint)


def _in_epoch(order: OneEpoch, states: Sequence[LoaderState], strict: bool) -> Sequence[LoaderState]:
    """States of a loop per epoch, which stand between two epochs, as of one from which the same records are left out."""
    known = states[0].fingerprint
    saved: Any = known["sampler"]
    before, now = (of.get(OMITTED, "") if isinstance(of, dict) else "" for of in (saved, order.fingerprint))
    if (
        before == now
        or lasting(saved) != lasting(order.fingerprint)
        or saved["records"] != order.fingerprint["records"]
    ):
        return states
    if strict:
        _check_omitted(before, now)
    if any(any(state.cursor.positions) or any(state.cursor.skips) for state in states):
        raise CheckpointError(
            "other records are left out since, and the state stands inside an epoch of a loop by epochs(), whose batches would "
            "be other ones; take the state between two epochs, or loop over iter(loader), whose states go on anywhere."
        )
    fingerprint = Fingerprint({**known, "sampler": order.fingerprint})
    return _retold(states, known, fingerprint)


def _retold(states: Sequence[LoaderState], known: Fingerprint, now: Fingerprint) -> list[LoaderState]:
    """The states, those of one identity with another one."""
    return [dataclasses.replace(state, fingerprint=now) if state.fingerprint == known else state for state in states]


def _with_records(sampler: Any, states: Sequence[LoaderState]) -> Sequence[LoaderState]:
    """States that tell the number of records; those of a chain from which none are left out do not."""
    told = [(state, _counted(sampler, state.fingerprint["sampler"])) for state in states]
    return [
        state
        if saved is state.fingerprint["sampler"]
        else dataclasses.replace(state, fingerprint=Fingerprint({**state.fingerprint, "sampler": saved}))
        for state, saved in told
    ]


def _counted(sampler: Any, saved: Any) -> Any:
    """The fingerprint of an order that may change, with the number of records; any other as it is."""
    if not isinstance(saved, dict):
        return saved
    if isinstance(sampler, MixSampler):
        names = {f"part {short_repr(name)}": part for name, part in sampler.parts.items()}
        parts = {name: _counted(part, saved[name]) for name, part in names.items() if name in saved}
        return {**saved, **parts} if any(saved[name] is not part for name, part in parts.items()) else saved
    if not isinstance(sampler, ChangingSampler):
        return saved
    if saved.get("kind") == "ChainOrder" and isinstance(sampler.sampler, IndexSampler):  # before it grew
        by_epochs = ChainOrder.told_by_epochs(saved)
        kept = {name: value for name, value in saved.items() if name in PASSING}
        return saved if by_epochs is None else {**by_epochs, **kept}
    return saved if "records" in saved else {**saved, "records": sampler.num_records}


def _changes_of(state: LoaderState) -> int:
    """The number of changes that the order of a state knows of: of several shards, some may have got to more than others."""
    saved: Any = state.fingerprint["sampler"]
    changes = saved.get(HISTORY) if isinstance(saved, dict) else None
    return len(changes) if isinstance(changes, list) else 0


def _as_of(state: LoaderState, known: Fingerprint, history: History, now: Fingerprint, total: int) -> LoaderState:
    """A state of the run as one of the order of now, also if its shard had not got to the last changes."""
    own = state.fingerprint
    if (
        own != known
        and _changes_of(state) < len(history.changes)
        and lasting(own["sampler"]) == lasting(known["sampler"])
    ):
        until = History.of(own["sampler"])
        rest = {"source": known["source"], "sampler": known["sampler"]}
        if until == history.first(len(until.changes)) and {**own, **rest} == known:
            known = own
    return adapted(state, known, now, total)


def _with_parts(
    pipeline: Pipeline, mix: MixSampler, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """The pipeline of a mix, and states as of one from whose parts the same records are left out."""
    known = states[0].fingerprint
    saved: Any = known["sampler"]
    parts = _changing_parts(mix, saved, strict)
    if not parts:
        return pipeline, states
    lasts = {name: History.of(saved[f"part {short_repr(name)}"]).last.position for name in parts}
    length = former_length(states, saved)
    position, counts = _place_in_mix(min(first_unread(pipeline, states), length), order_told(saved), lasts)
    known_places = [each.places[0] for each in states if each.places]
    told = next((each for each in known_places if min(each.position, length) == position), None)
    places = told.place if told is not None and isinstance(told.place, dict) else {}
    names = {name: f"part {short_repr(name)}" for name in parts}
    changed = {name: part.going_on(saved[names[name]], counts[name], places.get(name)) for name, part in parts.items()}
    now = mix.with_parts(changed)
    if any(part.history != History.of(saved[names[name]]) for name, part in changed.items()):
        _check_begun(pipeline, states, strict)
        total = _length(now.going_on(saved, position, False))
        _check_unread(pipeline, now, states, position)
        check_last_windows(pipeline, states, length, total)
    sampler = {**saved, **{names[name]: part.fingerprint for name, part in changed.items()}}
    fingerprint = Fingerprint({**known, "sampler": sampler})
    leaf = dataclasses.replace(pipeline.leaf, sampler=now)
    return pipeline.with_leaf(leaf), _retold(states, known, fingerprint)


def _changing_parts(mix: MixSampler, saved: Any, strict: bool) -> dict[str, ChangingSampler]:
    """The parts of a mix from which records are left out, or were in a run, and which are otherwise what they were."""
    found = {}
    for name, part in mix.parts.items() if isinstance(saved, dict) and saved.get("kind") == "MixSampler" else ():
        told = saved.get(f"part {short_repr(name)}")
        changing = _changing(part, told, False)
        if (
            changing is None
            or lasting(told) != lasting(changing.fingerprint)
            or told["records"] != changing.num_records
        ):
            continue
        if strict:
            _check_omitted(History.of(told).last.omitted, changing.omitted.digest, f" of part {short_repr(name)}")
        found[name] = changing
    return found


def _place_in_mix(position: int, order: MixOrder, changed: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The position from which on parts of a mix may have other orders, and how many records each had before it.

    Args:
        position: from which on nothing was read.
        order: of parts.
        changed: of which part, by name, which record is the first one after its last change.
    """
    drawn = [order.position_of(order.names.index(name), last) for name, last in changed.items() if last]
    position = max([position, *(place for place in drawn if place is not None)])
    counts = dict(zip(order.names, order.counts(position).tolist()))
    return position, {name: max(counts[name], last) for name, last in changed.items()}


def _changing(sampler: Any, saved: Any, counts: bool) -> ChangingSampler | None:
    """A sampler as one that changes, where it is one or the state has one; `counts` says that its source has generations."""
    if not isinstance(saved, dict):
        return None
    if isinstance(sampler, ChangingSampler):
        return sampler if counts else sampler.of_generation(History.of(saved).last.generation)
    if not {HISTORY, OMITTED, GENERATION} & saved.keys() or not hasattr(sampler, "resized"):
        return None
    return ChangingSampler(sampler, generation=History.of(saved).last.generation)


def _former_source(pipeline: Pipeline, sampler: ChangingSampler, history: History) -> dict[str, Any]:
    """The identity of the source as it was, where that can be asked for; else as it is."""
    source = pipeline.leaf.source
    then, now = history.last.generation, sampler.history.last.generation
    if then < now and hasattr(source, "at_generation"):
        return fingerprint_of(source.at_generation(then))
    assert pipeline.identity is not None
    return pipeline.identity.source


def _told(known: Fingerprint, now: Pipeline, sampler: ChangingSampler) -> Fingerprint:
    """The identity of the run as it goes on: whatever else is another than in the state will still be seen."""
    source = known["source"]
    if sampler.generation > History.of(known["sampler"]).last.generation:
        source = now.fingerprint_like(known)["source"]
    return Fingerprint({**known, "sampler": sampler.fingerprint, "source": source})


def _check_omitted(before: str, now: str, whose: str = "") -> None:
    """Refuse to go on with fewer records left out, as a program does that forgot them."""
    if before != now and _count(now) <= _count(before):
        raise CheckpointError(
            f"the state is of a run that left out {_count(before):,} records{whose}, and now {_count(now):,} are left out"
            f"{', others' if _count(now) == _count(before) else ''}: some would come back. Pass omit= all of them, or go on "
            "deliberately with set_state(state, strict=False)."
        )


def _count(digest: str) -> int:
    try:
        return int(digest.split()[0]) if digest else 0
    except ValueError:
        raise CheckpointError(f"the state is damaged: omitted={short_repr(digest)}.") from None


def _length(sampler: Any) -> int:
    """Positions of all shards together."""
    return len(sampler.with_shard_options(NoSharding()))


def _from_where(
    former: Pipeline, states: Sequence[LoaderState], history: History
) -> tuple[int, LivingPlace | None, int]:
    """The position from which on the order may be another one, what a state tells of it, and the positions of the run.

    Shards that have read unevenly at the end stand beyond it: the order is another one from the end on.
    """
    knowing = [state for state in states if _changes_of(state) == len(history.changes)]  # others tell former places
    told = [state.places[0] for state in knowing if state.places]
    length = next((each.length for each in told if each.length is not None), None)
    if length is None:
        length = _length(former.leaf.sampler)
    position = max(min(first_unread(former, states), length), history.last.position)
    return position, next((each for each in told if min(each.position, length) == position), None), length


def _check_begun(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> None:
    """Refuse a change within what is made of rows: its end, which is not known here, may lie in the changed order."""
    for state in states:
        if not strict:
            check_sizes(pipeline, state)
        if any(stage > 0 for stage in pipeline.begun_at(pipeline.top, state.cursor)):
            raise CheckpointError(
                "records were appended or left out since, and the state stands inside a window of a Pack or window_shuffle, or "
                "a batch that is taken apart, after a Filter or FlatMap; take the state at another step."
            )


def _check_unread(
    pipeline: Pipeline, changed: ChangingSampler | MixSampler, states: Sequence[LoaderState], position: int
) -> None:
    """Refuse to read a record that is left out now before the position from which on none comes."""
    for state in states:
        places = [(state.cursor, state.shard, state.lineages[0])]
        places += [(rest.cursor, rest.shard, rest.lineages[0]) for rest in those_within(state.cursor.unfinished)]
        for cursor, shard, lineage in places:
            unread = _positions_before(position, cursor, shard, lineage)
            keys = changed.record_keys(unread) if len(unread) else unread
            late = keys[changed.omits(keys)]
            if len(late):
                record = pipeline.leaf.told(int(late[0]))
                raise CheckpointError(
                    f"record {record} is left out now, and is within what was begun where the state was taken, or what "
                    "some shards have read and others not. Take the states at equal steps, between two windows."
                )


def _positions_before(
    position: int, cursor: Cursor, shard: tuple[int, int], lineage: ReshardHistory
) -> NDArray[np.int64]:
    """The global positions that a shard has not read yet before one from which on positions follow one another."""
    index, count = shard
    dense, offset = lineage.dense_from
    stop = max(dense, position - offset)
    first = cursor.positions[0] * count + index
    if (stop - first) // count > MOST_CHECKED:
        raise CheckpointError(
            f"records are left out that were not before, and the shards stand {(stop - first) // count:,} records apart; take "
            "the states at equal steps."
        )
    indices = np.arange(first, min(stop, lineage.length(ENDLESS)), count, dtype=np.int64)
    positions = lineage.positions(indices)
    return positions[positions < position]


def places_of(pipeline: Pipeline, state: LoaderState) -> dict[int, LivingPlace]:
    """The value `places` of a state: of each leaf from which records are left out."""
    found = ((number, _place_of(pipeline, state, number)) for number in range(len(pipeline.leaves)))
    return {number: place for number, place in found if place is not None}


def _place_of(pipeline: Pipeline, state: LoaderState, number: int) -> LivingPlace | None:
    sampler: Any = pipeline.leaves[number].sampler
    if not isinstance(sampler, (ChangingSampler, MixSampler)):
        return None
    parts = {"": sampler} if isinstance(sampler, ChangingSampler) else sampler.parts
    omitting = {name: part for name, part in parts.items() if isinstance(part, ChangingSampler) and len(part.omitted)}
    if not omitting:
        return None
    position, total = first_unread(pipeline, [state], number), _length(sampler)
    length = None if total >= ENDLESS else total
    if isinstance(sampler, ChangingSampler):
        position = max(position, sampler.history.last.position)
        return LivingPlace(position, sampler.place(position), length)
    lasts = {name: part.history.last.position for name, part in omitting.items()}
    position, counts = _place_in_mix(position, sampler.order, lasts)
    return LivingPlace(position, {name: part.place(counts[name]) for name, part in omitting.items()}, length)
