"""Check that a run may resume with more records, with omitted records, or with another mix.

In: pipelines in the form to resume, and states. Out: facts; a `CheckpointError` if the run cannot
resume.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...errors import CheckpointError
from ...samplers import NoSharding, ShardOptions
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, History
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.mix.ends import saved_length
from ...samplers.mix.sampler import MixSampler
from ...samplers.protocol import ENDLESS
from ..plan.cursor import Cursor, those_within
from ..plan.fingerprint import Fingerprint
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from .loader_state import LoaderState

MOST_CHECKED = 1 << 22
"""Largest number of positions that are checked for one shard; if shards are further apart, resuming fails."""


def changing(sampler: Any, saved: Any, counts: bool) -> ChangingSampler | None:
    """Return a sampler as a `ChangingSampler` if it is one, or if the state's sampler was one; else None.

    Args:
        sampler: the present sampler.
        saved: fingerprint of the state's sampler.
        counts: True if the sampler's source has generations (versions of the source's files).
    """
    if not isinstance(saved, dict):
        return None
    if isinstance(sampler, ChangingSampler):
        return sampler if counts else sampler.of_generation(History.of(saved).last.generation)
    if not {HISTORY, OMITTED, GENERATION} & saved.keys() or not hasattr(sampler, "resized"):
        return None
    return ChangingSampler(sampler, generation=History.of(saved).last.generation)


def changes_of(state: LoaderState) -> int:
    """Return a number that tells how far the orders of a state have changed: a larger one has more changes.

    It is the number of changes plus the numbers of the generations (versions of the source's files)
    at the beginning. Shards of a run may have noticed different numbers of changes, but in the same
    order.
    """
    saved: Any = state.fingerprint["sampler"]
    orders = [order for order in (saved, *saved.values()) if isinstance(order, dict)] if isinstance(saved, dict) else []
    changes = [order.get(HISTORY) for order in orders]
    begins = [order.get(GENERATION) for order in orders]
    return sum(len(each) for each in changes if isinstance(each, list)) + sum(n for n in begins if isinstance(n, int))


def comes_before(until: History, history: History) -> bool:
    """Return True if the history `until` is the beginning of `history`, or the same.

    Records that are appended before the first record is read are no change: the order then begins
    with a later generation (a version of the source's files).
    """
    if until.changes or until.generation == history.generation:
        return until == history.first(len(until.changes))
    same = (until.omitted, until.generation < history.generation, until.records <= history.records)
    return same == (history.omitted, True, True)


def retold(states: Sequence[LoaderState], known: Fingerprint, now: Fingerprint) -> list[LoaderState]:
    """Return the states; each with the fingerprint `known` gets the fingerprint `now`."""
    return [dataclasses.replace(state, fingerprint=now) if state.fingerprint == known else state for state in states]


def check_omitted(before: str, now: str, whose: str = "") -> None:
    """Check that not fewer records are omitted than before, which may mean that a program forgot some.

    `before` and `now` are digests of the omitted records, which contain their number; `whose` is
    text about the part of a mix for the message.

    Raises:
        CheckpointError: fewer, or the same number of other records, are omitted.
    """
    if before != now and _count(now) <= _count(before):
        raise CheckpointError(
            f"the state is of a run that omitted {_count(before):,} records{whose}, but now {_count(now):,} "
            f"are omitted{', others' if _count(now) == _count(before) else ''}, so some would come back. Pass "
            "omit= with all of them, or strict=False if you want this."
        )


def _count(digest: str) -> int:
    try:
        return int(digest.split()[0]) if digest else 0
    except ValueError:
        raise CheckpointError(
            f"the state is damaged: omitted={short_repr(digest)}. Restore another checkpoint."
        ) from None


class OneShardError(CheckpointError):
    """Raised if the state of one shard does not tell from which position all shards may use a changed order."""


def check_all_shards(states: Sequence[LoaderState], change: str) -> None:
    """Check that the states of all shards are there, as the order has changed and shards may be at different steps.

    `change` is text about the change, for the message.

    Raises:
        OneShardError: there are fewer states than the run had shards.
    """
    shards = states[0].shard[1]
    if len(states) < shards:
        raise OneShardError(
            f"{change} since the state was saved, and {len(states)} states of {shards} shards do not say at "
            "which steps the other shards were, so records could come twice or never. Pass set_states the "
            "states of all shards. If all were at the same step, pass set_states([state], equal_steps=True)."
        )


def check_nothing_owed(states: Sequence[LoaderState], position: int, length: int, change: str) -> None:
    """Check that no records before a change are still to be read, as a state does not keep their former order.

    Args:
        states: states of all shards.
        position: position from which the order differs.
        length: number of positions of the former order.
        change: description of the change.

    Raises:
        CheckpointError: a shard has not read all of its records before the position.
    """
    for state in states:
        places = [(state.cursor, state.shard, state.lineages[0])]
        places += [(rest.cursor, rest.shard, rest.lineages[0]) for rest in those_within(state.cursor.unfinished)]
        for cursor, (index, count), lineage in places:
            dense, offset = lineage.dense_from
            if cursor.positions[0] * count + index < min(max(dense, position - offset), lineage.length(length)):
                raise CheckpointError(
                    f"{change}, and shard {index} of {count} must still read records before position {position:,}, "
                    "where the change begins, but a state has only a digest of the former values. Restore with the "
                    "former values, and save states when all shards are at the same step, between two windows."
                )


def length_of(sampler: Any) -> int:
    """Return the number of positions of a sampler on all shards together."""
    return len(sampler.with_shard_options(NoSharding()))


def check_unread(
    pipeline: Pipeline, changed: ChangingSampler | MixSampler, states: Sequence[LoaderState], position: int
) -> None:
    """Check that all records before the position of a change that are omitted now have been read already.

    Args:
        pipeline: pipeline as its loader made it.
        changed: the changed order.
        states: states of all shards.
        position: position of the change.

    Raises:
        CheckpointError: an omitted record is still to be read before the position; or shards are
            too far apart to check that.
    """
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
                    f"record {record} is omitted now, but it is in a window that was begun before the checkpoint, or "
                    "some shards have read it and others not. Restore states that all shards saved at the same step, "
                    "between two windows."
                )


def _positions_before(
    position: int, cursor: Cursor, shard: tuple[int, int], lineage: ReshardHistory
) -> NDArray[np.int64]:
    """Return the global positions before `position` that a shard has not read yet.

    Args:
        position: a global position.
        cursor: place of the shard.
        shard: index of the shard, and the number of shards.
        lineage: history of former runs on other numbers of shards.

    Raises:
        CheckpointError: the shard has over `MOST_CHECKED` such positions.
    """
    index, count = shard
    dense, offset = lineage.dense_from
    stop = max(dense, position - offset)
    first = cursor.positions[0] * count + index
    if (stop - first) // count > MOST_CHECKED:
        raise CheckpointError(
            "more records are omitted than before, but the states of the shards are "
            f"{(stop - first) // count:,} records apart. Restore states that all shards saved at the same "
            "step."
        )
    indices = np.arange(first, min(stop, lineage.length(ENDLESS)), count, dtype=np.int64)
    positions = lineage.positions(indices)
    return positions[positions < position]


def first_unread(pipeline: Pipeline, states: Sequence[LoaderState], leaf: int = 0, of_shard: int | None = None) -> int:
    """Return a position of a leaf from which on no shard has read anything.

    With `of_shard`, it is the position after the last one that this shard has read; another shard
    may have read later positions.

    A leaf is a source with its sampler.

    Args:
        pipeline: pipeline of the run.
        states: states of the run.
        leaf: number of the leaf.
        of_shard: index of a shard; None for all shards.
    """
    lineage, shards = states[0].lineages[leaf], states[0].shard[1]
    stage = pipeline.stage_on(leaf)  # what was begun, as a window of a Pack, is made as it would have been
    own = slice(stage.number, stage.number + 1) if len(pipeline.leaves) > 1 else slice(None)
    reached = max(state.cursor.positions[leaf] + stage.unit * any(state.cursor.skips[own]) for state in states)
    last = shards if of_shard is None or not reached else of_shard + 1
    index = max((reached - 1) * shards + last, lineage.dense_from[0])
    return max(index + lineage.dense_from[1], *(position + 1 for position, _ in lineage.skips), 0)


def former_length(states: Sequence[LoaderState], saved: Mapping[str, Any]) -> int:
    """Return the number of positions of a mix in a run, from its states or else from `saved`, the mix's fingerprint."""
    told = [state.places[0] for state in states if state.places]
    return saved_length(saved) if not told else told[0].length or ENDLESS


def check_last_windows(pipeline: Pipeline, states: Sequence[LoaderState], former: int, now: int) -> None:
    """Check that the window in which a state is does not change with the number of positions of the order.

    The end of the former order may have made that window shorter.

    Args:
        pipeline: pipeline as its loader made it.
        states: states of the run.
        former: number of positions of the former order.
        now: number of positions of the present order.

    Raises:
        CheckpointError: the window would have other records.
    """
    unit, drop = pipeline.stage_on(0).unit, pipeline.shard.drop_remainder
    for state in states if former != now else ():
        begun = [(state.shard, state.lineages[0], state.cursor.positions[0] + unit * any(state.cursor.skips))]
        rests = those_within(state.cursor.unfinished)
        begun += [(rest.shard, rest.lineages[0], rest.cursor.positions[0] + unit) for rest in rests]
        for shard, lineage, end in begun:
            if end > ShardOptions(*shard, drop).length(lineage.length(former)):
                raise CheckpointError(
                    f"the checkpoint was saved inside the last window of a mix of {former} positions. That window was "
                    f"shorter than the others, and would contain other records in the new mix of {now} positions. "
                    "Read the former mix to its end, and begin the new one without the state. Or restore a "
                    "checkpoint of another step."
                )
