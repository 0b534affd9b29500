"""Convert a state of a Grain dataset iterator to a headrace state.

In: the dict that Grain's iterator returned, and the tree of the dataset that resumes. Out: the
state of this tree's pipeline; it continues with the first element that Grain had not delivered.

Grain's states are nested like the dataset, from its last operation to its source. Maps, filters and
batches have no state of their own; Grain saves the state of the dataset below instead, i.e. the
index of its next element. With workers there is one state per worker: worker w of W makes every
W-th element, starting with element w.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ....chains.map_dataset import MapDataset
from ....common.fields import replaced
from ....common.messages import short_repr
from ....errors import CheckpointError, StateIndexError
from ....loader import DataLoaderIterator
from ....loader.options import ExecutionOptions
from ....loader.plan.compile import compiled, line_of
from ....loader.plan.cursor import Cursor, cursor_of_join
from ....loader.plan.joins import Apply, Joined, Node, Read
from ....loader.plan.leaf import Leaf
from ....loader.plan.mix_rules import MixRows
from ....loader.plan.pipeline import Pipeline
from ....loader.plan.rules import Again, All, First, InTurn
from ....loader.plan.stages import runs_of, unit_of
from ....loader.plan.steps.skipped import SkippedSteps, union
from ....loader.state.kept import Kept
from ....loader.state.schema import LoaderState
from ....operations import Operation
from ...grain_state import after_records
from .at_index import HasGrainState, Indexed
from .flat_mapped import fan_out_of_all, rows_before

_WORKERS, _NUMBERS = "iterators_in_use_states", "iterators_in_use_indices"


def is_grains(state: Any) -> bool:
    """Return True if `state` is a dict that is no state of headrace's engine.

    Then it may be one of Grain's.
    """
    return isinstance(state, dict) and "cursor" not in state and "version" not in state


def is_of_another_mix(state: LoaderState, pipeline: Pipeline) -> bool:
    """Return True if both are mixes, and `state` is of other weights or datasets than `pipeline`.

    As in Grain, such a state can be restored.
    """
    if not state.identity.joins or not pipeline.joins:
        return False
    before, here = state.identity.joins[-1], pipeline.identity.joins[-1]
    return bool(before.get("kind") == here["kind"] == "mix" and before != here)


def chain_state_after(state: dict[str, Any], tree: Node, pipeline: Pipeline) -> LoaderState:
    """Convert a state of a Grain dataset iterator to a state of `pipeline`.

    Args:
        state: the dict that Grain's iterator returned.
        tree: the plan of the dataset that resumes.
        pipeline: the pipeline of that plan.

    Raises:
        CheckpointError: if `state` is not a state of Grain's, or does not fit the dataset.
        StateIndexError: if its index is past the end of the dataset.
    """
    of_workers = _of_workers(state, tree)
    if len(of_workers) > 1:
        return _after_workers(of_workers, tree, pipeline)
    cursor = _cursor(tree, of_workers[0])
    step = pipeline.stages[0].outputs(cursor.positions[0]) if pipeline.aligned else 0
    place = (pipeline.shard.shard_index, pipeline.shard.shard_count)
    return LoaderState(cursor, step, place, pipeline.identity, pipeline.history)


def _of_workers(state: Any, tree: Node) -> Sequence[Any]:
    """Return a list of the states of Grain's workers; without workers, a list of the one state.

    Args:
        state: Grain's state of `tree`.
        tree: the plan of a stream.

    Raises:
        CheckpointError: if the state of a worker is missing.
    """
    if not isinstance(state, dict) or _WORKERS not in state:
        return [state]
    numbers, states = state.get(_NUMBERS), state[_WORKERS]
    base = _uncounted(tree)
    if isinstance(base, Read) and base.leaf.in_order and _depth(state) <= _interleaves(tree, state):
        return [state]  # of an interleave, which has the same form
    if not isinstance(states, list) or numbers != list(range(len(states))) or None in states:
        raise CheckpointError(
            f"the state of Grain's workers cannot be read: {short_repr(state)}. Pass what Grain's "
            "get_state() returned."
        )
    return states


class OfDatasets:
    """Base of streams whose state in Grain has a state for each of their datasets.

    Attributes:
        datasets: the datasets, or a `MapDataset` of them.
    """

    datasets: Any


def _depth(state: Any) -> int:
    """Count the levels of nested worker or interleave states in `state`; 0 if it has none."""
    if not isinstance(state, dict) or _WORKERS not in state:
        return 0
    return 1 + max((_depth(each) for each in state[_WORKERS]), default=0)


def _interleaves(tree: Node, state: Any) -> int:
    """Return how deep interleaves are nested in a tree.

    At most the number of levels that `state` has.
    """
    base = _uncounted(tree)
    dataset = base.leaf.source.dataset if isinstance(base, Read) and base.leaf.in_order else None
    if not isinstance(dataset, OfDatasets) or not _depth(state):
        return 0
    datasets, inner = dataset.datasets, zip(state[_NUMBERS], state[_WORKERS])
    return 1 + max(
        (_interleaves(_tree_of(datasets[number]), each) for number, each in inner if _depth(each)),
        default=0,
    )


def _tree_of(dataset: Any) -> Node:
    stream = dataset.to_iter_dataset() if isinstance(dataset, MapDataset) else dataset
    tree: Node = stream.chain_stream.tree
    return tree


def _uncounted(tree: Node) -> Node:
    """Return the first node from the top that is no operation and no mere counter of rows."""
    base, _ = line_of(tree)
    return _uncounted(base.inputs[0]) if isinstance(base, Joined) and _only_counts(base) else base


def _only_counts(tree: Node) -> bool:
    return isinstance(tree, Joined) and isinstance(tree.rule, All) and not tree.rule.keeps


def _after_workers(of_workers: Sequence[Any], tree: Node, pipeline: Pipeline) -> LoaderState:
    """Return the state that continues after the elements that Grain's workers delivered.

    This is for a dataset whose elements have indices.

    Args:
        of_workers: the states of Grain's workers, in the order of their indices.
        tree: the plan of the dataset.
        pipeline: the pipeline of that plan.

    Raises:
        CheckpointError: if the dataset has several sources, limits or repeats; or if workers had
            made unequal numbers of batches that a later operation puts together.
    """
    if pipeline.joins:
        raise _of_many(of_workers)
    reached, unit = (
        tuple(_cursor(tree, each).positions[0] for each in of_workers),
        unit_of(_indexed_operations(tree)),
    )
    if unit == 1 or len(set(reached)) == 1:
        return after_records(reached if unit == 1 else (sum(reached),), pipeline)
    # batches; those after the first that is missing are skipped
    made = [-(-records // unit) for records in reached]
    if not pipeline.aligned or pipeline.stages[0].unit != unit:
        raise CheckpointError(
            "Grain's workers had made different numbers of batches of a MapDataset "
            f"({short_repr(made)}), and such a state cannot be combined. Save the Grain run after "
            "a number of elements that is a multiple of the number of workers."
        )
    first, count = min(made) * len(made), len(made)
    delivered = sorted(
        number
        for worker, each in enumerate(made)
        for number in range(first + worker, each * count, count)
    )
    steps = union(tuple((number, number + 1) for number in delivered))
    return dataclasses.replace(
        after_records((first * unit,), pipeline), step=first, kept=Kept(SkippedSteps(steps))
    )


def _of_many(of_workers: Sequence[Any]) -> CheckpointError:
    return CheckpointError(
        f"the state is of {len(of_workers)} Grain workers, each with its own stream of this "
        "dataset. headrace can resume from a state of one worker or none. Finish this run with "
        "Grain."
    )


def _indexed_operations(tree: Node) -> Sequence[Operation]:
    """Return the operations of a tree that belong to the `MapDataset` below its streams.

    Return nothing without one.
    """
    while isinstance(tree, Apply) and not isinstance(tree, Indexed):
        tree = tree.input
    return tree.operations if isinstance(tree, Indexed) else ()


def _cursor(tree: Node, state: Any) -> Cursor:
    """Convert Grain's state of a tree to the tree's cursor, i.e. the place at which it resumes.

    Raises:
        CheckpointError: if the state does not fit the tree.
    """
    try:
        return _of_line(tree, state)
    except StateIndexError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{short_repr(state)} cannot be restored by this dataset ({short_repr(error)}). It "
            "must be a state that headrace returned for this dataset, or that Grain returned for a "
            "dataset with the same operations in the same order. Restore it in the dataset that "
            "saved it."
        ) from error


def _of_line(tree: Node, state: Any) -> Cursor:
    """Convert Grain's state of a line of operations to a cursor (place) of the line and its input.

    Operations are treated from the last to the first.

    Raises:
        CheckpointError: if the state is one of several workers.
    """
    taken = 0  # rows that came before, where that is told
    base, operations = line_of(tree)
    skips = [0] * len(runs_of(operations)) if operations or isinstance(base, Read) else []
    for place in reversed(range(len(_indexed_operations(tree)), len(operations))):
        if isinstance(operation := operations[place], HasGrainState):
            below = operation.below(state)
            stage = len(runs_of(operations[: place + 1])) - 1
            state, skips[stage] = below.state, _count(below.given)
            taken = (below.taken or 0) * unit_of(operations[:place])
    if not _only_counts(base):
        state, *others = of_workers = _of_workers(state, base)
        if others:
            raise _of_many(of_workers)
    if not isinstance(base, Read):
        cursor = _of_join(base, state, taken)
    elif base.leaf.in_order:
        cursor = Cursor((0,), (), ((0, json.dumps(state)),))
    else:
        position, rows = _of_leaf(base.leaf, state, tree)
        cursor, skips[0] = Cursor((position,), ()), skips[0] + rows
    return replaced(cursor, skips=(*cursor.skips, *skips))


def _of_leaf(leaf: Leaf, state: Any, tree: Node) -> tuple[int, int]:
    """Return the position of the next record, and the number of its rows that were delivered.

    The second number is 0 except inside a flat map.

    Args:
        leaf: the source with its order.
        state: Grain's state of the dataset, with `next_index`.
        tree: the plan of the dataset.

    Raises:
        StateIndexError: if the index is past the end of the dataset.
    """
    below, first = _indexed_operations(tree), runs_of(line_of(tree)[1])[0]
    unit, fan_out = unit_of(below), fan_out_of_all(below)
    index, child = divmod(reached := state["next_index"], fan_out)
    if reached < 0 or max(index + bool(child) - 1, 0) * unit >= max(leaf.total, 1):
        length = -(-leaf.total // unit) * fan_out
        raise StateIndexError(
            f"Checkpoint `next_index` {reached} is out of range for dataset of length {length}. "
            "The Grain state belongs to another dataset. Restore it in the dataset that saved it."
        )
    position = min(index * unit, leaf.total)
    return position, rows_before(leaf, first, position, unit, child) if child else 0


def _of_join(joined: Joined, state: Any, taken: int) -> Cursor:
    rule, (first, *_) = joined.rule, joined.inputs
    if _only_counts(joined):
        return cursor_of_join([_of_line(first, state)], (taken,))
    if isinstance(rule, All):
        return _of_cache(first, state)
    if isinstance(rule, (First, Again)):
        note = (
            (_count(state["count_elements_read"]),)
            if isinstance(rule, First)
            else (taken, _count(state["epoch"]))
        )
        return cursor_of_join([_of_line(first, state["parent"])], note)
    if not isinstance(rule, (MixRows, InTurn)):
        raise TypeError(type(rule).__name__)
    index = _count(state["index"]) - bool(state["stop"]) if isinstance(rule, MixRows) else taken
    states = state["parents"]
    named = (
        states
        if isinstance(states, dict)
        else {str(number): each for number, each in enumerate(states)}
    )
    cursors = [  # an added dataset begins at its start
        _of_line(tree, named[name]) if name in named else compiled(tree).start
        for name, tree in zip(joined.names, joined.inputs)
    ]
    return cursor_of_join(cursors, (index,))


def _of_cache(tree: Node, state: Any) -> Cursor:
    """Convert Grain's state of a cache of `tree` to a cursor (place).

    Once Grain's cache is filled, its state only counts the elements delivered from it. Then this
    function makes these elements a second time, to find the place. CheckpointError or TypeError if
    the state is not one of a cache.
    """
    given = _count(state["position"])
    if not state["cache_filled"]:
        return cursor_of_join([_of_line(tree, state["parent"])], (given,))
    pipeline = compiled(tree)
    if pipeline.aligned:
        position = min(given * pipeline.stages[0].unit, pipeline.leaf.total)
        return cursor_of_join([replaced(pipeline.start, positions=(position,))], (given,))
    with DataLoaderIterator(pipeline, ExecutionOptions()) as again:
        for _ in range(given):
            next(again, None)
        return cursor_of_join([again.here().state.cursor], (given,))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(
            f"the state contains {value!r} in place of a number of elements, which must be a whole "
            "number of at least 0"
        )
    return value
