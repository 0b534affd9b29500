"""Goes on where an iterator of a Grain dataset stopped.

In: the dict that Grain's iterator gave, and the pipeline that reads on. Out: the state of this pipeline, from which those
elements come that Grain had not delivered.

Maps, filters and batches have no state of their own in Grain: theirs is that of the dataset below, the index of its next
element. Workers have one each; worker w of W has every W-th element from the w-th on. What counts elements adds its count.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import CheckpointError
from ..loader.plan.pipeline import Pipeline
from ..loader.state.loader_state import LoaderState
from ..wording import shown
from .grain_state import after_records

_INDEX, _WORKERS, _NUMBERS = "next_index", "iterators_in_use_states", "iterators_in_use_indices"
_COUNTS = {"index_for_rng", "counter"}


def is_grains(state: Any) -> bool:
    """Whether this is a state that Grain gave, or one of a dataset that is run through, and not one of our engine."""
    return isinstance(state, dict) and "cursor" not in state and "version" not in state


def chain_state_after(state: dict[str, Any], pipeline: Pipeline, unit: int) -> LoaderState:
    """The state of a pipeline that goes on from a Grain state.

    Args:
        state: what Grain's iterator gave.
        pipeline: of the same dataset.
        unit: records of an element that an index counts.

    Raises:
        CheckpointError: it is no state of Grain's, or cannot be gone on with.
    """
    of_workers = _of_workers(state)
    if len(pipeline.leaves) == 1 and pipeline.leaf.in_order:
        return _run_through(of_workers, pipeline)
    reached = tuple(_next_index(each) for each in of_workers)
    if unit > 1 and len(reached) > 1:
        if len(set(reached)) > 1:
            raise CheckpointError(
                f"Grain's workers stood at unequal places, {shown(reached)}, of batches that a MapDataset made; save the run "
                "after a number of elements that the number of workers divides."
            )
        reached = (sum(reached),)
    return after_records(tuple(count * unit for count in reached), pipeline)


def _of_workers(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The states of the workers; of a dataset without, its own."""
    if _WORKERS not in state:
        return [state]
    numbers, states = state.get(_NUMBERS), state[_WORKERS]
    if not isinstance(states, list) or numbers != list(range(len(states))) or None in states:
        raise CheckpointError(f"Grain's state is not one of workers: {shown(state)}.")
    return states


def _next_index(state: Any) -> int:
    """The index of the next element below maps, filters and batches."""
    while isinstance(state, dict) and "parent" in state and set(state) - {"parent"} <= _COUNTS:
        state = state["parent"]
    index = state.get(_INDEX) if isinstance(state, dict) else None
    if type(index) is not int or index < 0:
        raise CheckpointError(
            f"{shown(state)} is no state that this dataset goes on from: neither one of millrace nor one of Grain's for "
            "maps, filters and batches of a MapDataset."
        )
    return index


def _run_through(of_workers: list[dict[str, Any]], pipeline: Pipeline) -> LoaderState:
    """That of a dataset that is run through, whose iterators read Grain's states themselves."""
    if len(of_workers) > 1:
        raise CheckpointError(
            f"Grain's state is that of {len(of_workers)} workers, each of which made a stream of its own of this dataset; only "
            "that of one worker, or of none, can be gone on with."
        )
    shard = pipeline.shard
    cursor = pipeline.start._replace(notes=((0, json.dumps(of_workers[0])),))
    place = (shard.shard_index, shard.shard_count)
    return LoaderState(cursor, 0, place, pipeline.fingerprint, (pipeline.leaf.lineage,))
