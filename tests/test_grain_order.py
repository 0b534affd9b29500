"""algorithm="grain" gives Grain's order, bit for bit."""

from __future__ import annotations

import hashlib

import grain
import numpy as np
import pytest
from pipelines import chosen

from millrace import IndexSampler, ShardOptions
from millrace.samplers.grain_order import seed_sequence, shuffled


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
        (65537, 7, [8812, 17398, 45604, 57751, 64428, 33447, 1924, 23788], "ff09915e49b89bb1"),
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


@pytest.mark.parametrize("records", chosen([5, 10, 33, 1797, 70_000], 5, 1797, 70_000))
@pytest.mark.parametrize("shards", chosen([1, 2, 3], 1, 3))
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_same_arguments_give_the_order_of_the_real_grain(records, shards, drop, shuffle):
    """Lengths and record keys of every shard, over three epochs, are those of grain.samplers.IndexSampler."""
    for index in range(shards):
        theirs = grain.samplers.IndexSampler(
            records, grain.sharding.ShardOptions(index, shards, drop), shuffle=shuffle, num_epochs=3, seed=9
        )
        ours = IndexSampler(
            records, ShardOptions(index, shards, drop), shuffle=shuffle, num_epochs=3, seed=9, algorithm="grain"
        )
        assert len(ours) == len(theirs)
        positions = np.unique(np.linspace(0, len(ours) - 1, 400).astype(np.int64))
        expected = [theirs[int(position)].record_key for position in positions]
        assert ours.record_keys(positions).tolist() == expected


def test_a_loader_reads_what_grains_loader_reads():
    """The same source, arguments and operations give the same batches as Grain's DataLoader."""
    import millrace

    records = list(range(103))
    for index in range(2):
        theirs = grain.DataLoader(
            data_source=records,
            sampler=grain.samplers.IndexSampler(
                103, grain.sharding.ShardOptions(index, 2), shuffle=True, num_epochs=2, seed=5
            ),
            operations=[grain.transforms.Batch(8)],
        )
        ours = millrace.DataLoader(
            data_source=records,
            sampler=IndexSampler(103, ShardOptions(index, 2), shuffle=True, num_epochs=2, seed=5, algorithm="grain"),
            operations=[millrace.Batch(8)],
        )
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]


@pytest.mark.parametrize(("records", "shuffle"), [(12, True), (12, False), (20, True)])
def test_a_loader_strides_over_an_unsharded_sampler_as_grains_does(records, shuffle):
    """With the loader's `shard_options` shards share one order; of the last epoch Grain drops what does not divide."""
    import millrace

    arguments = {"shuffle": shuffle, "num_epochs": 2, "seed": 5 if shuffle else None}
    for index in range(3):
        theirs = grain.DataLoader(
            data_source=list(range(records)),
            sampler=grain.samplers.IndexSampler(records, **arguments),
            shard_options=grain.sharding.ShardOptions(index, 3),
        )
        for drop in (False, True):
            ours = millrace.DataLoader(
                data_source=range(records),
                sampler=IndexSampler(records, **arguments, algorithm="grain"),
                shard_options=ShardOptions(index, 3, drop),
            )
            expected, got = [int(record) for record in theirs], list(ours)
            assert got[: len(expected)] == expected
            assert len(got) == len(expected) + (not drop and index < 2 * records % 3)
            place = ours.find(got[5], epoch=5 * 3 // records)
            assert place.step == 5
