"""Check if a run may resume with appended records, omitted records, or another mix.

In: the current program's pipeline, or its changed order, and saved states. Out: facts about them,
such as the first position that no shard has read; or a `CheckpointError` if the run cannot resume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common.messages import short_repr
from ....errors import CheckpointError
from ....samplers import NoSharding
from ....samplers.changing.history import GENERATION, RecordsHistory
from ....samplers.changing.orders import changing
from ....samplers.history import ONLY, SavedOrder, Values
from ....samplers.mix.ends import saved_length
from ....samplers.mix.order import MixOrder
from ....samplers.protocol import ENDLESS, VectorSampler
from ...plan.cursor import Cursor, those_within
from ...plan.history import Mark
from ...plan.lineage import ReshardHistory
from ...plan.pipeline import Pipeline
from ..schema import LoaderState

MOST_CHECKED = 1 << 22
"""Largest number of positions checked for one shard.

If shards have read that much more or less than others, resuming fails.
"""


def changes_of(state: LoaderState) -> int:
    """Return a number that is larger, the more changes of the run's orders a shard has seen.

    The shards of a run see the same changes in the same order, but some shards may be ahead of
    others: they have larger numbers. The number is the number of changes in the state, plus the
    number of the generation (version of the source's files) with which each order begins.
    """
    begins = [order.get(GENERATION) for order in state.identity.every_order]
    return len(state.history.changes) + sum(number for number in begins if isinstance(number, int))


def comes_before(until: RecordsHistory, history: RecordsHistory) -> bool:
    """Return True if the changes in `until` are the first changes in `history`, or all of them.

    A shard with `until` can then be behind a shard with `history` in the same run. One exception:
    records that are appended before the first record is read do not count as a change. So if
    `until` has no change, `history` may begin with more records, and with a later generation
    (version of the source's files), than `until`.
    """
    if until.changes or until.generation == history.generation:
        return until == history.first(len(until.changes))
    same = (until.omitted, until.generation < history.generation, until.records <= history.records)
    return same == (history.omitted, True, True)


def retold(
    states: Sequence[LoaderState], known: SavedOrder, now: SavedOrder, source: Values | None = None
) -> list[LoaderState]:
    """Replace the order of records in those saved states that have a given order.

    Args:
        states: the states.
        known: the order to replace. States with another order are returned unchanged.
        now: the order that replaces it.
        source: fingerprint that replaces the source's fingerprint in the states with the order
            `known`; None to keep it.
    """
    return [
        state.with_order(0, now, source) if state.order() == known else state for state in states
    ]


def check_omitted(before: str, now: str, of_part: str = "") -> None:
    """Check that no record that the earlier run omitted is read now.

    A digest contains the number of omitted records. If more records are omitted now, the check
    passes: it cannot see whether all earlier ones are among them.

    Args:
        before: digest of the records that were omitted before; "" for none.
        now: digest of the records that are omitted now; "" for none.
        of_part: text for the message that names the part of a mix, such as " of part 'web'".

    Raises:
        CheckpointError: fewer records are omitted than before, or the same number of other records.
    """
    if before != now and _count(now) <= _count(before):
        raise CheckpointError(
            f"the state is of a run that omitted {_count(before):,} records{of_part}, but now "
            f"{_count(now):,}{' others' if _count(now) == _count(before) else ''} are omitted, so "
            "some would come back. Pass all records that were omitted before to omit=, or "
            "strict=False to set_state(…) if records may come back."
        )


def _count(digest: str) -> int:
    try:
        return int(digest.split()[0]) if digest else 0
    except ValueError:
        raise CheckpointError(
            f"the state is damaged: omitted={short_repr(digest)}. Restore another checkpoint."
        ) from None


def inside_a_window_of_growing() -> CheckpointError:
    """Return the error for a changed mix of growing sources whose state was saved inside a window.

    A window is the group of records that a `Pack`, `window_shuffle` or the like takes together.
    This shard would read on behind its window, where other shards still look for appended records.
    """
    return CheckpointError(
        "weights or parts of a mix of growing sources changed, but the checkpoint was saved inside "
        "a window of a Pack, window_shuffle or the like, or between the rows of one record. "
        'Restore a checkpoint of another step, or pass growth="hand".'
    )


def check_nothing_owed(
    states: Sequence[LoaderState], position: int, length: int, change: str
) -> None:
    """Check that all shards have read all of their records before the position of a change.

    A shard that is behind the position would need the earlier order up to the position. But the
    state has only a digest of the values that made this order (weights of records, for example).

    Args:
        states: states of all shards.
        position: position from which the order differs.
        length: number of positions of the earlier order.
        change: text that says what has changed, for the message.

    Raises:
        CheckpointError: a shard has not read all of its records before the position.
    """
    for cursor, (index, count), lineage in _reached(states):
        dense, offset = lineage.dense_from
        if cursor.positions[0] * count + index < min(
            max(dense, position - offset), lineage.length(length)
        ):
            raise CheckpointError(
                f"{change}, and the change begins at position {position:,}, but shard {index} of "
                f"{count} must still read records before this position, and the state does not "
                "contain the former values. Restore with the former values. Make the change at a "
                "checkpoint that all shards saved at the same step, and not while a Pack, "
                "window_shuffle or the like held records back."
            )


def _reached(
    states: Sequence[LoaderState],
) -> Iterator[tuple[Cursor, tuple[int, int], ReshardHistory]]:
    """Yield (cursor, shard, history of shards) for each state, and for each leftover in a state.

    A cursor is a place in the stream. A leftover is unfinished work of an earlier shard.
    """
    for state in states:
        yield state.cursor, state.shard, state.history.shards[0]
        for rest in those_within(state.cursor.unfinished):
            yield rest.cursor, rest.shard, rest.lineages[0]


def length_of(sampler: VectorSampler) -> int:
    """Return the number of positions of a sampler, for all shards together."""
    return len(sampler.with_shard_options(NoSharding()))


def check_unread(
    pipeline: Pipeline, changed: Any, states: Sequence[LoaderState], position: int
) -> None:
    """Check that no newly omitted record is still to be read before the position of the change.

    Before this position, shards that are behind still read the earlier order, which contains the
    omitted record.

    Args:
        pipeline: the current program's pipeline, before any state is applied.
        changed: the changed order.
        states: states of all shards.
        position: position of the change.

    Raises:
        CheckpointError: an omitted record is still to be read before the position; or a shard has
            so many records to read before the position that they cannot be checked.
    """
    for cursor, shard, lineage in _reached(states):
        unread = _positions_before(position, cursor, shard, lineage)
        keys = changed.record_keys(unread) if len(unread) else unread
        late = keys[changed.omits(keys)]
        if len(late):
            record = pipeline.leaf.source_facts.describe_key(int(late[0]))
            raise CheckpointError(
                f"record {record} is omitted now, but a Pack, window_shuffle or the like already "
                "holds it, or some shards have already read past it and others have not. Restore "
                "states that all shards saved at the same step, and not while a Pack, "
                "window_shuffle or the like held records back."
            )


def _positions_before(
    position: int, cursor: Cursor, shard: tuple[int, int], lineage: ReshardHistory
) -> NDArray[np.int64]:
    """Return the global positions (over all shards) before `position` that a shard has not read.

    Args:
        position: a global position.
        cursor: the shard's place in the stream.
        shard: index of the shard, and the number of shards.
        lineage: history of earlier runs on other numbers of shards.

    Raises:
        CheckpointError: the shard has over `MOST_CHECKED` such positions.
    """
    index, count = shard
    dense, offset = lineage.dense_from
    stop = max(dense, position - offset)
    first = cursor.positions[0] * count + index
    if (stop - first) // count > MOST_CHECKED:
        raise CheckpointError(
            "more records are omitted than before, but the states were saved at different steps: "
            f"the shards are {(stop - first) // count:,} records apart, more than "
            f"{MOST_CHECKED:,}. Restore states that all shards saved at the same step."
        )
    indices = np.arange(first, min(stop, lineage.length(ENDLESS)), count, dtype=np.int64)
    positions = lineage.positions(indices)
    return positions[positions < position]


def first_unread(
    pipeline: Pipeline, states: Sequence[LoaderState], leaf: int = 0, of_shard: int | None = None
) -> int:
    """Return the global position from which on no shard has read anything in a source's order.

    Global positions are counted over all shards. A shard that has begun a window (several records
    that are processed together) counts as having read the whole window.

    If `of_shard` is given, the result is the position after the last one that this shard has
    certainly read; other shards may have read later positions. A window that this shard has begun
    then counts as read only if there is a single shard, because otherwise its rows may be a
    leftover of another shard.

    Args:
        pipeline: pipeline of the run.
        states: states of the run.
        leaf: index of the source among all sources of the pipeline.
        of_shard: index of a shard; None for all shards.
    """
    lineage, shards = states[0].history.shards[leaf], states[0].shard[1]
    # what was begun, as a window of a Pack, is made as it would have been
    stage = pipeline.stage_on(leaf)
    own = slice(stage.number, stage.number + 1) if len(pipeline.leaves) > 1 else slice(None)
    unit = stage.unit if of_shard is None or shards == 1 else 0
    reached = max(
        state.cursor.positions[leaf] + unit * any(state.cursor.skips[own]) for state in states
    )
    last = shards if of_shard is None or not reached else of_shard + 1
    index = max((reached - 1) * shards + last, lineage.dense_from[0])
    return max(index + lineage.dense_from[1], *(position + 1 for position, _ in lineage.skips), 0)


def former_length(states: Sequence[LoaderState], saved: SavedOrder, former: VectorSampler) -> int:
    """Return the number of positions of an earlier run's order, on all shards together.

    The number is taken from the states if they contain it. Otherwise, for a mix, it is computed
    from `saved`. If records have weights, it is stored in `saved`. In all other cases, it is the
    length of `former`.

    Args:
        states: states of the run.
        saved: the run's order as a state describes it.
        former: the run's order as a sampler.
    """
    known = [mark for state in states if (mark := state.marks.get(0)) is not None and mark.place]
    if known:
        return known[0].length or ENDLESS
    if former.facts.parts:
        return saved_length(saved)
    drawn = saved.described.get("length") if former.weights_description else None
    return drawn if isinstance(drawn, int) else length_of(former)


def run_length(pipeline: Pipeline, state: LoaderState) -> int:
    """Return the number of positions of the order of the run that saved a state.

    It is the number for all shards together.

    Args:
        pipeline: the current program's pipeline.
        state: the state.
    """
    sampler, saved = pipeline.leaf.sampler, state.order()
    if sampler.facts.parts and saved.is_mix:
        return former_length([state], saved, sampler)
    described = {} if "epoch" in saved.described else saved.described
    records, epochs = described.get("records"), described.get("epochs", 0)
    if records is not None and (order := changing(sampler, saved, True)) is not None:
        return former_length([state], saved, order.with_history(RecordsHistory.of(saved)))
    if records is not None and epochs != 0:
        return ENDLESS if epochs is None else min(records * epochs, ENDLESS)
    length = described.get("length")
    return length if isinstance(length, int) else length_of(sampler)


def marks_of(pipeline: Pipeline, state: LoaderState) -> dict[int, Mark]:
    """Return the marks of a state: facts about orders that a later program cannot compute again.

    These facts are:

    * for a source that omits records, the place in its order from which on no shard has read
      anything. A mix that ends also has such a place if records were appended to one of its parts
    * for a mix with parts that end before the mix, the positions of these ends

    Returns:
        A dict of `Mark` objects by the index of the source among all sources of the pipeline.
        Sources without such facts are left out.
    """
    found = ((number, _mark_of(pipeline, state, number)) for number in range(len(pipeline.leaves)))
    return {number: mark for number, mark in found if mark is not None}


def _mark_of(pipeline: Pipeline, state: LoaderState, number: int) -> Mark | None:
    sampler: Any = pipeline.leaves[number].sampler
    ended = sampler.ended
    place = _place_of(pipeline, state, number)
    return (
        place._replace(ended=ended) if place is not None else Mark(ended=ended) if ended else None
    )


def _place_of(pipeline: Pipeline, state: LoaderState, number: int) -> Mark | None:
    sampler: Any = pipeline.leaves[number].sampler
    changing_parts = {
        name: part for name, part in sampler.parts.items() if part.facts.keeps_history
    }
    if not changing_parts:
        return None
    total, is_mix = length_of(sampler), bool(sampler.facts.parts)
    # Once a part has grown, the fingerprint of a mix does not tell where the mix ends.
    ends = is_mix and total < ENDLESS
    omitting = {
        name: part
        for name, part in changing_parts.items()
        if len(part.omitted) or (ends and part.changes)
    }
    if not omitting:
        return None
    lasts = {name: part.history.last.position for name, part in omitting.items()}
    position, counts = place_in(
        sampler.order if is_mix else None, first_unread(pipeline, [state], number), lasts
    )
    places = {name: part.place(counts[name]) for name, part in omitting.items()}
    return Mark(position, places, None if total >= ENDLESS else total)


def place_in(
    mix: MixOrder | None, position: int, changed: Mapping[str, int]
) -> tuple[int, dict[str, int]]:
    """Return the first position at which orders may change once more.

    No shard has read this position, and the last change of every order lies before it.

    Args:
        mix: the mix that draws from these orders, its parts; None if there is one order, of a
            single source with the name "" (`ONLY`).
        position: first position that no shard has read.
        changed: for each order, by name, the index of its first record after its last change.

    Returns:
        The position; and a dict with the number of records of each order that come before it, by
        name.
    """
    if mix is None:
        position = max(position, changed[ONLY])
        return position, {ONLY: position}
    drawn = [
        mix.position_of(mix.names.index(name), last - 1) for name, last in changed.items() if last
    ]
    position = max([position, *(place + 1 for place in drawn if place is not None)])
    counts = dict(zip(mix.names, mix.counts(position).tolist()))
    return position, {name: max(counts[name], last) for name, last in changed.items()}
