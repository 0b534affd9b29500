"""A run goes on with another number of shards, each record exactly once."""

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import sealed
from support.pipelines import tries

import headrace
from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, ShardOptions
from headrace.errors import CheckpointError

OPERATIONS = {
    "single records": [],
    "batch": [Batch(3)],
    "batch of batches": [Batch(2), Batch(2, batch_fn=np.concatenate)],
    "filter": [Filter(lambda x: x % 3 != 1)],
    "filter, batch": [Filter(lambda x: x % 3 != 1), Batch(2)],
    "flat map": [FlatMap(lambda x: [x] * (x % 4))],
    "flat map, filter, batch": [
        FlatMap(lambda x: [x] * (x % 4)),
        Filter(lambda x: x % 5 != 1),
        Batch(3),
    ],
}

TAKEN_APART = {
    "batch, taken apart": [Batch(3), FlatMap(lambda batch: batch.tolist())],
    "batch, taken apart, batch": [Batch(4), FlatMap(lambda batch: batch.tolist()), Batch(3)],
    "filter, batch, taken apart, batch": [
        Filter(lambda x: x % 3 != 1),
        Batch(2),
        FlatMap(lambda batch: batch.tolist()),
        Batch(3),
    ],
    "twice": [Batch(2), FlatMap(list), Filter(lambda x: x % 5), Batch(3), FlatMap(list), Batch(2)],
}
"""Batches that a FlatMap takes apart: in the middle of one, no other shard could make it again."""


def _shards(name, count, records, num_epochs=2, worker_count=0):
    for index in range(count):
        sampler = IndexSampler(
            records, ShardOptions(index, count), shuffle=True, seed=4, num_epochs=num_epochs
        )
        yield iter(
            DataLoader(
                data_source=range(records),
                sampler=sampler,
                operations={**OPERATIONS, **TAKEN_APART}[name],
                worker_count=worker_count,
            )
        )


def _numbers(element):
    return np.asarray(element).ravel().tolist()


