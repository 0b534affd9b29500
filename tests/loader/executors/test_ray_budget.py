"""How many rows go into one object, and how many tasks are under way, beside object stores of any
size. Without Ray.
"""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support.pipelines import chosen, loader, stream

from headrace import IterDataset, MapDataset
from headrace.loader.executors.local import InlineExecutor
from headrace.loader.executors.stored_rows import (
    OBJECT_SHARE,
    STORE_SHARE,
    Budget,
    RowsWithTask,
)

MB = 1 << 20


def _budget(*stores, stages=1):
    budget = Budget(stages)
    for number, size in enumerate(stores):
        budget.set_store(f"node {number}", size)
    return budget


def test_a_task_begins_with_one_unit():
    """Nothing is known of its rows yet, in any stage."""
    budget = _budget(1000 * MB)
    assert (budget.most_inputs(0), budget.most_rows()) == (1, 1)
    budget.note(0, 1, 1, 100)
    assert budget.most_inputs(1) == 1


def test_a_task_has_as_many_inputs_as_are_small_beside_the_smallest_store():
    """Whatever of their rows a filter left; heavy ones go alone."""
    budget = _budget(1000 * MB, 160 * MB)
    budget.note(0, 10, 5, 20 * MB)
    assert budget.most_inputs(0) == 160 * OBJECT_SHARE / 2
    assert budget.most_rows() == 160 * OBJECT_SHARE / 4
    budget.note(0, 1, 1, 100 * MB)
    assert (budget.most_inputs(0), budget.most_rows()) == (1, 1)


def test_heavy_rows_are_remembered_for_a_while():
    """A light task after a heavy one is followed by small ones; many are not."""
    budget = _budget(160 * MB)
    budget.note(0, 1, 1, 20 * MB)
    budget.note(0, 1, 1, 100)
    assert budget.most_inputs(0) == 1
    for _ in range(100):
        budget.note(0, 1, 1, 100)
    assert budget.most_inputs(0) > 1000
    assert budget.most_rows() > 1000


def test_the_weight_of_an_input_falls_by_an_eighth_of_the_difference():
    """After 8 MB and then 4 MB, it is 7.5 MB."""
    budget = _budget(600 * MB)
    for size in (8 * MB, 4 * MB):
        budget.note(0, 1, 1, size)
    assert budget.most_inputs(0) == 600 * OBJECT_SHARE / 7.5


def test_tasks_under_way_have_room_in_the_stores_together():
    """Of all stages; at least one is."""
    budget = _budget(100 * MB, 200 * MB, stages=2)
    assert budget.most_tasks(0, 1) == sys.maxsize
    budget.note(0, 1, 1, 10 * MB)
    assert budget.most_tasks(0, 1) == 2 * 100 * STORE_SHARE / 2 / 10
    budget.set_store("node 0", 0)
    assert budget.most_tasks(0, 1) == 200 * STORE_SHARE / 2 / 10
    budget.note(0, 1, 1, 1000 * MB)
    assert budget.most_tasks(0, 1) == 1


def test_tasks_that_grow_have_room_before_the_first_of_them_is_done():
    """A hundred small tasks that are under way must not be followed by a hundred large ones."""
    budget = _budget(100 * MB)
    budget.note(0, 1, 1, MB)
    assert [budget.most_tasks(0, inputs) for inputs in (1, 2, 10, 1000)] == [50, 25, 5, 1]


def test_rows_without_bytes_and_stores_without_a_size_bound_nothing():
    """As where Ray does not tell the size of a store."""
    budget = _budget(0)
    budget.note(0, 1, 0, 0)
    assert (budget.most_inputs(0), budget.most_tasks(0, 1)) == (sys.maxsize, sys.maxsize)
    budget.note(0, 1, 1, 100)
    assert (budget.most_inputs(0), budget.most_tasks(0, 1)) == (sys.maxsize, sys.maxsize)


@pytest.fixture
def bounded(monkeypatch):
    """Executors that want tasks of another size each time, and few at a time."""
    chance = random.Random(7)

    def inputs(self, stage):
        limits = self._pace._limits[stage]
        return min(chance.choice([1, 1, 2, 5, 40]) * limits.least, limits.task)

    monkeypatch.setattr(InlineExecutor, "inputs", inputs)
    monkeypatch.setattr(InlineExecutor, "most_rows", lambda *_: chance.choice([1, 1, 2, 5, 40]))
    monkeypatch.setattr(InlineExecutor, "window", lambda *_: chance.choice([1, 2, 3]))


def _mix(filtered=False):
    parts = [
        MapDataset.range(at, at + 40)
        .to_iter_dataset()
        .filter(lambda x: x % 3)
        .map(lambda x: np.full(3, x))
        for at in (0, 100)
    ]
    mixed = IterDataset.mix(parts, [2, 1]).map(lambda row: row + 1)
    mixed = mixed.random_map(lambda row, rng: row + rng.integers(9), seed=5)
    return mixed.filter(lambda row: row[0] % 2) if filtered else mixed.batch(4)


CASES = {
    "records": lambda: loader("single records"),
    "random": lambda: loader("random"),
    "flat map twice": lambda: loader("flat map twice"),
    "filter, pack, batch, flat map": lambda: loader("filter, pack, batch, flat map"),
    "mix, batch": _mix,
    "mix, filter": lambda: _mix(True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_stream_does_not_depend_on_how_large_tasks_are(name, bounded):
    """Nor on how many there are at a time."""
    found = stream(CASES[name]())
    assert found == _unbounded(name)


def _unbounded(name):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            InlineExecutor, "inputs", lambda self, stage: self._pace._limits[stage].task
        )
        patched.setattr(InlineExecutor, "window", lambda *_: 1)
        return stream(CASES[name]())


@pytest.mark.parametrize("name", chosen(list(CASES), "random", "mix, batch", "mix, filter"))
def test_a_state_goes_on_with_tasks_of_any_size(name, bounded):
    """That of every step, between runs whose tasks are of other sizes."""
    expected = _unbounded(name)
    iterator = iter(CASES[name]())
    for step in range(0, len(expected) + 1, 3):
        other = iter(CASES[name]())
        other.set_state(iterator.get_state())
        assert stream(other) == expected[step:]
        for _ in range(3):
            next(iterator, None)


def test_rows_that_are_not_there_yet_are_loaded_again_without_a_wait():
    """They are not lost, so that no event has to come."""
    answers, waits = [None, [1, 2]], []
    rows = SimpleNamespace(lost=False, load=lambda: answers.pop(0))
    executor = SimpleNamespace(handle_events=lambda wait: waits.append(wait))
    assert RowsWithTask(SimpleNamespace(executor=executor), rows).load() == [1, 2]
    assert waits == [False]
