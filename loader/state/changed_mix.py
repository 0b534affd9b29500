"""Resume a mix whose weights or parts (datasets) differ from the mix of the earlier run.

In: the new pipeline, and saved states. Out: both, with an order that follows the earlier run up to the position
where it stopped, and the new mix from there on. Pipelines and states without such a change are returned unchanged.
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
"""Largest number of positions for which a restore checks whether a removed part of the mix is still needed.

If a later position needs a removed part, reading it fails.
"""


def migrate_mix(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to a mix whose weights or parts (datasets) have changed since the states were saved.

    Args:
        pipeline: the new pipeline, as the program built it, before any state is applied.
        states: states of all shards of one run, or of one shard. If the mix has changed, all shards' states are needed.
        strict: if True, the mix is not adapted. A later comparison of identities then raises if it has changed.
        run: function that runs a pipeline (see `Run`). It is called only if a state was saved inside a window of
            rows, to find the end of the window.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the current mix ends before the place that the run has reached; a batch or
            window that was partly delivered has another size now; states of some shards are missing; or a partly
            delivered window would be made of other records.
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
        if pipeline.leaf.growth is not None and any(map(is_within, states)):
            raise CheckpointError(
                "weights or parts of a mix of growing sources changed, but the checkpoint was saved inside a window of a Pack "
                "or window_shuffle, or between the rows of one record. Restore a checkpoint of another step, or pass "
                'growth="hand".'
            )
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
    """Return the text "part 'name'" for the first part whose own order differs from the saved mix of the earlier run.

    Return "" if the order of no part differs.
    """
    for name, part in mix.parts.items():
        told, now = saved.get(part_named(name)), part.fingerprint
        if told is not None and lasting_order(told) != lasting_order(now):
            return part_named(name)
    return ""


def _with_weights(
    pipeline: Pipeline, sampler: WeightedSampler, states: Sequence[LoaderState], strict: bool
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Adapt a pipeline and states to changed weights of a `WeightedSampler`.

    The order of the returned pipeline stores only a digest of the earlier weights.

    Args:
        pipeline: the new pipeline, as the program built it, before any state is applied.
        sampler: its sampler.
        states: states of one run.
        strict: if True, the weights are not adapted. A later comparison raises if they have changed.

    Raises:
        CheckpointError: the weights have changed, and a state was saved between the elements made of one record, or
            inside a window, or inside a global batch that was divided among shards by cost; states of some shards
            are missing; a shard must still read records of the earlier order; or a shard has already read more
            records than the new weights give it.
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

    This can happen without replacement, where more weights of 0 make the epochs shorter.

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
    """Check that the order does not change inside a global batch whose records were divided among shards by cost.

    Args:
        states: states of all shards.
        change: text about the change for the message.

    Raises:
        CheckpointError: a state was saved inside such a batch.
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
    """Return True if a state was saved between two elements that were made together, or has unfinished work.

    Such elements are the rows of one record, of one batch or of one window.
    """
    return any(state.cursor.skips) or bool(state.cursor.unfinished)


def _check_within(pipeline: Pipeline, saved: Identity) -> None:
    """Check that no mix other than the pipeline's last one has changed.

    Such a mix is sliced, shuffled or part of another dataset, so its parts could not continue with their next elements.

    Args:
        pipeline: the current pipeline.
        saved: identity of the pipeline that saved the state.

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
            "limited or part of another dataset, so some records would come twice or never. Shuffle and repeat "
            "the datasets before mixing, pass shard_options in place of mix[i::n], pack by "
            "mix.to_iter_dataset().pack(…). Or begin the changed mix at a position of your choice, mix[n:], "
            "without the state."
        )


def _mixes_within(identity: Identity) -> Iterator[Any]:
    """Yield a description of each mix in an identity, except the last mix of the pipeline, which may change."""
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
    """Check that no removed part of a mix (one of its datasets) still has records to deliver from before the change.

    Such records exist if shards stopped at different steps, or inside a window. A window of rows that was begun is run,
    to find its end.

    Args:
        loaders: the new pipeline, as the program built it, before any state is applied.
        pipeline: the pipeline that resumes.
        cursor: place from which it resumes.
        run: function that runs a pipeline (see `Run`).

    Raises:
        CheckpointError: such a part was removed. The message names it.
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
    """Return an identity without the values that say how the order of a mix changed during the run."""
    changes = _is_mix(identity.order) and not identity.joins
    return identity.with_order(0, _as_asked(identity.order)) if changes else identity


def _as_asked(mix: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mix.items() if name not in PASSING}
