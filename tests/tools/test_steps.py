"""Steps can be known, found and left out without reading."""

import sys
from collections import Counter
from itertools import islice, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import PIPELINES, chosen, loader, stream, tries

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, RecordMetadata, ShardOptions
from headrace.loader.plan.steps.skipped import union, without

RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda pair: (pair[0], sum(pair))),
    max_size=4,
)


@pytest.mark.slow
@tries(150)
@given(name=st.sampled_from(sorted(PIPELINES)), ranges=RANGES, stop=st.integers(0, 30))
def test_steps_that_are_left_out_do_not_come_and_stay_left_out_after_a_resume(name, ranges, stop):
    """The stream is the whole one less these steps, when it is resumed by a loader that knows
    nothing of them, too.
    """
    gone = {step for start, end in ranges for step in range(start, end)}
    expected = [element for step, element in enumerate(stream(loader(name))) if step not in gone]
    iterator = iter(loader(name).skip(ranges))
    got = stream(islice(iterator, stop))
    state = iterator.get_state()
    again = iter(loader(name))
    again.set_state(state)
    assert again.get_state() == state
    assert got + stream(again) == expected


@tries(60)
@given(
    name=st.sampled_from(["batch", "filter, batch", "map, batch, map"]),
    ranges=RANGES,
    stop=st.integers(0, 12),
)
def test_a_checkpoint_from_before_can_be_resumed_without_some_steps(name, ranges, stop):
    """After a loss spike: go back to a checkpoint, and leave out what came after it."""
    whole = iter(loader(name))
    before = stream(islice(whole, stop))
    again = iter(loader(name).skip(ranges))
    again.set_state(whole.get_state())
    gone = {step for start, end in ranges for step in range(max(start, len(before)), end)}
    expected = [element for step, element in enumerate(stream(loader(name))) if step not in gone]
    assert before + stream(again) == expected


@tries(150)
@given(
    counts=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    batch=st.integers(1, 4),
    ranges=RANGES,
    data=st.data(),
)
def test_what_a_run_leaves_out_stays_left_out_on_other_shards(counts, batch, ranges, data):
    """Shards that stand at different steps, some before and some after a range, then others, then
    others again.
    """

    def shards(count, skip=()):
        for index in range(count):
            sampler = IndexSampler(
                90, ShardOptions(index, count), shuffle=True, seed=2, num_epochs=2
            )
            yield iter(
                DataLoader(data_source=range(90), sampler=sampler, operations=[Batch(batch)]).skip(
                    skip
                )
            )

    first, *later = counts
    steps = [list(DataLoader.__iter__(loader)) for loader in _plain_shards(first, batch)]
    gone = {step for start, end in ranges for step in range(start, end)}
    expected = Counter(
        number
        for own in steps
        for step, element in enumerate(own)
        if step not in gone
        for number in element.tolist()
    )
    seen, iterators = Counter(), list(shards(first, ranges))
    for count in later:
        for iterator in iterators:
            for element in islice(iterator, data.draw(st.integers(0, 12))):
                seen.update(element.tolist())
        states = [iterator.get_state() for iterator in iterators]
        iterators = list(shards(count, ranges if data.draw(st.booleans()) else ()))
        for iterator in iterators:
            iterator.set_states(states)
    for iterator in iterators:
        for element in iterator:
            seen.update(element.tolist())
    assert seen == expected


def _plain_shards(count, batch):
    for index in range(count):
        sampler = IndexSampler(90, ShardOptions(index, count), shuffle=True, seed=2, num_epochs=2)
        yield DataLoader(data_source=range(90), sampler=sampler, operations=[Batch(batch)])


@pytest.mark.slow
@given(one=RANGES, two=RANGES)
def test_ranges_add_and_subtract_as_sets_do(one, two):
    """`union` and `without` on ranges are those of the sets of their numbers."""
    first, second = (union(ranges) for ranges in (one, two))
    numbers = [
        {step for start, stop in ranges for step in range(start, stop)}
        for ranges in (first, second)
    ]
    assert {
        step for start, stop in without(first, second) for step in range(start, stop)
    } == numbers[0] - numbers[1]
    assert all(left[1] < right[0] for left, right in pairwise(first))


@pytest.mark.parametrize(
    "ranges", [3, "ab", [3], [(1, 1)], [(3, 1 << 63)], [(-1, 2)], [(1, 2.5)], [(1, 2, 3)]]
)
def test_what_are_no_ranges_of_steps_is_refused(ranges):
    """The message shows what is expected."""
    with pytest.raises((TypeError, ValueError), match=r"start_step|stop_step"):
        headrace.load(range(9)).skip(ranges)


