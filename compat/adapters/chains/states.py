"""Goes on where an iterator of a Grain dataset stopped.

In: the dict that Grain's iterator gave, and the tree that reads on. Out: the state of the pipeline of this tree, from which
those elements come that Grain had not delivered.

A state of Grain's is nested as the dataset is, from its end to its beginning. Maps, filters and batches have none of their own:
theirs is that of the dataset below, the index of its next element. Workers have one each; worker w of W has every W-th element
from the w-th on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ....common.fields import replaced
from ....common.messages import short_repr
from ....errors import CheckpointError
from ....loader.plan.compile import compiled, line_of
from ....loader.plan.cursor import Cursor, JoinState, cursor_of_join
from ....loader.plan.joins import Apply, Joined, Node, Read
from ....loader.plan.leaf import Leaf
from ....loader.plan.mix_rules import MixRows
from ....loader.plan.pipeline import Pipeline
from ....loader.plan.rules import Again, All, First, InTurn
from ....loader.plan.stages import runs_of, unit_of
from ....loader.plan.steps.skipped import SkippedSteps, union
from ....loader.state.loader_state import LoaderState
from ....operations import Operation
from ...grain_state import after_records
from .at_index import HasState
from .counted import Indexed

_WORKERS, _NUMBERS = "iterators_in_use_states", "iterators_in_use_indices"


def is_grains(state: Any) -> bool:
    """True for a state that Grain gave, or that of a sequential dataset; False for one of our engine."""
    return isinstance(state, dict) and "cursor" not in state and "version" not in state


def is_of_another_mix(state: LoaderState, pipeline: Pipeline) -> bool:
    """True if a state is of a mix that had other weights or datasets; as in Grain, it can be restored."""
    sampler = state.fingerprint["sampler"]
    now = pipeline.fingerprint["sampler"]
    if not isinstance(sampler, dict) or not isinstance(now, dict) or "joins" not in sampler or "joins" not in now:
        return False
    (*_, before), (*_, here) = sampler["joins"], now["joins"]
    return bool(before["kind"] == here["kind"] == "mix" and before != here)


def chain_state_after(state: dict[str, Any], tree: Node, pipeline: Pipeline) -> LoaderState:
    """The state of a pipeline that goes on from a Grain state.

    Args:
        state: what Grain's iterator gave.
        tree: of the same dataset.
        pipeline: of this tree.

    Raises:
        CheckpointError: it is no state of Grain's, or cannot be gone on with.
    """
    of_workers = _of_workers(state, tree)
    if len(of_workers) > 1:
        return _after_workers(of_workers, tree, pipeline)
    cursor = _cursor(tree, of_workers[0])
    step = pipeline.stages[0].outputs(cursor.positions[0]) if pipeline.aligned else 0
    place = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    return LoaderState(cursor, step, place, pipeline.fingerprint, tuple(leaf.lineage for leaf in pipeline.leaves))


def _of_workers(state: Any, tree: Node) -> Sequence[Any]:
    """The states of the workers; of a dataset without, its own."""
    if not isinstance(state, dict) or _WORKERS not in state:
        return [state]
    numbers, states = state.get(_NUMBERS), state[_WORKERS]
    base = _uncounted(tree)
    if isinstance(base, Read) and base.leaf.in_order and not _is_in_turn(states):
        return [state]  # of an interleave, which has the same form
    if not isinstance(states, list) or numbers != list(range(len(states))) or None in states:
        raise CheckpointError(f"Grain's state is not one of workers: {short_repr(state)}.")
    return states


def _uncounted(tree: Node) -> Node:
    """The state at the bottom of a line, below joins that only count."""
    base, _ = line_of(tree)
    return _uncounted(base.inputs[0]) if isinstance(base, Joined) and _only_counts(base) else base


def _only_counts(joined: Joined) -> bool:
    return isinstance(joined.rule, All) and not joined.rule.keeps


def _is_in_turn(states: Any) -> bool:
    return isinstance(states, list) and len(states) == 1 and isinstance(states[0], dict) and _WORKERS in states[0]


def _after_workers(of_workers: Sequence[Any], tree: Node, pipeline: Pipeline) -> LoaderState:
    """The state of the elements that workers left of a dataset with indices."""
    if pipeline.joins:
        raise _of_many(of_workers)
    reached, unit = tuple(_cursor(tree, each).positions[0] for each in of_workers), _records_of_one(tree)
    if unit == 1 or len(set(reached)) == 1:
        return after_records(reached if unit == 1 else (sum(reached),), pipeline)
    return _after_batches([-(-records // unit) for records in reached], pipeline, unit)


def _after_batches(made: Sequence[int], pipeline: Pipeline, unit: int) -> LoaderState:
    """The state after workers delivered unequal numbers of a `MapDataset`'s batches: these are skipped when read again."""
    if not pipeline.aligned or pipeline.stages[0].unit != unit:
        raise CheckpointError(
            f"Grain's workers stood at unequal places, {short_repr(list(made))}, of batches that a MapDataset made, and these "
            "are put together; save the run after a number of elements that the number of workers divides."
        )
    first = min(made) * len(made)
    delivered = sorted(
        number for worker, count in enumerate(made) for number in range(first + worker, count * len(made), len(made))
    )
    after = after_records((first * unit,), pipeline)
    steps = union(tuple((number, number + 1) for number in delivered))
    return dataclasses.replace(after, step=first, skipped=SkippedSteps(steps))


