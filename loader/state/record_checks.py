"""Whether a run may go on with more records, or without some: facts about states, and refusals.

In: pipelines as they would go on, and states. Out: facts; a `CheckpointError` where they cannot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...errors import CheckpointError
from ...samplers import NoSharding
from ...samplers.changing.history import GENERATION, HISTORY, OMITTED, History
from ...samplers.changing.sampler import ChangingSampler
from ...samplers.mix.sampler import MixSampler
from ...samplers.protocol import ENDLESS
from ..plan.cursor import Cursor
from ..plan.fingerprint import Fingerprint
from ..plan.lineage import ReshardHistory
from ..plan.pipeline import Pipeline
from .leftover import check_sizes, those_within
from .loader_state import LoaderState

MOST_CHECKED = 1 << 22
"""Positions that are looked at, between the shard that has read least and the one that has read most."""


def changing(sampler: Any, saved: Any, counts: bool) -> ChangingSampler | None:
    """A sampler as one that changes, where it is one or the state has one; `counts` says that its source has generations."""
    if not isinstance(saved, dict):
        return None
    if isinstance(sampler, ChangingSampler):
        return sampler if counts else sampler.of_generation(History.of(saved).last.generation)
    if not {HISTORY, OMITTED, GENERATION} & saved.keys() or not hasattr(sampler, "resized"):
        return None
    return ChangingSampler(sampler, generation=History.of(saved).last.generation)


def changes_of(state: LoaderState) -> int:
    """The number of changes that the orders of a state know of: of several shards, some may have got to more than others."""
    saved: Any = state.fingerprint["sampler"]
    orders = [saved, *saved.values()] if isinstance(saved, dict) else []
    changes = [order.get(HISTORY) for order in orders if isinstance(order, dict)]
    return sum(len(each) for each in changes if isinstance(each, list))


def retold(states: Sequence[LoaderState], known: Fingerprint, now: Fingerprint) -> list[LoaderState]:
    """The states, those of one identity with another one."""
    return [dataclasses.replace(state, fingerprint=now) if state.fingerprint == known else state for state in states]


def check_omitted(before: str, now: str, whose: str = "") -> None:
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


def length_of(sampler: Any) -> int:
    """Positions of all shards together."""
    return len(sampler.with_shard_options(NoSharding()))


def check_begun(pipeline: Pipeline, states: Sequence[LoaderState], strict: bool) -> None:
    """Refuse a change within what is made of rows: its end, which is not known here, may lie in the changed order."""
    for state in states:
        if not strict:
            check_sizes(pipeline, state)
        if any(stage > 0 for stage in pipeline.begun_at(pipeline.top, state.cursor)):
            raise CheckpointError(
                "records were appended or left out since, and the state stands inside a window of a Pack or window_shuffle, or "
                "a batch that is taken apart, after a Filter or FlatMap; take the state at another step."
            )


def check_unread(
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
