"""Operations that run outside the engine, as random access to a `MapDataset` and planned batches
need.
"""

from __future__ import annotations

import pickle
import weakref

import pytest

from headrace import Batch, FlatMap, MapTransform
from headrace.operations.runner import Runner


class Named:
    """An element that can be watched."""


def refuse_three(number):
    """Return the next number."""
    if number == 3:
        raise ValueError("three")
    return number + 1


def test_operations_run_one_after_another():
    """The results of a call do not contain those of the call before."""
    runner = Runner((MapTransform(refuse_three), FlatMap(lambda number: [number] * 2)))
    assert runner([1, 2], 0, 0) == [2, 2, 3, 3]
    assert runner([4], 0, 0) == [5, 5]


def test_a_function_may_call_the_same_runner():
    """Each call has steps of its own."""
    runner = Runner(
        (
            MapTransform(
                lambda number: number if number < 2 else runner([number - 1], 0, 0)[0] * number
            ),
        )
    )
    assert runner([5], 0, 0) == [120]


def test_what_failed_leaves_nothing_for_the_next_call():
    """Also of a batch that was begun."""
    runner = Runner((MapTransform(refuse_three), Batch(2)))
    with pytest.raises(ValueError, match="three"):
        runner([1, 3], 0, 0)
    assert [batch.tolist() for batch in runner([5, 6], 0, 0)] == [[6, 7]]


def test_a_failure_is_named_if_a_key_is_given():
    """With the number of the operation; else there is no note."""
    runner = Runner((MapTransform(abs), MapTransform(refuse_three)))
    with pytest.raises(ValueError, match="three") as caught:
        runner([3], 0, 0, key=7)
    assert (
        "operation 1, MapTransform(refuse_three), failed on record key 7."
        in caught.value.__notes__[0]
    )
    with pytest.raises(ValueError, match="three") as caught:
        runner([3], 0, 0)
    assert not hasattr(caught.value, "__notes__")


def test_a_runner_that_was_used_can_be_pickled():
    """Its connected steps stay behind."""
    runner = Runner((MapTransform(refuse_three), Batch(1)))
    runner([1], 0, 0)
    assert [batch.tolist() for batch in pickle.loads(pickle.dumps(runner))([5], 0, 0)] == [[6]]


def test_elements_are_freed_with_their_last_reference():
    """The runner keeps none, and is in no reference cycle."""
    runner, element = Runner((MapTransform(lambda element: element),)), Named()
    found = runner([element], 0, 0)
    gone, gone_runner = weakref.ref(element), weakref.ref(runner)
    del element, found
    assert gone() is None
    del runner
    assert gone_runner() is None
