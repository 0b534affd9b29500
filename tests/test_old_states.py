"""States outlive releases: those that the code of version 1 wrote go on where they stood."""

import json
from itertools import islice
from pathlib import Path

import old_states
import pytest
from pipelines import PIPELINES, loader, stream

OLD = json.loads(Path(__file__).with_name("states_of_version_1.json").read_text())


def test_the_states_are_of_version_1():
    """And of every pipeline."""
    texts = [state for states in OLD["alone"].values() for state in states]
    assert {json.loads(text)["version"] for text in texts} == {1}
    assert set(OLD["alone"]) == set(PIPELINES)


@pytest.mark.parametrize("name", OLD["alone"])
def test_a_state_of_version_1_goes_on_where_it_stood(name):
    """At the start, and in the middle of a run, of batches, and of what a flat map makes."""
    for step, state in zip(old_states.STEPS, OLD["alone"][name]):
        iterator, whole = iter(loader(name)), iter(loader(name))
        iterator.set_state(state.encode())
        assert stream(iterator) == stream(islice(whole, step, None))


@pytest.mark.parametrize("name", OLD["skipping"])
def test_steps_that_a_state_of_version_1_leaves_out_stay_left_out(name):
    """Although the loader that goes on was not told."""
    iterator, whole = iter(loader(name)), iter(loader(name).skip([(2, 4)]))
    iterator.set_state(OLD["skipping"][name][0].encode())
    assert stream(iterator) == stream(islice(whole, 1, None))


@pytest.mark.parametrize("name", OLD["elastic"])
def test_states_of_version_1_of_a_run_on_other_shards_before_go_on(name):
    """What three shards left at unequal steps, two had begun: they go on, and so does a single one after them."""
    pipeline, _, leave_out = name.rpartition(", ")
    for step, states in zip((0, 2), OLD["elastic"][name]):
        now = old_states.resharded(pipeline, leave_out == "True")
        states_now = old_states.states_at(now, [step, step])
        expected = [stream(iterator) for iterator in now]
        again = old_states.shards(pipeline, 2)
        for iterator, state in zip(again, states):
            iterator.set_state(state.encode())
        assert [stream(iterator) for iterator in again] == expected
        ends = []
        for given in (states, states_now):
            (one,) = old_states.shards(pipeline, 1)
            one.set_states([state.encode() for state in given])
            ends.append(stream(one))
        assert ends[0] == ends[1]
