"""Resume a mix whose parts have more records than before, or omit other records.

In: the pipeline as its loader made it, and states. Out: both, with each part's order of that run up
to where it stopped, and the present order from there on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import CheckpointError
from ...samplers.changing.history import History
from ...samplers.changing.sampler import ChangingSampler, lasting
from ...samplers.mix.ends import saved_order
from ...samplers.mix.order import MixOrder
from ...samplers.mix.parts import part_named
from ...sources import fingerprint_of
from ..plan.fingerprint import Fingerprint
from ..plan.growth import at_generations, generations_of, growing_parts, source_at
from ..plan.pipeline import Pipeline
from .leftover import Run, check_row_windows, check_sizes
from .loader_state import LoaderState
from .record_checks import (
    changes_of,
    changing,
    check_all_shards,
    check_last_windows,
    check_omitted,
    check_unread,
    comes_before,
    first_unread,
    former_length,
    length_of,
    retold,
)


def with_parts(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt the pipeline and the states of a mix whose parts have other records than when the states were saved.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of all shards of one run, or of one shard.
        strict: True: more records may be omitted than before, but not fewer, and appended records
            must come after the same records.
        run: function that runs a pipeline. It is used to find the end of something made of rows.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the records have changed in a way that cannot be resumed, see
            `migrate_records`.
    """
    latest = max(states, key=changes_of)
    known = latest.fingerprint
    saved: Any = known["sampler"]
    parts = _changing_parts(pipeline, saved, strict)
    if not parts:
        return pipeline, states
    histories = {name: History.of(saved[part_named(name)]) for name in parts}
    if pipeline.leaf.growth is not None:  # what came since comes in where the run looks
        growing = [name for name in growing_parts(pipeline.leaf.source) if name in parts]
        pipeline = at_generations(pipeline, {name: histories[name].last.generation for name in growing})
        parts = _changing_parts(pipeline, saved, strict)
    if strict and _former_sources(pipeline, parts, histories) not in (None, known["source"]):
        return pipeline, states  # comparing the fingerprints will tell
    states = [_as_of(state, known, parts) for state in states]
    knowing = [state for state in states if changes_of(state) == changes_of(latest)]  # others tell former places
    lasts = {name: history.last.position for name, history in histories.items()}
    length = former_length([state for state in knowing if state.places] or knowing, saved)
    known_places = {min(each.places[0].position, length): each.places[0] for each in knowing if each.places}
    unread, order = min(first_unread(pipeline, states), length), saved_order(saved)
    position, counts = place_in_mix(unread, order, lasts)
    told = known_places.get(position)
    places = told.place if told is not None and isinstance(told.place, dict) else {}
    changed = {
        name: part.going_on(saved[part_named(name)], counts[name], places.get(name)) for name, part in parts.items()
    }
    mix: Any = pipeline.leaf.sampler
    now = mix.with_parts(changed)
    if any(part.history != histories[name] for name, part in changed.items()):
        check_all_shards(states, "records were appended or left out")
        check_begun(pipeline, states, strict)
        whole = now.going_on(saved, position, False)
        if any(part.omitted.digest != histories[name].last.omitted for name, part in changed.items()):
            check_unread(pipeline, whole, states, position)
        check_last_windows(pipeline, states, length, length_of(whole))
        check_row_windows(pipeline, states, position, whole, run)
    sampler = {**saved, **{part_named(name): part.fingerprint for name, part in changed.items()}}
    source = known["source"]
    if any(part.generation > histories[name].last.generation for name, part in changed.items()):
        source = pipeline.fingerprint["source"]
    fingerprint = Fingerprint({**known, "sampler": sampler, "source": source})
    leaf = dataclasses.replace(pipeline.leaf, sampler=now)
    return pipeline.with_leaf(leaf), retold(states, known, fingerprint)


def _changing_parts(pipeline: Pipeline, saved: Any, strict: bool) -> dict[str, ChangingSampler]:
    """Return the orders, by name, of a mix's parts whose records may change or have changed, but nothing else.

    `saved` is the fingerprint of the run's sampler. With `strict`, a CheckpointError is raised if
    fewer records are omitted than before.
    """
    mix: Any = pipeline.leaf.sampler
    found, generations = {}, generations_of(pipeline.leaf.source)
    for name, part in mix.parts.items() if isinstance(saved, dict) and saved.get("kind") == "MixSampler" else ():
        told, counts = saved.get(part_named(name)), name in generations
        order = changing(part, told, counts)
        if order is None or lasting(told) != lasting(order.fingerprint):
            continue
        if not counts and told["records"] != order.num_records:
            continue
        if strict:
            check_omitted(History.of(told).last.omitted, order.omitted.digest, f" of {part_named(name)}")
        found[name] = order
    return found


def _former_sources(
    pipeline: Pipeline, parts: Mapping[str, ChangingSampler], histories: Mapping[str, History]
) -> dict[str, Any] | None:
    """Return the identity of the sources at the generations that the run used.

    The result is None if these are the present generations.

    A generation is a version of the source's files.

    Args:
        pipeline: the present pipeline.
        parts: orders of the parts whose records may change, by name.
        histories: for each of them, the changes that the run has seen.
    """
    then = {name: histories[name].last.generation for name in parts}
    then = {name: number for name, number in then.items() if number < parts[name].generation}
    return fingerprint_of(source_at(pipeline.leaf.source, then)) if then else None


def _as_of(state: LoaderState, known: Fingerprint, parts: Iterable[str]) -> LoaderState:
    """Return a state with the changes of all parts, if its shard only had not reached the last changes.

    Any other state is returned unchanged. `known` is the fingerprint that has all changes; `parts`
    are the names of the parts.
    """
    own: Any = state.fingerprint["sampler"]
    saved: Any = known["sampler"]
    if state.fingerprint == known or not isinstance(own, dict):
        return state
    named = [part_named(name) for name in parts]
    for name in named:
        history, until = History.of(saved[name]), History.of(own.get(name, {}))
        if not comes_before(until, history):
            return state
    same = {name: saved[name] for name in (*named, "ended") if name in saved}
    without = {name: value for name, value in own.items() if name != "ended"}
    rest = {**state.fingerprint, "source": known["source"], "sampler": {**without, **same}}
    return dataclasses.replace(state, fingerprint=known) if rest == known else state


def place_in_mix(position: int, order: MixOrder, changed: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Return the first position at which parts may have other orders, and each part's number of records before it.

    Args:
        position: position from which on nothing was read.
        order: order of the parts.
        changed: for each part, by name, the number of its first record after its last change.
    """
    drawn = [order.position_of(order.names.index(name), last - 1) for name, last in changed.items() if last]
    position = max([position, *(place + 1 for place in drawn if place is not None)])
    counts = dict(zip(order.names, order.counts(position).tolist()))
    return position, {name: max(counts[name], last) for name, last in changed.items()}


def check_begun(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> None:
    """Check that no state is inside a window or batch that is made of several rows, now that records have changed.

    The end of such a window or batch is not known here. Without `strict`, it is also checked that
    no batch or window that was begun has another size.

    Raises:
        CheckpointError: a state is inside such a window or batch; or, without `strict`, inside one
            that has another size now.
    """
    for state in states:
        if not strict:
            check_sizes(pipeline, state)
        if any(stage > 0 for stage in pipeline.begun_at(pipeline.top, state.cursor)):
            raise CheckpointError(
                "records were appended or omitted, and the checkpoint was saved inside a window of a Pack or "
                "window_shuffle, or inside a batch that is unbatched, after a Filter or FlatMap. Restore a "
                "checkpoint of another step."
            )
