"""Resume a mix whose weights or parts differ from those in the earlier run.

In: the pipeline as its loader made it, and states. Out: both, with the order of the earlier run up to the
position where it stopped, and the current order from there on. Other pipelines and states are returned unchanged.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from ...errors import CheckpointError
from ...samplers import ShardOptions, WeightedSampler
from ...samplers.changing.sampler import lasting as lasting_order
from ...samplers.mix.identity import PASSING, shares
from ...samplers.mix.parts import part_named
from ...samplers.mix.sampler import MixSampler
from ..plan.cursor import Cursor, those_within
from ..plan.identity import Identity, Values
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_joins import with_datasets_of_now
from .leftover import Run, check_sizes, read_to_end, set_apart, split_leftover
from .record_checks import (
    check_all_shards,
    check_nothing_owed,
    first_unread,
    former_length,
    length_of,
    retold,
)
from .schema import LoaderState

MOST_CHECKED = 1_000_000
"""Largest number of positions checked when a changed mix is restored.

A later record whose part is missing fails when it comes.
"""


def migrate_mix(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to a mix whose weights or parts have changed since the states were saved.

    The states are of all shards of one run, or of one shard. A single state stands for all shards, if
    all were at the same step.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of one run.
        strict: True: the mix is not adapted. A later comparison of identities then raises if it has
            changed.
        run: function that runs a pipeline. It is used to find the end of a window of rows, if a state is inside one.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the current mix ends before the place that the run has reached; a batch or
            window that was begun has another size; states of some shards are missing; or a window that
            was begun would be made of other records.
    """
    if not strict and states:
        _check_within(pipeline, states[0].identity)
        for state in states:
            check_sizes(pipeline, state)
    if pipeline.joins and not strict:

        def take_up(loaders: Pipeline, state: LoaderState, mix: str) -> Cursor:
            return split_leftover(loaders, state, run, mix)

        return pipeline, [with_datasets_of_now(pipeline, state, take_up) for state in states]
    sampler: Any = pipeline.leaves[0].sampler
    saved = states[0].identity.order if states else {}
    if len(pipeline.leaves) > 1 or not _is_of_kind(saved, sampler):
        return pipeline, states
    if isinstance(sampler, WeightedSampler):
        return _with_weights(pipeline, sampler, states, strict)
    if not sampler.facts.parts:
        return pipeline, states
    changed = sampler.going_on(saved, first_unread(pipeline, states), not strict)
    if not strict and _as_asked(changed.fingerprint) != _as_asked(saved):
        check_all_shards(states, "weights or parts of the mix changed")
        _check_dealt(states, "the mix is another one")
        length = former_length(states, saved, sampler)
        former = sampler.as_it_was(saved, length)
        states = set_apart(pipeline.with_leaf(dataclasses.replace(pipeline.leaf, sampler=former)), states, length, run)
        position = min(first_unread(pipeline, states), length)
        changed = sampler.going_on(saved, position, True)
        if name := _replaced_part(sampler, saved):
            check_nothing_owed(states, position, length, f"{name} of the mix has another order")
    leaf = dataclasses.replace(pipeline.leaf, sampler=changed)
    known = states[0].identity
    identity = known if strict else known.with_order(0, changed.fingerprint)
    return pipeline.with_leaf(leaf), retold(states, known, identity)


def _replaced_part(mix: MixSampler, saved: Mapping[str, Any]) -> str:
    """Name a part whose own order differs between `mix` and `saved`, the mix of the earlier run; "" if none differs."""
    for name, part in mix.parts.items():
        told, now = saved.get(part_named(name)), part.fingerprint
        if told is not None and lasting_order(told) != lasting_order(now):
            return part_named(name)
    return ""