@tries(150)
@given(
    name=st.sampled_from(sorted({**OPERATIONS, **TAKEN_APART})),
    records=st.integers(1, 60),
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    data=st.data(),
)
def test_every_record_comes_exactly_once_however_often_the_shards_change(
    name, records, counts, data
):
    """S to S' to S'', each shard stopping at a step of its own, over the ends of epochs too."""
    (whole,) = _shards(name, 1, records)
    expected = Counter(number for element in whole for number in _numbers(element))
    seen, states = Counter(), None
    for count in counts:
        iterators = list(_shards(name, count, records))
        if states is not None:
            shuffled = data.draw(st.permutations(states))
            for iterator in iterators:
                iterator.set_states(shuffled)
        for iterator in iterators:
            for _ in range(data.draw(st.integers(0, 8))):
                seen.update(_numbers(next(iterator, [])))
        states = [iterator.get_state() for iterator in iterators]
        for iterator, (index, again) in zip(iterators, enumerate(_shards(name, count, records))):
            again.set_state(states[index])
            assert again.get_state() == iterator.get_state()
    for iterator in iterators:
        for element in iterator:
            seen.update(_numbers(element))
    assert seen == expected


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (3, 2)])
def test_shards_of_equal_length_go_on_with_what_they_had_left_out_too(before, after):
    """With drop_remainder, what the former shards dropped may come; nothing comes twice, and the
    state can be restored.
    """

    def shards(count):
        return [
            iter(
                headrace.load(
                    range(10),
                    num_epochs=1,
                    shard_options=ShardOptions(index, count, drop_remainder=True),
                )
            )
            for index in range(count)
        ]

    first = shards(before)
    seen = [number for iterator in first[:-1] for number in iterator]
    seen += [number for _, number in zip(range(10 // before - 1), first[-1])]
    second = shards(after)
    for iterator in second:
        iterator.set_states([one.get_state() for one in first])
        iterator.set_state(iterator.get_state())
        seen += list(iterator)
    left = 10 % before + 1
    assert len(set(seen)) == len(seen) == 10 - left + left // after * after


@pytest.mark.parametrize("after", [1, 3, 4])
def test_the_rest_of_a_batch_of_a_shard_that_others_would_make_shorter_comes_once(after):
    """With drop_remainder, five records are on each of two shards, but four are if there are three
    or four shards; the rest of a batch has the records of the shard that began it.
    """
    taken_apart = [Batch(4), FlatMap(list)]

    def shards(count):
        for index in range(count):
            yield iter(
                headrace.load(
                    range(10),
                    num_epochs=1,
                    transformations=[Filter(lambda x: x % 7 != 2), *taken_apart],
                    shard_options=ShardOptions(index, count, drop_remainder=True),
                )
            )

    first, other = shards(2)
    seen = [*islice(first, 3)]
    states = [first.get_state(), other.get_state()]
    for iterator in shards(after):
        iterator.set_states(states)
        seen += iterator
    assert len(set(seen)) == len(seen)
    assert {0, 4, 6, 8} <= {*seen}  # the batch of the first shard


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 1), (1, 3)])
def test_shards_at_equal_steps_go_on_with_the_same_global_batches(before, after):
    """The union of what all shards deliver at a step is that of the run that was not
    interrupted.
    """

    def shards(count):
        for index in range(count):
            options = ShardOptions(index, count)
            yield iter(
                headrace.load(
                    range(500),
                    batch_size=12 // count,
                    shuffle=True,
                    seed=1,
                    num_epochs=3,
                    shard_options=options,
                )
            )

    def global_batches(iterators):
        while batches := [
            batch for batch in (next(iterator, None) for iterator in iterators) if batch is not None
        ]:
            yield sorted(np.concatenate(batches).tolist())

    expected = list(global_batches(list(shards(before))))
    first = list(shards(before))
    got = [batch for batch, _ in zip(global_batches(first), range(50))]
    for iterator in first:
        iterator.close()
    first = list(shards(before))
    for _ in range(50):
        for iterator in first:
            next(iterator)
    states = [iterator.get_state() for iterator in first]
    second = list(shards(after))
    for iterator in second:
        iterator.set_states(states)
    assert got + list(global_batches(second)) == expected
    assert len(json.loads(second[0].get_state())["history"]["shards"][0][0]) == 1


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["batch", "flat map, filter, batch"])
def test_a_lineage_stays_short_and_the_state_small(name):
    """After many changes the state has one offset, once the ragged parts were passed."""
    states = None
    for round_ in range(12):
        count = round_ % 3 + 1
        iterators = list(_shards(name, count, 1000, num_epochs=None))
        for index, iterator in enumerate(iterators):
            if states is not None:
                iterator.set_states(states) if len(states) != count else iterator.set_state(
                    states[index]
                )
            for _ in range(40 + index):
                next(iterator)
        states = [iterator.get_state() for iterator in iterators]
    assert len(json.loads(states[0])["history"]["shards"][0][0]) <= 2
    assert len(states[0]) < 1000


def test_another_batch_size_goes_on_with_the_next_record():
    """Batch-size schedules need no care."""
    one = iter(headrace.load(range(20), batch_size=3, num_epochs=1))
    next(one), next(one)
    other = iter(headrace.load(range(20), batch_size=5, num_epochs=1))
    other.set_state(one.get_state())
    assert [batch.tolist() for batch in other] == [
        [6, 7, 8, 9, 10],
        [11, 12, 13, 14, 15],
        [16, 17, 18, 19],
    ]


