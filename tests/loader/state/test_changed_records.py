"""Runs that go on with more records, or with more of them left out."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.damage import sealed
from support.growing_source import GrowingKeys, append

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MixSampler,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError


def _loader(source, omitted=(), batch=4, shard=(0, 1), shuffle=True, operations=(), **options):
    """A loader of some generation without some of its records."""
    return DataLoader(
        data_source=source,
        sampler=IndexSampler(len(source), shuffle=shuffle, seed=7, **options),
        omit=omitted,
        operations=[*operations, Batch(batch)] if batch else operations,
        shard_options=ShardOptions(*shard),
    )


def _take(loader, states, steps, strict=True):
    """The keys of so many steps from states on, and the state after them."""
    with iter(loader) as iterator:
        if isinstance(states, bytes):
            iterator.set_states([states], strict, equal_steps=True)
        elif states:
            iterator.set_states(states, strict)
        keys = [next(iterator).tolist() for _ in range(steps)]
        return keys, iterator.get_state()


def test_a_state_without_changes_goes_on_with_a_loader_that_knows_them():
    """A run of before, over a plain list; and the loader that knows changes gives that run's states
    where there are none.
    """
    plain = headrace.load(range(20), batch_size=4, shuffle=True, seed=7)
    with iter(plain) as iterator:
        first = [next(iterator).tolist() for _ in range(3)]
        state = iterator.get_state()
        rest = [next(iterator).tolist() for _ in range(2)]
    assert _take(_loader(range(20)), state, 2)[0] == rest
    assert _take(_loader(range(20)), [], 3) == (first, state)
    left = [key for batch in rest for key in batch]
    gone = left[3]
    keys, after = _take(_loader(range(20), [gone], batch=1), state, 7)
    assert [key for (key,) in keys] == [key for key in left if key != gone]
    assert json.loads(after)["marks"] == {"0": {"place": [19, 20]}}


def test_more_records_may_be_left_out_and_fewer_are_refused():
    """A program that forgot the list would read records that were deleted."""
    _, state = _take(_loader(range(20), [3, 5]), [], 2)
    _take(_loader(range(20), [3, 5, 9]), state, 20)
    for others in ([3], [], [3, 6]):
        with pytest.raises(CheckpointError, match="2 records, but now"):
            _take(_loader(range(20), others), state, 1)
        _take(_loader(range(20), others), state, 20, strict=False)
    plain = headrace.load(range(20), batch_size=4, shuffle=True, seed=7)
    with pytest.raises(CheckpointError, match="now 0 are"):
        _take(plain, state, 1)


def test_other_records_in_the_place_of_the_former_ones_are_refused(tmp_path):
    """A source of another kind, or one whose former generation had another number of records."""
    path = tmp_path / "sizes.json"
    append(path, 10)
    _, state = _take(_loader(GrowingKeys(path, 0)), [], 2)
    append(path, 5)
    keys, after = _take(_loader(GrowingKeys(path, 1)), state, 5)
    assert sorted([key for batch in keys for key in batch][2:17]) == list(range(15))
    assert json.loads(after)["history"] == {"orders": [[0, 8, {"records": 15}]]}
    with pytest.raises(CheckpointError, match="another pipeline"):
        _take(_loader(range(15)), state, 1)
    path.write_text("[9, 15]")
    with pytest.raises(CheckpointError, match="another pipeline"):
        _take(_loader(GrowingKeys(path, 1)), state, 1)


def test_shards_that_stand_apart_do_not_give_a_record_that_is_left_out_now():
    """What one of them has read and the other has not keeps its order: such a record there is an
    error that names it.
    """
    states = [
        _take(_loader(range(40), shard=(shard, 2), shuffle=False), [], steps)[1]
        for shard, steps in [(0, 3), (1, 1)]
    ]
    one = _loader(range(40), [30], shuffle=False)
    keys, _ = _take(one, states, 6)
    assert [key for batch in keys for key in batch] == [
        *range(9, 24, 2),
        *range(24, 30),
        *range(31, 40),
        0,
    ]
    with pytest.raises(CheckpointError, match="record 13 is omitted now"):
        _take(_loader(range(40), [13], shuffle=False), states, 1)


def test_records_within_a_window_that_was_begun_are_refused_or_go_on():
    """A record that is taken apart goes on with its rest; if it is left out now, that
    is an error.
    """
    twice = FlatMap(lambda key: [key, key])
    loader = _loader(range(10), batch=3, operations=[twice], shuffle=False)
    _, state = _take(loader, [], 1)  # 0 0 1
    keys, _ = _take(_loader(range(10), [2], batch=3, operations=[twice], shuffle=False), state, 2)
    assert keys == [[1, 3, 3], [4, 4, 5]]
    with pytest.raises(CheckpointError, match="record 1 is omitted now"):
        _take(_loader(range(10), [1], batch=3, operations=[twice], shuffle=False), state, 1)


def test_a_filter_goes_on_where_its_last_batch_ended():
    """Rows that were read and not given are read again, by the changed order."""
    even = Filter(lambda key: key % 2 == 0)
    _, state = _take(_loader(range(20), batch=3, operations=[even], shuffle=False), [], 1)  # 0 2 4
    keys, _ = _take(_loader(range(20), [6, 8], batch=3, operations=[even], shuffle=False), state, 2)
    assert keys == [[10, 12, 14], [16, 18, 0]]


def test_a_run_of_a_fixed_number_of_epochs_goes_on_to_another_end(tmp_path):
    """The last epoch has all records that there are then."""
    path = tmp_path / "sizes.json"
    append(path, 6)
    _, state = _take(_loader(GrowingKeys(path, 0), num_epochs=2, batch=3), [], 1)
    append(path, 3)
    with iter(_loader(GrowingKeys(path, 1), num_epochs=2, batch=3)) as iterator:
        iterator.set_state(state)
        keys = [batch.tolist() for batch in iterator]
    assert [len(batch) for batch in keys] == [3, 3, 3, 3]
    assert sorted([key for batch in keys[1:] for key in batch]) == list(range(9))


def test_a_damaged_state_is_refused():
    """Numbers of omitted keys, places, histories."""
    _, state = _take(_loader(range(20), [3]), [], 2)
    values = json.loads(state)
    marks = (
        {"0": {"place": [1]}},
        "x",
        {"0": {"place": [-1, 3]}},
        {"1": {"place": [1, 3]}},
        {"0": {"ended": [[1]]}},
    )
    for damage in marks:
        with pytest.raises(CheckpointError, match="damaged"):
            _take(_loader(range(20), [3]), sealed({**values, "marks": damage}), 1)
    sampler = {**values["identity"]["orders"][0], "omitted": "x y"}
    damaged = {**values, "identity": {**values["identity"], "orders": [sampler]}}
    with pytest.raises(CheckpointError, match="damaged"):
        _take(_loader(range(20), [3]), sealed(damaged), 1)


def _stands(shards, steps, **options):
    """States of shards at these steps."""
    states = []
    for shard, count in enumerate(steps):
        states.append(
            _take(_loader(range(12), batch=1, shard=(shard, shards), **options), [], count)[1]
        )
    return states


@pytest.mark.parametrize("steps", [(1, 3), (2, 2), (0, 2)])
def test_more_omitted_records_need_the_states_of_all_shards(steps):
    """A shard cannot tell from its own state where the others stood, so the change is refused with
    both remedies.
    """
    states = _stands(2, steps, num_epochs=2, shuffle=False)
    for shard, state in enumerate(states):
        with iter(
            _loader(range(12), [7, 11], 1, (shard, 2), num_epochs=2, shuffle=False)
        ) as iterator:
            with pytest.raises(
                CheckpointError,
                match=r"Call set_states\(…\) with the states of all.*equal_steps=True",
            ):
                iterator.set_state(state)
            iterator.set_states(states)


@pytest.mark.slow
def test_the_state_of_one_shard_restores_any_number_of_shards_at_equal_steps():
    """As the states of all shards would, also with more records left out, and other batches."""
    states = _stands(3, (2, 2, 2))
    for shards, omitted in ((3, []), (3, [5]), (2, [5]), (1, [])):
        for shard in range(shards):
            loader = _loader(range(12), omitted, 2, (shard, shards))
            expected, _ = _take(loader, states, 9)
            for state in states:
                assert _take(loader, state, 9)[0] == expected


def test_one_state_restores_no_other_shards_where_these_may_stand_elsewhere():
    """After a filter, at the end of uneven shards, of several states: each is refused with a
    remedy.
    """
    even = Filter(lambda key: key % 2 == 0)
    filtered = _stands(2, (1, 1), operations=[even])
    with pytest.raises(CheckpointError, match="each step has the same number of records"):
        _take(_loader(range(12), batch=1, operations=[even]), filtered[0], 1)
    ended = _take(_loader(range(5), batch=1, shard=(1, 2), num_epochs=1), [], 2)[1]
    with pytest.raises(
        CheckpointError,
        match="at the end of a shard of 2 records, because other shards have 2 to 3",
    ):
        _take(_loader(range(5), batch=1, num_epochs=1), ended, 1)
    with (
        iter(_loader(range(12), batch=1)) as iterator,
        pytest.raises(CheckpointError, match="takes the state of one shard, not 2"),
    ):
        iterator.set_states(_stands(2, (1, 1)), equal_steps=True)


def test_an_iterator_is_restored_twice_after_records_were_appended(tmp_path):
    """From a state of before, and from one of its own."""
    path = tmp_path / "sizes.json"
    append(path, 10)

    def stream(generation=None):
        source = GrowingKeys(path, generation)
        sampler = IndexSampler(len(source), num_epochs=2)
        return iter(
            DataLoader(data_source=source, sampler=sampler, operations=[Batch(2)], growth="hand")
        )

    before = stream(0)
    next(before)
    append(path, 4)
    states, iterator = [before.get_state()], stream()
    iterator.set_state(states[0])
    states.append(iterator.get_state())
    rest = [batch.tolist() for batch in iterator]
    assert sum(map(len, rest)) == 8 + 14
    for state in states:
        iterator.set_state(state)
        assert [batch.tolist() for batch in iterator] == rest


@pytest.mark.slow
def test_a_part_drawn_by_weight_is_restored_over_a_source_that_has_grown(tmp_path):
    """Its order cannot change, so the state names no generation of its source."""
    path = tmp_path / "sizes.json"
    append(path, 6)
    append(path, 4)
    parts = {"a": GrowingKeys(path, 1), "b": range(5)}

    def batches():
        sampler = MixSampler(
            {"a": WeightedSampler(np.ones(10), seed=1), "b": 5}, when_exhausted="repeat"
        )
        return iter(
            DataLoader(data_source=parts, sampler=sampler, operations=[Batch(2)], growth="hand")
        )

    first, second = batches(), batches()
    next(first)
    second.set_state(first.get_state())
    assert next(second).tolist() == next(first).tolist()
