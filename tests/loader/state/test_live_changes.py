"""The weights of a mix change while its run goes on; a schedule that says so from the start is the
oracle.
"""

import json
from itertools import islice

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import sealed
from support.growing_source import GrowingKeys, append
from support.pipelines import tries

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, MapDataset, MixSampler, ShardOptions
from headrace.errors import CheckpointError

PARTS = {"a": np.arange(40), "b": np.arange(100, 125), "c": np.arange(200, 203)}
NUMBERS = st.fixed_dictionaries({name: st.integers(0, 5) for name in PARTS}).filter(
    lambda weights: any(weights.values())
)


def _loader(weights, shard=(0, 1), batch=2, when="repeat", worker_count=0):
    sampler = MixSampler(PARTS, weights, shuffle=True, seed=7, when_exhausted=when)
    operations = [Batch(batch)]
    return DataLoader(
        data_source=PARTS,
        sampler=sampler.with_shard_options(ShardOptions(*shard)),
        operations=operations,
        worker_count=worker_count,
    )


def _values(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def _refusal(call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    assert len(str(caught.value)) < 500
    return str(caught.value)


def _changed(iterators, weights, step):
    """All shards make the call. True if the stream has not ended before the step."""
    try:
        for iterator in iterators:
            iterator.change(weights=weights, at_step=step)
    except ValueError as error:
        if "after the end" not in str(error):
            raise
        return False
    return True


@tries(60)
@given(data=st.data(), when=st.sampled_from(["repeat", "all", "first"]))
def test_a_change_is_the_stream_of_a_schedule_that_says_so(data, when):
    """Killed at any steps, resumed on any shards, by programs that describe the former or the
    latest weights.
    """
    described = schedule = [
        (0, data.draw(NUMBERS)),
        *([(13, data.draw(NUMBERS))] if data.draw(st.booleans()) else []),
    ]
    latest, shards, states, seen = described, 1, None, []
    for _ in range(data.draw(st.integers(1, 4))):
        program = data.draw(st.sampled_from([described, latest]))
        iterators = [
            iter(_loader(program, (shard, shards), 6 // shards, when)) for shard in range(shards)
        ]
        for iterator in iterators if states else ():
            iterator.set_states(states)
        if data.draw(st.booleans()):
            weights, step = data.draw(NUMBERS), iterators[0].step + data.draw(st.integers(0, 3))
            if _changed(iterators, weights, step):
                latest = weights
                schedule = [
                    *(stage for stage in schedule if stage[0] < step * 6),
                    (step * 6, weights),
                ]
        count = data.draw(st.integers(0, 4))
        taken = [_values(islice(iterator, count)) for iterator in iterators]
        whole = all(len(batch) == 6 // shards for batches in taken for batch in batches)
        if not whole or any(len(batches) < count for batches in taken):
            break
        for level in zip(*taken):
            seen += np.array(level).T.ravel().tolist()
        states = [iterator.get_state() for iterator in iterators]
        shards = data.draw(st.sampled_from([1, 2, 3]))
    expected = islice(_loader(schedule, when=when, batch=1), len(seen))
    assert seen == [key for batch in _values(expected) for key in batch]


@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_what_was_prefetched_is_dropped(worker_count):
    """So the change holds from its step on, whatever the workers had made."""
    with iter(_loader({"a": 1, "b": 0, "c": 0}, worker_count=worker_count)) as iterator:
        next(iterator)
        iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=3)
        rest = _values(islice(iterator, 4))
    assert [min(batch) >= 100 for batch in rest] == [False, False, True, True]


def test_a_change_for_an_earlier_step_replaces_one_for_a_later_step():
    """The weights of the last call hold from its step on."""
    iterator = iter(_loader({"a": 1, "b": 0, "c": 0}))
    iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=4)
    iterator.change(weights={"a": 0, "b": 0, "c": 1}, at_step=2)
    assert [min(batch) // 100 for batch in _values(islice(iterator, 6))] == [0, 0, 2, 2, 2, 2]


@pytest.mark.parametrize("by_feeder", [False, True])
@pytest.mark.parametrize("shard", [(0, 1), (1, 2)])
def test_weights_begin_at_their_step_after_batch_sizes_that_are_to_come(shard, by_feeder):
    """Whatever the order of the calls of the batch sizes, and also if one of them was made."""
    loader = _loader({"a": 1, "b": 0, "c": 0}, shard)
    iterator = iter(loader.to_device(jax.devices()[0]) if by_feeder else loader)
    with iterator:
        iterator.change(batch_size=5, at_step=13)
        iterator.change(batch_size=3, at_step=10)
        iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=15)
        batches = _values(islice(iterator, 11))
        iterator.change(weights={"a": 0, "b": 0, "c": 1}, at_step=21)
        batches += _values(islice(iterator, 12))
    assert [len(batch) for batch in batches] == [2] * 10 + [3] * 3 + [5] * 10
    parts = [{value // 100 for value in batch} for batch in batches]
    assert parts == [{0}] * 15 + [{1}] * 6 + [{2}] * 2


def test_a_batch_size_that_would_move_the_step_of_coming_weights_is_refused():
    """It may change where the weights begin, or later; or before the call that sets the weights."""
    iterator = iter(_loader({"a": 1, "b": 0, "c": 0}))
    iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=6)
    assert "at_step=2 is before step 6, at which new weights of the mix begin" in _refusal(
        lambda: iterator.change(batch_size=4, at_step=2)
    )
    iterator.change(batch_size=4, at_step=6)
    batches = _values(islice(iterator, 8))
    assert [(len(batch), max(batch) // 100) for batch in batches] == [(2, 0)] * 6 + [(4, 1)] * 2


def test_a_state_with_coming_weights_and_without_the_batch_size_before_them_gets_both():
    """The program makes the call for the batch size again, as the state does not contain it."""
    iterator, again = (iter(_loader({"a": 1, "b": 0, "c": 0})) for _ in range(2))
    iterator.change(batch_size=4, at_step=2)
    iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=6)
    next(iterator)
    again.set_state(iterator.get_state())
    again.change(batch_size=4, at_step=2)
    rest = _values(islice(again, 7))
    assert rest == _values(islice(iterator, 7))
    assert [(len(batch), min(batch) // 100) for batch in rest] == (
        [(2, 0)] + [(4, 0)] * 4 + [(4, 1)] * 2
    )


def test_the_last_records_are_told_after_a_change():
    """Those of the batch before the change, until the next batch."""
    iterator = iter(_loader({"a": 1, "b": 1, "c": 1}))
    next(iterator)
    before = iterator.last_records()
    iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=1)
    assert iterator.last_records() == before
    next(iterator)
    assert set(iterator.last_records()) == {"b"}


def test_a_chain_of_a_mix_changes_as_a_loader_does():
    """`MapDataset.mix` is the same mix."""
    parts = {name: MapDataset.source(part) for name, part in PARTS.items()}
    stream = (
        MapDataset.mix(parts, {"a": 1, "b": 0, "c": 0}, when_exhausted="repeat")
        .to_iter_dataset()
        .batch(2)
    )
    iterator = iter(stream)
    iterator.change(weights=[0, 1, 0], at_step=1)
    assert [min(batch) // 100 for batch in _values(islice(iterator, 3))] == [0, 1, 1]


def test_an_iterator_that_changed_goes_back_to_a_state_from_before():
    """The state decides which weights hold."""
    iterator = iter(_loader({"a": 1, "b": 1, "c": 1}))
    state, plain = iterator.get_state(), _values(islice(_loader({"a": 1, "b": 1, "c": 1}), 3))
    iterator.change(weights={"a": 1, "b": 0, "c": 0})
    changed, later = _values(islice(iterator, 3)), iterator.get_state()
    assert changed != plain
    iterator.set_state(state)
    assert _values(islice(iterator, 3)) == plain
    iterator.set_state(later)
    assert all(max(batch) < 100 for batch in _values(islice(iterator, 3)))


@pytest.mark.slow
def test_many_changes_of_many_parts_take_little_room():
    """A change keeps the weights that differ; an order of changed weights keeps the stages that
    were made before.
    """
    parts = {f"part {number}": 10 for number in range(200)}
    source = {name: range(10) for name in parts}
    iterator = iter(
        DataLoader(
            data_source=source,
            sampler=MixSampler(parts, when_exhausted="repeat"),
            operations=[Batch(8)],
        )
    )
    weights = dict.fromkeys(parts, 1.0)
    before = len(iterator.get_state())
    for number in range(40):
        weights |= {f"part {number}": 2.0, f"part {number + 1}": 0.5}
        iterator.change(weights=weights, at_step=number + 1)
    state = iterator.get_state()
    assert len(state) < before + 4_000
    again = iter(
        DataLoader(
            data_source=source,
            sampler=MixSampler(parts, when_exhausted="repeat"),
            operations=[Batch(8)],
        )
    )
    again.set_state(state)
    assert _values(islice(again, 45)) == _values(islice(iterator, 45))


def test_a_state_tells_a_change_and_damage_to_it_is_refused():
    """Each change is a position and the weights that differ."""
    iterator = iter(_loader({"a": 1, "b": 1, "c": 1}))
    iterator.change(weights={"a": 1, "b": 3, "c": 1}, at_step=5)
    state = json.loads(iterator.get_state())
    assert state["history"]["orders"] == [[0, 10, {"weights": {"b": 3.0}}]]
    weights = (
        {},
        {"weights": {"x": 1.0}},
        {"weights": {"a": "x"}},
        {"weights": 3},
        {"ramp": True},
        {"colour": 1},
    )
    for damage in (
        3,
        [3],
        [[0, 1]],
        [[0, -1, {}]],
        [[0, "x", {}]],
        *([[0, 5, values]] for values in weights),
    ):
        damaged = sealed({**state, "history": {"orders": damage}})
        with pytest.raises(CheckpointError, match="damaged"):
            iterator.set_state(damaged)
    next(iterator)


def test_what_cannot_change_is_refused():
    """And the iterator stays where it is."""
    weights = {"a": 1, "b": 1, "c": 1}
    iterator = iter(_loader(weights, when="all"))
    next(iterator)
    assert "at_step=0 is too early: the next step is 1. Pass 1 or more." in _refusal(
        lambda: iterator.change(weights=weights, at_step=0)
    )
    assert "after the end" in _refusal(lambda: iterator.change(weights=weights, at_step=34))
    assert "has no weight for the parts 'c'" in _refusal(
        lambda: iterator.change(weights={"a": 1, "b": 1})
    )
    assert "names 'x'" in _refusal(lambda: iterator.change(weights={**weights, "x": 1}))
    assert "Pass a number from 0 to" in _refusal(
        lambda: iterator.change(weights={**weights, "a": -1})
    )
    assert "at_step" in _refusal(lambda: iterator.change(weights=weights, at_step=1.5), TypeError)
    assert iterator.step == 1
    plain = iter(DataLoader(data_source=range(9), sampler=IndexSampler(9), operations=[Batch(2)]))
    assert "has no weights" in _refusal(lambda: plain.change(weights=weights), TypeError)
    ragged = iter(
        DataLoader(
            data_source=PARTS, sampler=MixSampler(PARTS), operations=[Filter(bool), Batch(2)]
        )
    )
    assert "change(weights=) needs a mix" in _refusal(
        lambda: ragged.change(weights=weights), TypeError
    )


def test_what_a_run_on_other_shards_left_comes_by_the_former_weights():
    """A change can begin behind it; the error says where."""
    former = [iter(_loader({"a": 1, "b": 0, "c": 0}, (shard, 2), batch=1)) for shard in range(2)]
    next(former[0]), next(former[0]), next(former[0])
    states = [iterator.get_state() for iterator in former]
    iterator = iter(_loader({"a": 1, "b": 0, "c": 0}))
    iterator.set_states(states)
    why = _refusal(lambda: iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=3))
    assert (
        "at_step=3 is too early: its records are the rest of a run on another number of shards"
        in why
    )
    assert "Pass 5 or more" in why
    iterator.change(weights={"a": 0, "b": 1, "c": 0}, at_step=5)
    assert [min(batch) // 100 for batch in _values(islice(iterator, 3))] == [0, 0, 1]


def test_the_difference_of_a_changed_run_is_told():
    """By `headrace.diff`, with the step."""
    iterator = iter(_loader({"a": 1, "b": 1, "c": 1}))
    plain = iterator.get_state()
    iterator.change(weights={"a": 1, "b": 4, "c": 1}, at_step=6)
    found = headrace.diff(plain, iterator.get_state())
    assert found.step is not None
    assert found.step >= 6


def test_a_mix_whose_parts_grow_during_the_run_is_refused(tmp_path):
    """The shards' log of appended records belongs to the weights."""
    append(tmp_path / "a", 4)
    parts = {"a": GrowingKeys(tmp_path / "a"), "b": np.arange(100, 110)}
    sampler = MixSampler(parts, when_exhausted="repeat")
    for growth in ("epoch", "hand"):
        loader = DataLoader(
            data_source=parts, sampler=sampler, operations=[Batch(2)], growth=growth
        )
        with iter(loader) as iterator:
            if growth == "hand":
                iterator.change(weights=[0, 1])
                assert min(next(iterator)) >= 100
            else:
                assert "parts grow during the run" in _refusal(
                    lambda it=iterator: it.change(weights=[0, 1]), TypeError
                )
