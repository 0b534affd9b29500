"""Convert a state of a Grain `DataLoader` to a headrace state.

In: the JSON that Grain's iterator returned, and the pipeline that resumes. Out: the state of this
pipeline; it continues with the records that Grain had not delivered.

With W workers, Grain's worker w reads every W-th record of its shard's order, starting with record
w, and makes its own batches. So its workers divide a shard as shards divide a run, and the records
they have not read form the same kind of order.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from ..common.fields import replaced
from ..common.messages import first_few, short_repr
from ..errors import CheckpointError
from ..loader.plan.cursor import Cursor
from ..loader.plan.pipeline import Pipeline
from ..loader.state.schema import LoaderState
from ..samplers import IndexSampler, SequentialSampler, ShardOptions
from ..samplers.order import UnreadOrder
from ..samplers.own_sampler import ScalarSampler
from .flat_map_counts import reached_by

VERSION = 2

_TAKEN, _WORKERS = "next_index_in_buffer", "iterators_in_use_states"
_KINDS = ("IndexSampler", "SequentialSampler")  # Grain's; their texts tell their arguments
_ARGUMENT = re.compile(
    r"(num_records|shard_index|shard_count|drop_remainder|shuffle|num_epochs|seed)=([\w.-]+)"
)


def state_after(data: bytes | str | dict[str, Any], pipeline: Pipeline) -> LoaderState:
    """Convert a state of a Grain `DataLoader` to a state of `pipeline`.

    Args:
        data: the bytes or text that Grain's `get_state()` returned, or the dict in them.
        pipeline: the pipeline that resumes.

    Raises:
        CheckpointError: `data` is not a state of a Grain `DataLoader`, or has another version; it
            is damaged, past the end of the stream, or of another sampler or shard; or the pipeline
            does not read in Grain's order. Also if Grain had several workers, and the loader has
            flat maps, operations on iterators, a random map after a batch, or a sampler of your
            own; and if a `FlatMap` follows a batch of the results of another `FlatMap` or of a
            `Filter`.
    """
    state = _parsed(data)
    if pipeline.leaf.in_order:
        return _of_records(state, pipeline)
    _check_sampler(str(state.get("sampler")), pipeline.leaf.sampler)
    if _TAKEN in state or _WORKERS in state:
        return _inside_flat_maps(state, pipeline)
    return after_records(_reached(state, pipeline.shard), pipeline)


def _of_records(state: dict[str, Any], pipeline: Pipeline) -> LoaderState:
    """Convert the state of a loader whose operations work on iterators of records.

    The operations start again at the next record.

    Raises:
        CheckpointError: if the state is one of several workers, or of another sampler.
    """
    stream = pipeline.leaf.source.dataset
    if _TAKEN in state or _WORKERS in state:
        of_workers = [_flat_mapped(each, stream.flat_maps) for each in state.get(_WORKERS, [state])]
        records, given = tuple(reached for reached, _ in of_workers), of_workers[0][1]
    else:
        _check_sampler(str(state.get("sampler")), stream.sampler)
        records, given = _reached(state, stream.shard), []
    if len(records) > 1:
        raise CheckpointError(
            f"the Grain state is of {len(records)} workers, but this pipeline can resume only a "
            "Grain state of one worker or none, because it has a sampler of your own, a random "
            "map after a batch, or an operation on iterators of records. Finish this run with "
            "Grain."
        )
    begun = json.dumps(stream.state_at(records[0], given))
    cursor = replaced(pipeline.start, notes=((0, begun), *pipeline.start.notes[1:]))
    shard = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    return LoaderState(cursor, 0, shard, pipeline.identity, pipeline.history)


def _flat_mapped(state: Any, flat_maps: int) -> tuple[int, list[int]]:
    """Return the record from which flat maps began, and the number of elements each gave since.

    Args:
        state: Grain's state of a loader with flat maps.
        flat_maps: number of flat maps.

    Raises:
        CheckpointError: if the state is damaged.
    """
    place, given = state, list[int]()
    try:
        for _ in range(flat_maps):
            given.insert(0, place[_TAKEN])
            place = place["parent"]
        reached = place["next_index"]
        if any(type(count) is not int or count < 0 for count in (reached, *given)):
            raise TypeError
    except (KeyError, TypeError):
        raise CheckpointError(
            f"the Grain state {short_repr(state)} is not of a pipeline with FlatMap {flat_maps} "
            "times, or is damaged. Pass the operations of the Grain run, or restore another "
            "checkpoint."
        ) from None
    return reached, given


def _inside_flat_maps(state: dict[str, Any], pipeline: Pipeline) -> LoaderState:
    """Convert the state of a loader with flat maps.

    Grain's state has the next record, and the number of elements that each flat map has made since.

    Raises:
        CheckpointError: if the state is damaged, is one of several workers, or a flat map comes
            after a batch.
    """
    states = state.get(_WORKERS, [state])
    flat_maps = [
        sum(operation.method == "flat_map" for operation in stage.operations)
        for stage in pipeline.stages
    ]
    if len(states) != 1 or any(flat_maps[1:]):
        raise CheckpointError(
            "the Grain state is of a DataLoader with a FlatMap. headrace can resume such a state "
            "under two conditions: Grain had at most one worker, and no FlatMap comes after a "
            "Batch of the results of a Filter or another FlatMap (with on_error= other than "
            '"raise": after any Batch). Finish this run with Grain.'
        )
    reached, given = _flat_mapped(states[0], flat_maps[0])
    after_records((reached,), pipeline)  # which looks whether there are so many
    position, rows = reached_by(pipeline, reached, given)
    after = after_records((position,), pipeline)
    return dataclasses.replace(
        after, cursor=replaced(after.cursor, skips=(rows, *after.cursor.skips[1:]))
    )


def after_records(reached: tuple[int, ...], pipeline: Pipeline) -> LoaderState:
    """Return the state of a pipeline after each of Grain's workers delivered a number of records.

    Args:
        reached: number of records delivered, for each worker.
        pipeline: a pipeline with a single source.

    Raises:
        CheckpointError: if the shard has fewer records.
    """
    shard = pipeline.shard
    total = shard.length(len(pipeline.leaf.sampler))
    if not UnreadOrder(reached, total).is_possible:
        raise CheckpointError(
            f"the Grain state is past the end of the stream, which has {total} records in this "
            "shard. If the source is the same as in the Grain run, begin the next run without this "
            "state; otherwise pass that source."
        )
    cursor = Cursor((reached[0] if len(reached) == 1 else 0,), pipeline.start.skips)
    lineage = pipeline.leaf.lineage  # which tells only of the order
    if len(reached) > 1:
        orders = (UnreadOrder(reached, total),)
        lineage = dataclasses.replace(lineage, orders=orders, within_shard=True)
    history = dataclasses.replace(pipeline.history, shards=(lineage,))
    place = (shard.shard_index, shard.shard_count)
    return LoaderState(cursor, _steps(reached, pipeline), place, pipeline.identity, history)


def _parsed(data: bytes | str | dict[str, Any]) -> dict[str, Any]:
    try:
        state = data if isinstance(data, dict) else json.loads(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"the Grain state is not JSON ({error}). Pass the bytes that its get_state() returned."
        ) from None
    if isinstance(state, dict) and (_TAKEN in state or _WORKERS in state):
        return state  # of a loader with a FlatMap: it has neither version nor sampler
    if not isinstance(state, dict) or "last_seen_indices" not in state:
        raise CheckpointError(
            f"{short_repr(state)} is not the state of a Grain DataLoader: it has no "
            "last_seen_indices. Pass what its get_state() returned."
        )
    if state.get("version") != VERSION:
        raise CheckpointError(
            f"the Grain state has version {short_repr(state.get('version'))}, but only version "
            f"{VERSION} can be read. Save the state with a Grain release that writes version "
            f"{VERSION}."
        )
    return state


def _reached(state: dict[str, Any], shard: ShardOptions) -> tuple[int, ...]:
    """Return the number of records that each of Grain's workers delivered.

    Args:
        state: Grain's state.
        shard: the shard that Grain's loader read.

    Raises:
        CheckpointError: if the state is damaged, or of another shard.
    """
    seen = state["last_seen_indices"]
    try:
        workers = max(state["worker_count"], 1)
        last = [seen[str(worker)] for worker in range(workers)]
        if not all(type(index) is int for index in last):
            raise TypeError
    except (KeyError, TypeError):
        raise CheckpointError(
            "the Grain state is damaged: "
            f"worker_count={short_repr(state.get('worker_count', 'absent'))} and "
            f"last_seen_indices={short_repr(seen)} do not fit together. Restore another checkpoint."
        ) from None
    reached = []
    for worker, index in enumerate(last):
        first, stride = shard.shard_index + worker * shard.shard_count, shard.shard_count * workers
        count, rest = divmod(index - first + stride, stride)
        if rest or count < 0:
            raise CheckpointError(
                f"the Grain state belongs to another shard: index {index} of worker {worker} is "
                f"not in shard {shard.shard_index} of {shard.shard_count}. Pass the shard_options "
                "of the Grain run to the loader."
            )
        reached.append(count)
    return tuple(reached)


def _steps(reached: tuple[int, ...], pipeline: Pipeline) -> int:
    """Return the number of batches that Grain delivered.

    Return 0 if the numbers of records do not determine it.

    Args:
        reached: number of records that each of Grain's workers delivered.
        pipeline: the pipeline that resumes.
    """
    return sum(pipeline.stages[0].outputs(count) for count in reached) if pipeline.aligned else 0


def _check_sampler(told: str, sampler: Any) -> None:
    """Check that Grain's sampler has the arguments of headrace's.

    The text of a user's own sampler is not checked.

    Args:
        told: Grain's sampler, as text.
        sampler: headrace's sampler.

    Raises:
        CheckpointError: if the samplers differ, or headrace's is not in Grain's order.
    """
    is_sequential = isinstance(sampler, SequentialSampler)
    if is_sequential or (isinstance(sampler, IndexSampler) and sampler.algorithm == "grain"):
        here = "SequentialSampler" if is_sequential else "IndexSampler"
    elif isinstance(sampler, ScalarSampler):
        here = None
    else:
        raise CheckpointError(
            "a Grain state can be restored only in Grain's order. Give the loader the sampler of "
            "the Grain run: a "
            'headrace.IndexSampler(…, algorithm="grain") or a headrace.SequentialSampler, with the '
            "same arguments."
        )
    there = next((kind for kind in _KINDS if told.startswith(f"{kind}(")), None)
    if there is None:
        return
    if there != here:
        raise CheckpointError(
            f"the Grain state belongs to another sampler, {short_repr(told)}. Pass the sampler of "
            "the Grain run."
        )
    theirs = dict(_ARGUMENT.findall(told))
    ours = {
        "num_records": sampler.num_records,
        "shuffle": sampler.shuffle,
        "num_epochs": sampler.num_epochs,
        "seed": sampler.seed,
    }
    if not is_sequential:  # whose shards are those of its loader
        shard = sampler.shard_options
        ours |= {"shard_index": shard.shard_index, "shard_count": shard.shard_count}
        if shard.shard_count > 1:
            ours["drop_remainder"] = shard.drop_remainder
    pairs = [(name, theirs.get(name, str(value)), value) for name, value in ours.items()]
    changed = [
        f"{name} {before} → {value}" for name, before, value in pairs if before != str(value)
    ]
    if changed:
        raise CheckpointError(
            f"the Grain state belongs to a sampler with other arguments: {first_few(changed)}. "
            "Pass the arguments of the Grain run."
        )
