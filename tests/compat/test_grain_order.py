"""algorithm="grain" gives Grain's order, bit for bit."""

from __future__ import annotations

import hashlib
import itertools

import grain
import numpy as np
import pytest
from support.pipelines import chosen

import headrace
from headrace import IndexSampler, NoSharding, ShardOptions
from headrace.samplers.grain.grain_order import (
    places_of,
    seed_sequence,
    shuffled,
    shuffled_one,
    small_epoch,
)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, [2963817213, 69796629, 1973464570, 532167439]),
        (1, [1304574429, 1385991880, 1625791478, 1649374289]),
        (42, [735521182, 3707395978, 3290902861, 980519533]),
        (2**32 - 1, [3258260622, 2976084991, 227751652, 537413182]),
    ],
)
def test_round_keys_are_those_of_the_cpp_standard(seed, words):
    """std::seed_seq's known outputs."""
    assert seed_sequence(seed, 4) == words


@pytest.mark.parametrize(
    ("records", "seed", "first", "digest"),
    [
        (1, 0, [0], "af5570f5a1810b7a"),
        (2, 1, [1, 0], "4cbbd8ca5215b8d1"),
        (10, 42, [8, 6, 7, 9, 0, 5, 1, 2], "3cd33e71ddbd162d"),
        (1000, 0, [134, 133, 624, 287, 938, 69, 95, 876], "a77f1bf83990e09d"),
        (1797, 3, [1508, 973, 909, 1442, 1498, 1354, 642, 1605], "8dfedb1a35657438"),
        (60000, 1, [46990, 4966, 19298, 16276, 37481, 53497, 5701, 27375], "06963ea07ef50f70"),
        (65536, 7, [8812, 17398, 45604, 57751, 64428, 33447, 1924, 23788], "95f9a04e5d38ca2b"),
        (10**6, 123456, [179399, 241119, 40901, 102093, 327074, 388282, 450176, 511880], None),
        (2**31, 2**32 - 1, [503722993, 258372712, 751219907], None),
        (2**40, 9, [837903958041, 835421456257, 829376889513], None),
        (2**55, 1, [33168073461335035, 33169151499182722, 33166931003179273], None),
    ],
)
def test_known_orders(records, seed, first, digest):
    """The order of one epoch, against values taken from Grain."""
    assert shuffled(np.arange(len(first)), records - 1, seed).tolist() == first
    if digest:
        whole = shuffled(np.arange(records), records - 1, seed).astype("<i8")
        assert hashlib.sha256(whole.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("records", [2**16 + 1, 2**18 + 1])
def test_records_are_read_once_where_grain_reads_one_twice(records):
    """With 2^16 + 1 or 2^18 + 1 records, the order is Grain's, except that the last place has the
    last record.
    """
    order = shuffled(np.arange(records), records - 1, seed=7)
    checked = [0, 1, 2, 1000, records - 2]
    assert [
        grain.experimental.index_shuffle(place, records - 1, 7, 4) for place in checked
    ] == order[checked].tolist()
    assert grain.experimental.index_shuffle(records - 1, records - 1, 7, 4) == order[0]
    assert order[-1] == records - 1
    assert (np.bincount(order) == 1).all()
    assert (places_of(order, records - 1, seed=7) == np.arange(records)).all()
    assert [shuffled_one(place, records - 1, 7) for place in (0, records - 1)] == order[
        [0, -1]
    ].tolist()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("records", chosen([5, 10, 33, 1797, 70_000], 5, 1797, 70_000))
@pytest.mark.parametrize("shards", chosen([1, 2, 3], 1, 3))
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_same_arguments_give_the_order_of_the_real_grain(records, shards, drop, shuffle):
    """Lengths and record keys of every shard, over three epochs, are those of
    grain.samplers.IndexSampler.
    """
    for index in range(shards):
        theirs = grain.samplers.IndexSampler(
            records,
            grain.sharding.ShardOptions(index, shards, drop),
            shuffle=shuffle,
            num_epochs=3,
            seed=9,
        )
        ours = IndexSampler(
            records,
            ShardOptions(index, shards, drop),
            shuffle=shuffle,
            num_epochs=3,
            seed=9,
            algorithm="grain",
        )
        assert len(ours) == len(theirs)
        positions = np.unique(np.linspace(0, len(ours) - 1, 400).astype(np.int64))
        expected = [theirs[int(position)].record_key for position in positions]
        assert ours.record_keys(positions).tolist() == expected


def test_the_orders_of_few_records_are_computed_as_they_come():
    """The first record of an endless stream waits for a few epochs, not for thousands."""
    before = small_epoch.cache_info().misses
    sampler = IndexSampler(10, shuffle=True, seed=99, algorithm="grain")
    assert (
        next(iter(headrace.DataLoader(data_source=range(10), sampler=sampler)))
        == sampler[0].record_key
    )
    assert small_epoch.cache_info().misses - before <= 16


def _pair(records, shard, drop, whose, batch=None, **arguments):
    """Grain's loader and ours, with the shard options given to the sampler, the loader, or both."""
    theirs, ours = grain.sharding.ShardOptions(*shard, drop), ShardOptions(*shard, drop)
    of_sampler, of_loader = whose != "loader", whose != "sampler"
    return grain.DataLoader(
        data_source=list(range(records)),
        sampler=grain.samplers.IndexSampler(
            records,
            theirs if of_sampler else grain.sharding.NoSharding(),
            num_epochs=2,
            **arguments,
        ),
        shard_options=theirs if of_loader else None,
        operations=[grain.transforms.Batch(batch)] if batch else [],
    ), headrace.DataLoader(
        data_source=range(records),
        sampler=IndexSampler(
            records,
            ours if of_sampler else NoSharding(),
            num_epochs=2,
            algorithm="grain",
            **arguments,
        ),
        shard_options=ours if of_loader else None,
        operations=[headrace.Batch(batch)] if batch else [],
    )


def test_a_loader_reads_what_grains_loader_reads():
    """The same source, arguments and operations give the same batches as Grain's DataLoader."""
    for index in range(2):
        theirs, ours = _pair(103, (index, 2), False, "sampler", batch=8, shuffle=True, seed=5)
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("whose", ["sampler", "loader", "both"])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(("records", "shards"), [(12, 3), (20, 3), (7, 5), (23, 4)])
def test_every_shard_reads_as_many_records_as_grains_loader(records, shards, drop, whose):
    """With and without `drop_remainder`, where the last epoch does not divide, too: the same
    records to the end.
    """
    for index, shuffle in itertools.product(range(shards), (False, True)):
        theirs, ours = _pair(
            records, (index, shards), drop, whose, shuffle=shuffle, seed=5 if shuffle else None
        )
        assert list(ours) == [int(record) for record in theirs]
        assert len(ours) == len(list(ours))


def test_a_loader_with_more_shards_than_positions_reads_nothing_as_grains_does():
    """Two epochs of one record, over three shards."""
    theirs, ours = _pair(1, (0, 3), False, "loader")
    assert list(ours) == list(theirs) == []


@pytest.mark.parametrize(("records", "shuffle"), [(12, True), (12, False), (20, True)])
def test_a_record_is_found_in_an_order_that_shards_share(records, shuffle):
    """With the loader's `shard_options`: at its step, or it is told that no shard reads it."""
    for index in range(3):
        _, ours = _pair(records, (index, 3), False, "loader", shuffle=shuffle, seed=5)
        assert ours.find(list(ours)[5], epoch=5 * 3 // records).step == 5
        _, ours = _pair(20, (0, 3), False, "loader", shuffle=True, seed=5)
    with pytest.raises(LookupError, match="left out"):
        ours.find(
            int(IndexSampler(20, shuffle=True, seed=5, algorithm="grain")[39].record_key), epoch=1
        )