def test_a_loader_with_another_batch_size_refuses_what_has_no_one_batch():
    """with_batch_size says how many there are."""
    loader = headrace.load(range(20), batch_size=3, num_epochs=1)
    assert [len(batch) for batch in loader.with_batch_size(8)] == [8, 8, 4]
    assert [len(batch) for batch in loader.with_batch_size(1)] == [1] * 20
    assert [len(batch) for batch in loader] == [3] * 6 + [2]
    with pytest.raises(ValueError, match="batch_size=0"):
        loader.with_batch_size(0)
    with pytest.raises(ValueError, match=r"contain no Batch .* Add headrace\.Batch"):
        headrace.load(range(20)).with_batch_size(4)


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("shard", [0, 1])
def test_the_records_of_any_step_are_known_without_reading(drop_remainder, shard):
    """records_at(step) gives the keys that the step will deliver, and an IndexError
    after the end.
    """
    options = ShardOptions(shard, 2)
    sampler = IndexSampler(23, options, shuffle=True, seed=1, num_epochs=3)
    loader = DataLoader(
        data_source=range(23), sampler=sampler, operations=[Batch(4, drop_remainder)]
    )
    batches = [batch.tolist() for batch in loader]
    assert [loader.records_at(step).tolist() for step in range(len(batches))] == batches
    with pytest.raises(IndexError, match="after the end"):
        loader.records_at(len(batches))
    with pytest.raises(TypeError, match="a Filter"):
        DataLoader(
            data_source=range(23), sampler=sampler, operations=OPERATIONS["filter"]
        ).records_at(0)


@pytest.mark.parametrize("worker_count", [0, 2])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.one_in(16)
def test_the_records_after_the_last_element_are_known(name, worker_count):
    """last_records() gives the keys of the records that an element was made of, ragged pipelines
    included.
    """
    (one,) = _shards(name, 1, 40, worker_count=worker_count)
    with pytest.raises(ValueError, match="next"):
        one.last_records()
    for element in one:
        assert one.last_records().tolist() == list(dict.fromkeys(_numbers(element)))


def test_states_that_do_not_belong_together_are_refused():
    """Missing shards, two runs, or another pipeline are named; the iterator stays where it was."""
    states = [iterator.get_state() for iterator in _shards("batch", 3, 30)]
    others = [iterator.get_state() for iterator in _shards("batch", 3, 31)]
    (one,) = _shards("batch", 1, 30)
    expected = next(one).tolist()
    (one,) = _shards("batch", 1, 30)
    for given_, message in [
        ([], "the list is empty"),
        (states[:2], r"\[2\] of 3 are missing.*equal_steps=True"),
        ([states[0], others[1], states[2]], "different runs"),
        (others, "records 31 → 30"),
        ([*states, b"{}"], r"states\[3\] of 4: \{\}"),
        (None, "a list of states"),
        (states[0], "a list of states"),
        ([sealed({**json.loads(states[0]), "shard": [0, 999_999_999]})], "999999998 in all"),
        (
            [sealed({**json.loads(state), "cursor": [[1000], [0]]}) for state in states],
            "do not fit this loader: the shards had read",
        ),
    ]:
        with pytest.raises(CheckpointError, match=message):
            one.set_states(given_)
    assert next(one).tolist() == expected


def test_strict_false_goes_on_with_another_pipeline():
    """Deliberately, with the position of the state."""
    one = iter(headrace.load(range(20), batch_size=4, num_epochs=1))
    next(one)
    other = iter(headrace.load(range(24), batch_size=4, num_epochs=1))
    with pytest.raises(CheckpointError, match="records 20 → 24"):
        other.set_state(one.get_state())
    other.set_state(one.get_state(), strict=False)
    assert next(other).tolist() == [4, 5, 6, 7]