def _with_weights(
    pipeline: Pipeline, sampler: WeightedSampler, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to changed weights of a `WeightedSampler`.

    The order of the returned pipeline remembers a digest of the earlier weights.

    Args:
        pipeline: pipeline as its loader made it.
        sampler: its sampler.
        states: states of one run.
        strict: True: the weights are not adapted. A later comparison raises if they have changed.

    Raises:
        CheckpointError: weights have changed, and a state is inside the results of one or several
            records, states of shards are missing, or a shard has read more than there is now.
    """
    known = states[0].identity
    saved = known.order
    if not strict and sampler.fingerprint["weights"] != saved.get("weights") and any(map(is_within, states)):
        raise CheckpointError(
            "the weights differ from the state, which was saved between two elements of one FlatMap record, "
            "or inside a window of a Pack or window_shuffle: the rest would be made of other records. "
            "Restore with the former weights, or a checkpoint of another step."
        )
    if not strict and sampler.fingerprint["weights"] != saved.get("weights"):
        check_all_shards(states, "weights changed")
        _check_dealt(states, "the weights are others")
        length = saved.get("length")
        length = length if isinstance(length, int) else length_of(sampler)
        check_nothing_owed(states, first_unread(pipeline, states), length, "the weights of records changed")
    changed = sampler.going_on(saved, first_unread(pipeline, states), not strict)
    identity = known if strict else known.with_order(0, changed.fingerprint)
    if not strict:
        _check_epochs(states, sampler, length_of(changed))
    leaf = dataclasses.replace(pipeline.leaf, sampler=changed)
    return pipeline.with_leaf(leaf), retold(states, known, identity)


def _check_epochs(states: Sequence[LoaderState], sampler: WeightedSampler, total: int) -> None:
    """Check that no shard has read more positions than its share of the sampler's `total` positions.

    It may have, because without replacement weights of 0 shorten epochs.

    Raises:
        CheckpointError: a shard has read more.
    """
    for state in states:
        (shard, count), reached = state.shard, state.cursor.positions[0]
        if reached > ShardOptions(shard, count).length(state.lineages[0].length(total)):
            raise CheckpointError(
                f"the sampler draws {sampler.num_samples} records in each of {sampler.num_epochs} "
                f"epochs, {total} in all, but shard {shard} of {count} has already read {reached}, in "
                f"epochs of {state.identity.order.get('samples')}. Pass a larger number as "
                "num_epochs=. Without replacement, an epoch has at most as many records as there are "
                "weights above 0."
            )


def _check_dealt(states: Sequence[LoaderState], change: str) -> None:
    """Check that a change of the order is not inside global batches that were balanced by cost.

    Raises:
        CheckpointError: it is inside such a batch.

    Args:
        states: states of all shards.
        change: text about the change for the message.
    """
    lineage, shards = states[0].lineages[0], states[0].shard[1]
    if lineage.blocks is None or lineage.blocks.shards == 1:
        return
    reached = {state.cursor.positions[0] for state in states}
    dense, offset = lineage.dense_from
    place = min(reached) * shards
    whole = (place + offset - lineage.blocks.first) % lineage.blocks.size == 0 and place >= dense
    if len(reached) > 1 or any(map(is_within, states)) or not whole:
        raise CheckpointError(
            f"{change}, and the checkpoint was saved inside a global batch of {lineage.blocks.size} records "
            f"that were divided among {lineage.blocks.shards} shards by cost. Restore a checkpoint that was "
            "saved between two global batches, with all shards at the same step."
        )


def is_within(state: LoaderState) -> bool:
    """Return True if a state was saved between the rows of one record, batch or window, or has unfinished work."""
    return any(state.cursor.skips) or bool(state.cursor.unfinished)


def _check_within(pipeline: Pipeline, saved: Identity) -> None:
    """Check that no mix inside a chain has changed, because its parts could not continue with their next elements.

    Args:
        pipeline: the current pipeline.
        saved: identity of the run.

    Raises:
        CheckpointError: such a mix has changed.
    """
    former, now = (
        Counter(json.dumps(mix, sort_keys=True) for mix in _mixes_within(identity))
        for identity in (saved, pipeline.identity)
    )
    if former - now and now - former:
        raise CheckpointError(
            "the weights or datasets of a mix changed, but the mix is sliced, shuffled, repeated, packed, "
            "limited or part of another dataset, so some records would come twice or never. Mix last: "
            "shuffle and repeat the datasets before, use shard_options instead of mix[i::n], pack the "
            "stream. Or begin the changed mix at a position of your choice, mix[n:], without the state."
        )


def _mixes_within(identity: Identity) -> Iterator[Any]:
    """Yield the identities of all mixes in an identity except the uppermost one, which may change."""
    yield from (join["names"] for join in identity.joins[:-1] if join.get("kind") == "mix")
    own = identity.order.values() if _is_mix(identity.order) and not identity.joins else identity.orders
    yield from _mixes_in([own, identity.sources])


def _mixes_in(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if _is_mix(value):
            yield shares(value)
        if "mixes" in value:
            yield value["mixes"]
        value = value.values()
    if not isinstance(value, str) and isinstance(value, Iterable):
        for each in value:
            yield from _mixes_in(each)


def check_left(loaders: Pipeline, pipeline: Pipeline, cursor: Cursor, run: Run) -> None:
    """Check that a mix still has all parts whose records must still be read from before its change.

    A window made of rows that was begun is read, to find its end.

    Args:
        loaders: pipeline as its loader made it.
        pipeline: pipeline that resumes.
        cursor: place from which it resumes.
        run: function that runs a pipeline.

    Raises:
        CheckpointError: such a part is missing. The message names it.
    """
    leaf, mix = pipeline.leaves[0], cast(Any, pipeline.leaves[0].sampler)
    if not mix.facts.parts or not mix.lacks_parts:
        return
    dense, offset = leaf.lineage.dense_from
    index = max(dense, mix.changed_from - offset)
    _check_present(leaf, cursor.positions[0], min(leaf.total, -(-index // leaf.shard.shard_count)))
    for rest in those_within(cursor.unfinished):
        former = pipeline.every_leaf[pipeline.read_by(0, pipeline.former_of(rest))]
        first = rest.cursor.positions[0]
        _check_present(former, first, min(former.total, first + pipeline.stage_on(0).unit))
        if mix.lacks_parts:
            read_to_end(loaders, rest, run)


def _check_present(leaf: Leaf, first: int, stop: int) -> None:
    sampler: Any = leaf.sampler
    for start in range(first, min(stop, first + MOST_CHECKED), sampler.block_size):
        sampler.check_present(leaf.positions(start, min(start + sampler.block_size, stop)))


def _is_of_kind(saved: Values, sampler: Any) -> bool:
    return bool(saved.get("kind") == type(sampler).__name__)


def _is_mix(saved: Values) -> bool:
    return bool(saved.get("kind") == "MixSampler")


def lasting(identity: Identity) -> Identity:
    """Return an identity without the values that say how the order of a mix has changed."""
    changes = _is_mix(identity.order) and not identity.joins
    return identity.with_order(0, _as_asked(identity.order)) if changes else identity


def _as_asked(mix: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mix.items() if name not in PASSING}