def _of_many(of_workers: Sequence[Any]) -> CheckpointError:
    return CheckpointError(
        f"Grain's state is that of {len(of_workers)} workers, each of which made a stream of its own of this dataset; only "
        "that of one worker, or of none, can be gone on with."
    )


def _records_of_one(tree: Node) -> int:
    """Records of an element of the `MapDataset` at the bottom of a line."""
    while isinstance(tree, Apply) and not isinstance(tree, Indexed):
        tree = tree.input
    return unit_of(tree.operations) if isinstance(tree, Indexed) else 1


def _cursor(tree: Node, state: Any) -> Cursor:
    """The cursor of a tree."""
    try:
        return _of_line(tree, state)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{short_repr(state)} is no state that this dataset goes on from: neither one of headrace nor one that Grain gave "
            f"for the same methods and classes, in the same order ({type(error).__name__}: {short_repr(error)})."
        ) from error


def _of_line(tree: Node, state: Any) -> Cursor:
    """The states of operations, from the last to the first, and of their input."""
    taken = None  # rows that came before, where that is told
    base, operations = line_of(tree)
    skips = [0] * len(runs_of(operations)) if operations or isinstance(base, Read) else []
    for place in reversed(range(_first_of_stream(tree), len(operations))):
        operation = operations[place]
        if isinstance(operation, HasState):
            below = operation.below(state)
            state, skips[_stage_of(place, operations)] = below.state, _count(below.given)
            taken = None if below.taken is None else below.taken * unit_of(operations[:place])
    if not (isinstance(base, Joined) and _only_counts(base)):
        state, *others = of_workers = _of_workers(state, base)
        if others:
            raise _of_many(of_workers)
    cursor = _of_leaf(base.leaf, state, tree) if isinstance(base, Read) else _of_join(base, state, taken)
    return replaced(cursor, skips=(*cursor.skips, *skips))


def _first_of_stream(tree: Node) -> int:
    """The place of the first operation of a line that is not one of a `MapDataset`."""
    while isinstance(tree, Apply) and not isinstance(tree, Indexed):
        tree = tree.input
    return len(tree.operations) if isinstance(tree, Indexed) else 0


def _stage_of(place: int, operations: Sequence[Operation]) -> int:
    """The number, in its line, of the stage that an operation belongs to."""
    return len(runs_of(operations[: place + 1])) - 1


def _of_leaf(leaf: Leaf, state: Any, tree: Node) -> Cursor:
    if leaf.in_order:
        return Cursor((0,), (), ((0, json.dumps(state)),))
    index, unit = _count(state["next_index"]), _records_of_one(tree)
    if max(index - 1, 0) * unit >= max(leaf.total, 1):
        raise CheckpointError(f"Grain's state is after the end of the stream, which has {leaf.total} records.")
    return Cursor((min(index * unit, leaf.total),), ())


def _of_join(joined: Joined, state: Any, taken: int | None) -> Cursor:
    rule, (first, *_) = joined.rule, joined.inputs
    if _only_counts(joined):
        return _of_one(first, state, (taken or 0,))
    if isinstance(rule, MixRows):
        index = _count(state["index"]) - bool(state["stop"])
        return cursor_of_join(_of_inputs(joined, state["parents"]), (index,))
    if isinstance(rule, InTurn):
        return cursor_of_join(_of_inputs(joined, state["parents"]), (taken or 0,))
    if isinstance(rule, First):
        return _of_one(first, state["parent"], (_count(state["count_elements_read"]),))
    if isinstance(rule, Again):
        return _of_one(first, state["parent"], (taken or 0, _count(state["epoch"])))
    if isinstance(rule, All):
        return _of_cache(first, state)
    raise TypeError(type(rule).__name__)


def _of_one(tree: Node, state: Any, note: JoinState) -> Cursor:
    return cursor_of_join([_of_line(tree, state)], note)


def _of_inputs(joined: Joined, states: Any) -> list[Cursor]:
    """The states of the joined datasets; an added one begins at its start."""
    named = states if isinstance(states, dict) else {str(number): each for number, each in enumerate(states)}
    return [
        _of_line(tree, named[name]) if name in named else compiled(tree).start
        for name, tree in zip(joined.names, joined.inputs)
    ]


def _of_cache(tree: Node, state: Any) -> Cursor:
    """The state of a cache: once it is filled, Grain counts the elements given from it."""
    given = _count(state["position"])
    if not state["cache_filled"]:
        return _of_one(tree, state["parent"], (given,))
    pipeline = compiled(tree)
    if not pipeline.aligned:
        raise CheckpointError(
            "Grain's state stands in a CacheIterDataset that was filled before, after a filter or several datasets, where it "
            "does not tell which records these elements came from; save the run in its first epoch, or at the beginning of "
            "another."
        )
    position = min(given * pipeline.stages[0].unit, pipeline.leaf.total)
    return cursor_of_join([replaced(pipeline.start, positions=(position,))], (given,))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value
