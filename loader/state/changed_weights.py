"""Resume a run with other weights, or other parts (datasets) of a mix, than the earlier run had.

In: the current pipeline, and saved states. Out: both, with a new order. Up to the position where
the earlier run stopped, it is the earlier run's order; from this position on, it has the current
weights and parts. Pipelines and states without such a change are returned unchanged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...errors import CheckpointError
from ...samplers import ShardOptions
from ...samplers.changing.history import lasting
from ...samplers.dealing import Blocks
from ...samplers.history import SavedOrder, part_named
from ...samplers.protocol import VectorSampler
from ..plan.cursor import Cursor, those_within
from ..plan.identity import Identity
from ..plan.leaf import Leaf
from ..plan.pipeline import Pipeline
from .changed_joins import with_datasets_of_now
from .checks.batch_sizes import check_sizes
from .checks.missing_shards import check_all_shards
from .checks.record_checks import (
    check_nothing_owed,
    first_unread,
    former_length,
    inside_a_window_of_growing,
    length_of,
    retold,
)
from .leftover import Run, read_to_end, set_apart, split_leftover
from .schema import LoaderState

MOST_CHECKED = 1_000_000
"""Largest number of positions for which a restore checks if a removed part is still needed.

If a later position needs a removed part, reading it fails.
"""


def migrate_weights(
    pipeline: Pipeline, states: Sequence[LoaderState], strict: bool, run: Run
) -> tuple[Pipeline, Sequence[LoaderState]]:
    """Let a mix resume from states that were saved with other weights or parts (datasets).

    The current program's mix is changed so that it has the saved weights and parts up to the
    position where the run stopped, and its own from there on. If streams are joined, only the
    states are changed.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of all shards of one run, or of one shard. If something has changed, the
            states of all shards are needed, except for joined streams.
        strict: if True, changes of the program are not accepted here, and the caller later raises
            if something has changed. Changes that the run itself made, such as `iterator.change`,
            stay.
        run: function that runs a pipeline (see `Run`). It is called only to find the end of a
            window (inputs that a `Pack`, for example, processes together), if a state was saved
            inside the window and earlier operations made its inputs.

    Returns:
        The pipeline and the states to resume from.

    Raises:
        CheckpointError: the current order ends before the place that the run has reached; a batch
            or window that was partly delivered has another size now; states of some shards are
            missing; or a partly delivered window would be made of other records. Also if the
            changed mix is sliced, shuffled, repeated or part of another dataset; or if the state
            was saved inside a global batch that was divided among shards by cost.
    """
    if not strict and states:
        _check_within(pipeline, states[0].identity)
        for state in states:
            check_sizes(pipeline, state)
    if pipeline.joins and not strict:

        def take_up(loaders: Pipeline, state: LoaderState, mix: str) -> Cursor:
            return split_leftover(loaders, state, run, mix)

        return pipeline, [with_datasets_of_now(pipeline, state, take_up) for state in states]
    leaf = pipeline.leaves[0]
    saved = states[0].order() if states else SavedOrder({})
    if len(pipeline.leaves) > 1 or saved.described.get("kind") != leaf.sampler.fingerprint.get(
        "kind"
    ):
        return pipeline, states
    changed = leaf.sampler.resumed(saved, 0, False)
    if not strict:
        blocks = leaf.lineage.blocks
        if blocks is not None and saved.described.get("balance") != leaf.sampler.fingerprint.get(
            "balance"
        ):
            check_all_shards(states, "the costs of balance= changed")
            _check_dealt(states, "the costs of balance= changed", blocks)
        if change := leaf.sampler.differs_from(saved):
            states, position = _set_apart(pipeline, states, saved, change, run)
            changed = leaf.sampler.resumed(saved, position, True)
        _check_length(states, changed)
        states = retold(states, saved, changed.saved)
    if changed is not leaf.sampler:
        pipeline = pipeline.with_leaf(sampler=changed)
    return pipeline, states


def _set_apart(
    pipeline: Pipeline, states: Sequence[LoaderState], saved: SavedOrder, change: str, run: Run
) -> tuple[Sequence[LoaderState], int]:
    """Prepare states to resume with other weights or parts of a mix.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        states: states of one run.
        saved: the order of the run that saved the states.
        change: text that says what has changed, for messages.
        run: function that runs a pipeline (see `Run`).

    Returns:
        The states; and the first position (counted over all shards) at which the new weights or
        parts are used.

    Raises:
        CheckpointError: see `migrate_weights`.
    """
    leaf, begun = pipeline.leaf, any(map(is_within, states))
    length = former_length(states, saved, leaf.sampler)
    former = leaf.sampler.as_it_was(saved, length)
    if begun and former is None:
        raise CheckpointError(
            "the weights differ from the state, which was saved between two elements of one "
            "FlatMap record, or inside a window of a Pack, window_shuffle or the like: the rest "
            "would be made of other records. Restore with the former weights, or a checkpoint of "
            "another step."
        )
    check_all_shards(states, change)
    if begun and leaf.growth is not None:
        raise inside_a_window_of_growing()
    _check_dealt(states, change, None)
    if former is not None:
        states = set_apart(pipeline.with_leaf(sampler=former), states, length, run)
    position = min(first_unread(pipeline, states), length)
    if name := "the weights of records" if former is None else _replaced_part(leaf.sampler, saved):
        check_nothing_owed(states, position, length, f"{name} changed")
    return states, position


def _replaced_part(mix: VectorSampler, saved: SavedOrder) -> str:
    """Return a text that names the first part of a mix whose order differs from the saved one.

    The text is "the order of part 'name'". It is "" if the order of no part differs, or if the
    sampler is not a mix.

    Args:
        mix: the current program's sampler.
        saved: the order of the run that saved the state.
    """
    for name, part in mix.parts.items() if mix.facts.parts else ():
        before = saved.part(name).described
        if before and lasting(before) != lasting(part.fingerprint):
            return f"the order of {part_named(name)}"
    return ""


def _check_length(states: Sequence[LoaderState], order: VectorSampler) -> None:
    """Check that no shard has read more positions than its share of the new order.

    A shard can have read more if the new order has fewer epochs, or shorter ones. If records are
    drawn without replacement, each further weight of 0 makes the epochs shorter.

    Raises:
        CheckpointError: a shard has read more.
    """
    if not order.weights_description:
        return
    total = length_of(order)
    for state in states:
        (shard, count), reached = state.shard, state.cursor.positions[0]
        if reached > ShardOptions(shard, count).length(state.history.shards[0].length(total)):
            since = (
                " since the number of shards last changed" if state.history.shards[0].orders else ""
            )
            raise CheckpointError(
                f"the sampler draws {order.epoch_length} records in each of {order.epoch_count} "
                f"epochs, {total} in all, but shard {shard} of {count} has already read "
                f"{reached}{since}, in epochs of {state.identity.order.get('samples')}. Pass a "
                "larger number as num_epochs=. Without replacement, an epoch has at most as many "
                "records as there are weights above 0."
            )


def _check_dealt(states: Sequence[LoaderState], change: str, later: Blocks | None) -> None:
    """Check that the order does not change inside a global batch divided among shards by cost.

    Args:
        states: states of all shards.
        change: text that says what has changed, for the message.
        later: groups of positions whose records the current program divides among shards by cost;
            they are then also checked, besides the groups of the run that saved the states. None to
            check only the latter.

    Raises:
        CheckpointError: a state was saved inside such a batch.
    """
    lineage, shards = states[0].history.shards[0], states[0].shard[1]
    reached = {state.cursor.positions[0] for state in states}
    dense, offset = lineage.dense_from
    place = min(reached) * shards
    for blocks in (lineage.blocks, later):
        if blocks is None or blocks.shards == 1:
            continue
        whole = (place + offset - blocks.first) % blocks.size == 0 and place >= dense
        if len(reached) > 1 or any(map(is_within, states)) or not whole:
            raise CheckpointError(
                f"{change}, and the checkpoint was saved inside a global batch of {blocks.size} "
                f"records that were divided among {blocks.shards} shards by cost. Restore a "
                "checkpoint that was saved between two global batches, with all shards at the same "
                "step."
            )


def is_within(state: LoaderState) -> bool:
    """Return True if a state was saved inside a group of elements that are made together.

    Such a group has the rows of one record, of one batch or of one window. Return True, too, if the
    state has leftovers (unfinished work of earlier shards).
    """
    return any(state.cursor.skips) or bool(state.cursor.unfinished)


def _check_within(pipeline: Pipeline, saved: Identity) -> None:
    """Check that no mix has changed that is inside another dataset.

    Such a mix is sliced, shuffled, repeated or part of another dataset, so its parts could not
    continue with their next elements. A mix that is not inside another dataset may have changed.

    Args:
        pipeline: the current pipeline.
        saved: identity (description of sources, orders and operations) of the pipeline that saved
            the state.

    Raises:
        CheckpointError: such a mix has changed.
    """
    former, now = (
        Counter(json.dumps(mix, sort_keys=True) for mix in identity.inner_mixes)
        for identity in (saved, pipeline.identity)
    )
    if former - now and now - former:
        raise CheckpointError(
            "the weights or datasets of a mix changed, but the mix is sliced, shuffled, repeated, "
            "packed, limited or part of another dataset, so some records would come twice or "
            "never. Shuffle and repeat the datasets before mixing, pass shard_options in place of "
            "mix[i::n], pack by mix.to_iter_dataset().pack(…). Or begin the changed mix at a "
            "position of your choice, mix[n:], without the state."
        )


def check_left(loaders: Pipeline, pipeline: Pipeline, cursor: Cursor, run: Run) -> None:
    """Check that no dataset was removed from a mix while records of it are still to be delivered.

    Such records exist if shards stopped at different steps, or inside a window (inputs that a
    `Pack`, for example, processes together): up to the position of the change, the earlier mix is
    still read. If earlier operations made the inputs of a window, the window is run to find its
    end.

    Args:
        loaders: the current program's pipeline, before any state is applied.
        pipeline: the pipeline that resumes.
        cursor: place in the stream from which it resumes.
        run: function that runs a pipeline (see `Run`).

    Raises:
        CheckpointError: such a dataset was removed. The message names it.
    """
    leaf = pipeline.leaves[0]
    mix: Any = leaf.sampler
    if not mix.facts.parts or not mix.lacks_parts:
        return
    dense, offset = leaf.lineage.dense_from
    index = max(dense, mix.changed_from - offset)
    _check_present(leaf, cursor.positions[0], min(leaf.total, -(-index // leaf.shard.shard_count)))
    for rest in those_within(cursor.unfinished):
        former = pipeline.every_leaf[pipeline.read_by(0, pipeline.former_of(rest))]
        first = rest.cursor.positions[0]
        _check_present(former, first, min(former.total, first + pipeline.stage_on(0).unit))
        read_to_end(loaders, rest, run)


def _check_present(leaf: Leaf, first: int, stop: int) -> None:
    sampler: Any = leaf.sampler
    for start in range(first, min(stop, first + MOST_CHECKED), leaf.facts.block_size):
        sampler.check_present(leaf.positions(start, min(start + leaf.facts.block_size, stop)))