FOUND = [("headrace", True, 3), ("grain", True, 1), ("grain", False, 3)]


@pytest.mark.parametrize(
    ("algorithm", "shuffle", "shards"),
    chosen(product(["headrace", "grain"], [False, True], [1, 3]), *FOUND),
)
def test_every_record_is_found_where_records_at_says_it_is(algorithm, shuffle, shards):
    """Finding is the inverse of records_at, in each epoch, for each shard; a record of another
    shard is a LookupError.
    """
    found = set()
    for index in range(shards):
        sampler = IndexSampler(
            23, ShardOptions(index, shards), shuffle, 3, seed=1, algorithm=algorithm
        )
        one = DataLoader(data_source=range(23), sampler=sampler, operations=[Batch(2), Batch(2)])
        for epoch in range(3):
            for key in range(23):
                try:
                    step, row = one.find(key, epoch)
                except LookupError:
                    assert shards == 3
                    continue
                assert one.records_at(step)[row] == key
                found.add((index, step, row))
    # parts of 8, 8 and 7 records, each read for 23 positions
    ends_early = algorithm == "grain" and shards == 3
    assert len(found) == (67 if ends_early else 69)


def test_a_record_is_found_at_any_size_at_once():
    """In an epoch of 2^50 records, at an epoch far away."""
    sampler = IndexSampler(1 << 50, shuffle=True, seed=3)
    source = headrace.RangeDataSource(0, 1 << 50, 1)
    one = DataLoader(data_source=source, sampler=sampler, operations=[Batch(1024)])
    step, row = one.find(123_456_789_012_345, epoch=1000)
    assert one.records_at(step)[row] == 123_456_789_012_345


def test_a_users_own_sampler_is_searched():
    """It has no inverse, so its positions are asked for one after the other."""

    class Backwards:
        def __len__(self):
            return 50

        def __getitem__(self, index):
            return RecordMetadata(index, 49 - index)

    one = DataLoader(data_source=range(50), sampler=Backwards(), operations=[Batch(4)])
    assert one.find(49, 0) == (0, 0)
    assert one.find(0, 0) == (12, 1)


def test_a_record_that_a_users_endless_sampler_never_gives_is_not_searched_for_ever():
    """One epoch is searched, of as many positions as the source has records."""

    class Ones:
        def __len__(self):
            return sys.maxsize

        def __getitem__(self, index):
            return RecordMetadata(index, 1)

    one = DataLoader(data_source=range(50), sampler=Ones(), operations=[Batch(4)])
    with pytest.raises(LookupError, match="record 7 is not read in epoch 3"):
        one.find(7, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((9, 0), ValueError, "record_key=9"),
        ((0, -1), ValueError, "epoch=-1"),
        ((0, 2), LookupError, "epoch 2 is after the last one: the sampler has 2 epochs"),
        ((8, 1), LookupError, "a last batch that is not full"),
    ],
)
def test_a_record_that_is_not_there_is_named(arguments, error, message):
    """A key of no record, an epoch that never comes, a record in a batch that is dropped."""
    one = headrace.load(range(9), batch_size=4, drop_remainder=True, num_epochs=2)
    with pytest.raises(error, match=message):
        one.find(*arguments)


def test_ragged_pipelines_say_why_they_do_not_know():
    """To find a record needs a pipeline in which every step has known records."""
    with pytest.raises(TypeError, match="last_records"):
        headrace.load(range(9), transformations=[Filter(lambda x: x)]).find(0, 0)
    assert np.array_equal(headrace.load(range(9), batch_size=3).records_at(5), [6, 7, 8])


@pytest.mark.parametrize("shuffle", [False, True, headrace.BlockShuffle(block=2, window=2)])
def test_a_record_that_the_sampler_leaves_out_is_not_found(shuffle):
    """A sampler may read the first records of a source only: the others are in no epoch."""
    sampler = IndexSampler(10, shuffle=shuffle, seed=0, num_epochs=2)
    loader = DataLoader(data_source=range(20), sampler=sampler)
    with pytest.raises(LookupError, match="record 15 is not read in epoch 0 by this shard"):
        loader.find(15, 0)
    assert loader.records_at(loader.find(9, 1).step)[0] in (9, [9])


def test_what_is_left_of_ranges_has_no_empty_range():
    """Where one begins or ends with what is taken away."""
    assert without(((0, 10),), ((0, 4), (9, 12))) == ((4, 9),)
