"""The values that a run keeps in its states besides its place: each field goes through all that a
state goes through.
"""

import dataclasses
import json

import pytest

from headrace import load
from headrace.loader.plan.steps.skipped import SkippedSteps
from headrace.loader.state.kept import Kept
from headrace.loader.state.schema import LoaderState

EXAMPLES = {"skipped": SkippedSteps(((3, 5), (9, 10)), ((3, 5),)), "extra": '{"tokens":512}'}
"""A value of each field that is not the default."""

FIELDS = [each.name for each in dataclasses.fields(Kept)]


def example(name):
    """What a run keeps, with the example of a value."""
    return Kept(**{name: EXAMPLES[name]})


def empty_state():
    """The state at the beginning of a run."""
    return LoaderState.from_json(iter(load(range(8), batch_size=2)).get_state())


@pytest.mark.parametrize("name", FIELDS)
def test_each_value_that_a_run_keeps_is_read_back_from_its_state(name):
    """It has an entry of its name in the state, at the place that the checksum needs; a default
    value has none.
    """
    state = dataclasses.replace(empty_state(), kept=example(name))
    assert LoaderState.from_json(state.to_json()) == state
    assert LoaderState.from_dict(state.to_dict()) == state
    assert name in state.to_dict()
    assert name not in empty_state().to_dict()


@pytest.mark.parametrize("name", FIELDS)
def test_each_value_that_a_run_keeps_goes_to_another_number_of_shards(name):
    """If all shards have the same value, the new shards have it, too."""
    assert Kept.of_shards([example(name)] * 3) == example(name)


@pytest.mark.parametrize("name", FIELDS)
def test_tools_tell_each_value_that_a_run_keeps(name):
    """The words and the JSON of a value differ from those of the default value."""
    told, default = example(name).told, Kept().told
    assert told.keys() == default.keys()
    (changed,) = [label for label in told if told[label] != default[label]]
    assert told[changed][0] != default[changed][0]
    assert json.loads(json.dumps(told[changed][1])) == told[changed][1] != default[changed][1]


def test_the_entries_of_a_state_are_sorted_by_name():
    """The checksum comes first. It was computed from the text whose names are sorted."""
    kept = Kept(**EXAMPLES)
    checksum, *names = dataclasses.replace(empty_state(), kept=kept).to_dict()
    assert checksum == "checksum"
    assert names == sorted(names)
    assert {*FIELDS} <= {*names}


def test_the_next_epoch_keeps_what_the_run_keeps():
    """The state at the beginning of an epoch has the values of the state in the epoch before."""
    epochs = load(range(8), batch_size=2, shuffle=False).epochs(3)
    next(epochs)
    state = dataclasses.replace(LoaderState.from_json(epochs.get_state()), kept=Kept(**EXAMPLES))
    epochs.set_state(state.to_json())
    for number in range(2):
        list(next(epochs))
        after = LoaderState.from_json(epochs.get_state())
        assert after.identity.order["epoch"] == number + 1
        assert after.kept == state.kept


def test_a_step_begins_where_the_absorbed_steps_before_it_leave_it():
    """Absorbed steps have no positions, before the known step and after it."""
    skipped = SkippedSteps(((2, 4), (6, 8), (9, 10)), ((2, 4), (6, 8)))
    assert [skipped.position_of(step, (10, 5), unit=3) for step in (5, 8, 9)] == [10, 13, 16]
    assert skipped.positions((10, 5), unit=3) == ((16, 19),)
