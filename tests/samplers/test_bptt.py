"""BpttSampler: each row of a batch continues the same row of the batch before, on any number of
shards.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import headrace
from headrace import Batch, BpttSampler, DataLoader, MixSampler, ShardOptions
from headrace.testing import SamplerConformance


def _rows(shard=None, **options):
    """The batches of a loader of 26 records in 6 parts, with the rows of one shard."""
    sampler = BpttSampler(26, 6, **options)
    count = 1 if shard is None else shard.shard_count
    loader = DataLoader(
        data_source=range(26), sampler=sampler, operations=[Batch(6 // count)], shard_options=shard
    )
    return np.stack(list(loader))


class TestParts(SamplerConformance):
    """The order passes the tests of every sampler."""

    worker_counts = (1,)
    shard_counts = (2, 3)

    def sampler(self):
        return BpttSampler(self.count, 6, num_epochs=2)


def test_each_row_continues_the_row_of_the_batch_before():
    """In the order of the source, and from the start in each epoch; records that fill no whole
    batch are left out.
    """
    assert _rows(num_epochs=2).T.tolist() == [
        [4 * row + step for step in range(4)] * 2 for row in range(6)
    ]


@pytest.mark.parametrize("count", [2, 3, 6])
def test_a_shard_has_the_same_rows_in_every_batch(count):
    """Row r of a shard is row r * shard_count + shard_index of all shards together."""
    whole = _rows(num_epochs=2)
    for index in range(count):
        assert (
            _rows(ShardOptions(index, count), num_epochs=2).tolist()
            == whole[:, index::count].tolist()
        )


def test_rows_continue_after_the_number_of_shards_has_changed():
    """States of two shards resume on three, at the batch where they stopped."""
    whole, states = _rows(num_epochs=2), []
    for index in range(2):
        sampler = BpttSampler(26, 6, ShardOptions(index, 2), num_epochs=2)
        iterator = iter(DataLoader(data_source=range(26), sampler=sampler, operations=[Batch(3)]))
        for _ in range(5):
            next(iterator)
        states.append(iterator.get_state())
    for index in range(3):
        sampler = BpttSampler(26, 6, ShardOptions(index, 3), num_epochs=2)
        iterator = iter(DataLoader(data_source=range(26), sampler=sampler, operations=[Batch(2)]))
        iterator.set_states(states)
        assert np.stack(list(iterator)).tolist() == whole[5:, index::3].tolist()


def test_epochs_end_with_a_whole_batch_and_records_are_found():
    """`len`, `steps_per_epoch`, `find` and `epochs` agree with the batches; without `num_epochs`
    the order is endless.
    """
    sampler = BpttSampler(26, 6, num_epochs=3)
    assert (len(sampler), sampler.steps_per_epoch, sampler.epoch_length) == (72, 4, 24)
    loader = DataLoader(data_source=range(26), sampler=sampler, operations=[Batch(6)])
    assert [len(list(epoch)) for epoch in loader.epochs(2)] == [4, 4]
    batches = list(loader)
    for key in (0, 7, 23):
        step, row = loader.find(key, epoch=1)
        assert step >= 4
        assert batches[step][row] == key
    assert sampler.position_of(24, 0) is None
    assert len(BpttSampler(26, 6)) == sys.maxsize
    assert sampler.over(2) == BpttSampler(26, 6, num_epochs=6)
    assert BpttSampler(26, 6).over(2) == BpttSampler(26, 6)


def test_the_order_is_a_part_of_a_mix():
    """A mix reads its records in the same order."""
    parts = {"text": range(8), "more": range(100, 108)}
    mix = MixSampler({"text": BpttSampler(8, 2), "more": 8}, {"text": 1, "more": 1}, seed=0)
    found = [
        int(record)
        for record, _ in zip(DataLoader(data_source=parts, sampler=mix), range(16))
        if record < 100
    ]
    assert found[:8] == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((26, 27), "batch_size=27"),
        ((26, 0), "batch_size=0"),
        ((0, 1), "num_records=0"),
        ((26, 6, ShardOptions(0, 4)), "batch_size=6 cannot be divided among 4 shards"),
        ((26, 6, headrace.NoSharding(), 0), "num_epochs=0"),
        ((26, 6, headrace.NoSharding(), 1, -1), "seed=-1"),
    ],
)
def test_impossible_numbers_are_refused(arguments, words):
    """The error names the argument and its value."""
    with pytest.raises(ValueError, match=words):
        BpttSampler(*arguments)


def test_shards_of_the_loader_must_divide_the_rows():
    """Also where the loader gives the shard, and a source with fewer records is refused."""
    with pytest.raises(ValueError, match="Pass a multiple of 4"):
        DataLoader(
            data_source=range(26), sampler=BpttSampler(26, 6), shard_options=ShardOptions(1, 4)
        )
    with pytest.raises(ValueError, match="covers 26 records"):
        DataLoader(data_source=range(20), sampler=BpttSampler(26, 6))
    with pytest.raises(headrace.errors.CheckpointError, match="6"):
        state = iter(DataLoader(data_source=range(26), sampler=BpttSampler(26, 6))).get_state()
        iter(DataLoader(data_source=range(26), sampler=BpttSampler(26, 13))).set_state(state)
