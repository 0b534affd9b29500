"""States outlive releases: those that the code of version 1 wrote go on where they stood."""

import hashlib
import json
from itertools import islice
from pathlib import Path

import old_states
import pytest
from damage import sealed
from pipelines import PIPELINES, loader, plain, stream

from headrace import DataLoader, IndexSampler, NoSharding, ShardOptions
from headrace.checkpoint import from_grain_state
from headrace.errors import CheckpointError

OLD = json.loads((Path(__file__).parent.parent.parent / "states_of_version_1.json").read_text())
STREAMS = json.loads((Path(__file__).parent.parent.parent / "streams_of_version_1.json").read_text())
"""What came after the elastic ones, of each shard, as the code of then gave it: a digest."""


def test_the_states_are_of_version_1():
    """And of every pipeline that there was then."""
    texts = [state for states in OLD["alone"].values() for state in states]
    assert {json.loads(text)["version"] for text in texts} == {1}
    assert set(OLD["alone"]) <= set(PIPELINES)


@pytest.mark.parametrize("name", OLD["alone"])
@pytest.mark.one_in(5)
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
    """What three shards left at unequal steps, two had begun: they go on as they would have, and so does one after them."""
    pipeline = name.rpartition(", ")[0]
    for states, expected in zip(OLD["elastic"][name], STREAMS[name]):
        two, (one,) = old_states.shards(pipeline, 2), old_states.shards(pipeline, 1)
        found, records = [], set()
        for iterator, state in zip(two, states):
            iterator.set_state(state.encode())
            found.append([])
            for element in iterator:
                found[-1].append(plain(element))
                records.update(iterator.last_records().tolist())
        assert [hashlib.sha256(repr(elements).encode()).hexdigest()[:16] for elements in found] == expected
        if name.endswith("True"):
            continue  # which records the steps that are left out have is another matter on other shards
        one.set_states([state.encode() for state in states])
        assert {key for _ in one for key in one.last_records().tolist()} == records


def _of_grains_order(index, count, whose="sampler"):
    options = ShardOptions(index, count)
    own, loaders = (options, None) if whose == "sampler" else (NoSharding(), options)
    sampler = IndexSampler(20, own, shuffle=True, seed=5, num_epochs=1, algorithm="grain")
    return DataLoader(data_source=range(20), sampler=sampler, shard_options=loaders)


def _at(iterator, position):
    state = {**json.loads(iterator.get_state()), "cursor": [[position], [0]], "step": position}
    return sealed(state)


@pytest.mark.parametrize("whose", ["sampler", "loader"])
def test_states_at_the_end_of_shards_of_grains_order_that_were_longer_go_on(whose):
    """The first shards had one record more once: it stays read, by this shard and by those of another number."""
    iterators = [iter(_of_grains_order(index, 3, whose)) for index in range(3)]
    states = [_at(iterator, position) for iterator, position in zip(iterators, (7, 7, 5))]
    for iterator, state in zip(iterators[:2], states):
        iterator.set_state(state)
        assert (len(iterator), list(iterator)) == (7, [])
        with pytest.raises(CheckpointError, match="outside"):
            iterator.set_state(_at(iterator, 8))
    one = iter(_of_grains_order(0, 1, whose))
    one.set_states(states)
    assert list(one) == list(iterators[2])[5:]


def test_a_run_of_grains_workers_on_a_shard_that_was_longer_goes_on():
    """To its end as it was then, one record later."""
    grains = {"version": 2, "last_seen_indices": {"0": 6, "1": 3}, "worker_count": 2}
    iterator = from_grain_state(json.dumps(grains), _of_grains_order(0, 3))
    now, once = iterator.get_state(), json.loads(iterator.get_state())
    rest = list(iterator)
    once["lineages"][0][0] += 1
    iterator.set_state(sealed(once))
    assert list(iterator) == [*rest, IndexSampler(20, ShardOptions(0, 3), True, 1, 5, "grain")[18].record_key]
    iterator.set_state(now)
    assert list(iterator) == rest