@pytest.mark.slow
@tries(40)
@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=4), drop=st.booleans(), data=st.data()
)
@pytest.mark.parametrize("shared", [False, True])
def test_grains_order_goes_on_with_other_shards_too(shared, counts, drop, data):
    """There each of the first shards has an order of its own, or all read parts of one; what they
    left of it is shared out.

    Shards are equally long, as Grain's: the last ones leave out what they cannot share. Nothing
    comes twice.
    """

    def sampler(index, count):
        options = ShardOptions(index, count, drop)
        own, loaders = (headrace.NoSharding(), options) if shared else (options, None)
        return IndexSampler(41, own, shuffle=True, seed=1, num_epochs=2, algorithm="grain"), loaders

    def shards(count):
        for index in range(count):
            order, loaders = sampler(index, count)
            yield iter(
                DataLoader(
                    data_source=range(41),
                    sampler=order,
                    operations=[Batch(2)],
                    shard_options=loaders,
                )
            )

    orders = [sampler(index, counts[0])[0] for index in range(counts[0])]
    positions = np.arange(len(orders[0]))
    expected = Counter()
    for index, order in enumerate(orders):
        expected.update(order.record_keys(positions[index :: counts[0]]).tolist())
    seen, states = Counter(), None
    for count in counts:
        iterators = list(shards(count))
        if states is not None:
            for iterator in iterators:
                iterator.set_states(states)
                iterator.set_state(iterator.get_state())
        for iterator in iterators:
            for element in islice(iterator, data.draw(st.integers(0, 6))):
                seen.update(element.tolist())
        states = [iterator.get_state() for iterator in iterators]
    for iterator in iterators:
        for element in iterator:
            seen.update(element.tolist())
    assert not seen - expected
    assert (expected - seen).total() < counts[-1]


def test_a_batch_size_changes_in_the_middle_of_a_records_rows():
    """Behind a FlatMap too, alone or together with the number of shards."""

    def shard(index, count, batch_size):
        options = ShardOptions(index, count)
        more = {
            "transformations": [FlatMap(lambda x: [x] * 3)],
            "num_epochs": 1,
            "shard_options": options,
        }
        return iter(headrace.load(range(20), batch_size=batch_size, **more))

    one = shard(0, 1, 4)
    seen = next(one).tolist()
    other = shard(0, 1, 5)
    other.set_state(one.get_state())
    assert sorted(seen + [n for batch in other for n in batch.tolist()]) == sorted([*range(20)] * 3)
    pair = [shard(0, 2, 4), shard(1, 2, 4)]
    seen = next(pair[0]).tolist()
    for states in ([p.get_state() for p in pair], [p.get_state() for p in pair][::-1]):
        whole = shard(0, 1, 8)
        whole.set_states(states)
        assert sorted(seen + [n for batch in whole for n in batch.tolist()]) == sorted(
            [*range(20)] * 3
        )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("records", [10, 37, 64])
@pytest.mark.slow
def test_a_rare_record_of_an_endless_stream_still_comes_after_the_shards_change(records):
    """A filter that keeps one record of an epoch is not taken for one that keeps none, wherever the
    shards stood.
    """

    def shard(index, count, seed):
        sampler = IndexSampler(records, ShardOptions(index, count), shuffle=True, seed=seed)
        return iter(
            DataLoader(
                data_source=range(records), sampler=sampler, operations=[Filter(lambda x: x == 3)]
            )
        )

    for seed in range(30):
        pair = [shard(0, 2, seed), shard(1, 2, seed)]
        for steps, iterator in enumerate(pair, 1):
            list(islice(iterator, steps))
        whole = shard(0, 1, seed)
        whole.set_states([iterator.get_state() for iterator in pair])
        assert list(islice(whole, 5)) == [3] * 5


def test_steps_left_out_and_batch_sizes_that_changed_at_other_steps_are_refused():
    """A step is then not the same records for all shards."""

    def shard(index, count, batch_size):
        options = ShardOptions(index, count)
        return iter(
            headrace.load(range(400), batch_size=batch_size, shard_options=options).skip([(10, 12)])
        )

    states = []
    for index, steps in enumerate((2, 4)):
        first, second = shard(index, 2, 3), shard(index, 2, 5)
        list(islice(first, steps))
        second.set_state(first.get_state())
        next(second)
        states.append(second.get_state())
    with pytest.raises(CheckpointError, match="the batch size changed"):
        shard(0, 1, 5).set_states(states)


def test_steps_keep_their_numbers_when_the_shards_change():
    """A step that was left out is counted as before, and later ones can be left out by their
    numbers.
    """

    def shard(index, count, ranges):
        options = ShardOptions(index, count)
        loader = headrace.load(
            range(400), batch_size=4 // count, shard_options=options, num_epochs=1
        )
        return iter(loader.skip(ranges)), loader

    def numbered(iterator):
        return [
            (json.loads(iterator.get_state())["step"], sorted(batch.tolist())) for batch in iterator
        ]

    expected = numbered(shard(0, 1, [(10, 20), (30, 32)])[0])
    pair = [shard(index, 2, [(10, 20)])[0] for index in range(2)]
    for iterator in pair:
        list(islice(iterator, 8))
    whole, loader = shard(0, 1, [(30, 32)])
    whole.set_states([iterator.get_state() for iterator in pair])
    assert whole.records_at(25).tolist() == loader.records_at(25).tolist()
    assert numbered(whole) == expected[8:]


def test_another_sampler_is_refused_after_the_shards_changed_even_deliberately():
    """It has fewer positions than these shards have passed."""
    pair = list(_shards("batch", 2, 30))
    next(pair[0])
    (one,) = _shards("batch", 1, 30)
    one.set_states([iterator.get_state() for iterator in pair])
    (other,) = _shards("batch", 1, 2)
    with pytest.raises(CheckpointError, match="60 records"):
        other.set_state(one.get_state(), strict=False)


def test_a_change_of_a_flat_map_loses_rows_of_one_record_at_most():
    """With strict=False, when a record makes fewer rows than were delivered of it before."""
    one = iter(headrace.load(range(6), transformations=[FlatMap(lambda x: [x] * 5)], num_epochs=1))
    list(islice(one, 4))
    other = iter(headrace.load(range(6), transformations=[FlatMap(lambda x: [x])], num_epochs=1))
    other.set_state(one.get_state(), strict=False)
    assert list(other) == [1, 2, 3, 4, 5]


def test_with_several_batches_one_says_which():
    """By its number, from the first or from the last; without one, the error lists them."""
    loader = headrace.load(
        range(24), transformations=[headrace.Batch(3)], batch_size=2, num_epochs=1
    )
    shapes = [
        loader.with_batch_size(6, batch=number).records_at(0).size for number in (0, 1, -1, -2)
    ]
    assert shapes == [12, 18, 18, 12]
    with pytest.raises(
        ValueError,
        match=r"which of 2 batches to change: Batch\(3\), Batch\(2\)\. Pass its number, batch=0",
    ):
        loader.with_batch_size(6)
    with pytest.raises(ValueError, match=r"batch=2 must be in \[-2, 1\]"):
        loader.with_batch_size(6, batch=2)
    with pytest.raises(TypeError, match="batch='first'"):
        loader.with_batch_size(6, batch="first")
    assert next(
        iter(headrace.load(range(8), batch_size=2).with_batch_size(4, batch=0))
    ).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("batch", [0, 1])
def test_a_state_goes_on_with_another_size_of_either_batch(batch):
    """The next record comes next, each exactly once."""
    loader = headrace.load(
        range(48), transformations=[headrace.Batch(3)], batch_size=2, num_epochs=1
    )
    iterator = iter(loader)
    seen = np.concatenate([next(iterator).ravel(), next(iterator).ravel()])
    other = iter(loader.with_batch_size(4, batch=batch))
    other.set_state(iterator.get_state())
    rest = [np.asarray(element) for element in other]
    assert rest[0].shape == ((2, 4), (4, 3))[batch]
    assert np.concatenate([seen, *(element.ravel() for element in rest)]).tolist() == list(
        range(48)
    )
