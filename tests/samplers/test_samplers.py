"""Samplers: which record stands at which position."""

from __future__ import annotations

import math
import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace import (
    DataLoader,
    IndexSampler,
    NoSharding,
    RecordMetadata,
    Sampler,
    SequentialSampler,
    ShardOptions,
)
from headrace.common.messages import short_repr
from headrace.errors import RecordKeyError
from headrace.samplers.own_sampler import as_vector_sampler
from headrace.samplers.protocol import ENDLESS, VectorSampler

grain = pytest.importorskip("grain")  # it has no wheels for a Python without GIL

RECORDS = st.integers(1, 300)
SEEDS = st.integers(0, 2**32 - 1)


@given(records=RECORDS, epochs=st.integers(1, 4), seed=SEEDS, shuffle=st.booleans())
def test_every_record_comes_exactly_once_an_epoch(records, epochs, seed, shuffle):
    """Each epoch of the global order is a permutation of all records."""
    sampler = IndexSampler(records, shuffle=shuffle, num_epochs=epochs, seed=seed)
    keys = sampler.record_keys(np.arange(len(sampler))).reshape(epochs, records)
    assert (np.sort(keys, axis=1) == np.arange(records)).all()


@pytest.mark.slow
@given(
    records=RECORDS,
    epochs=st.integers(1, 3),
    shards=st.integers(1, 9),
    seed=SEEDS,
    drop=st.booleans(),
)
def test_shards_together_read_the_unsharded_order_step_by_step(records, epochs, shards, seed, drop):
    """At every local position, the shards' records are the next ones of the global order."""
    whole = IndexSampler(records, shuffle=True, num_epochs=epochs, seed=seed)
    order = whole.record_keys(np.arange(len(whole)))
    lengths = []
    for index in range(shards):
        shard = ShardOptions(index, shards, drop)
        sampler = IndexSampler(records, shard, shuffle=True, num_epochs=epochs, seed=seed)
        length = shard.length(len(sampler))
        lengths.append(length)
        positions = shard.global_positions(np.arange(length))
        assert (sampler.record_keys(positions) == order[index::shards][:length]).all()
    assert max(lengths) - min(lengths) <= (0 if drop else 1)
    assert sum(lengths) == (len(order) // shards * shards if drop else len(order))


@pytest.mark.slow
@given(records=st.integers(1, 2**55), seed=SEEDS, epoch=st.integers(0, 127), data=st.data())
@settings(deadline=None)
def test_any_position_of_any_size_is_reached_alone(records, seed, epoch, data):
    """One position gives the same record alone as in a block, whatever the size, and always an
    existing one.
    """
    start = epoch * records + data.draw(st.integers(0, records - 1))
    positions = np.arange(start, start + 5)
    sampler = IndexSampler(records, shuffle=True, seed=seed)
    keys = sampler.record_keys(positions)
    assert ((keys >= 0) & (keys < records)).all()
    assert [sampler[int(position)].record_key for position in positions] == keys.tolist()


@pytest.mark.parametrize("records", [2**54 + 1, 2**55])
def test_memory_does_not_grow_with_the_records(records):
    """A shuffle over 2^55 records takes no more memory than the block that is asked for."""
    sampler = IndexSampler(records, shuffle=True, seed=1)
    tracemalloc.start()
    sampler.record_keys(np.arange(4096))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_seed_and_epoch_are_mixed_not_added():
    """Seed 1 in epoch 0 is not seed 0 in epoch 1."""
    positions = np.arange(1000)
    first = IndexSampler(1000, shuffle=True, seed=1).record_keys(positions)
    second = IndexSampler(1000, shuffle=True, seed=0).record_keys(positions + 1000)
    assert (first != second).mean() > 0.99


def test_the_order_never_changes_between_releases():
    """The default shuffle is part of what a checkpoint relies on: these orders are for ever."""
    order = IndexSampler(10, shuffle=True, seed=42).record_keys(np.arange(20)).tolist()
    assert order == GOLDEN_SMALL
    large = IndexSampler(10**12, shuffle=True, seed=7).record_keys(
        np.array([0, 1, 10**12 - 1, 5 * 10**12])
    )
    assert large.tolist() == GOLDEN_LARGE


GOLDEN_SMALL = [1, 7, 6, 5, 8, 2, 4, 3, 9, 0, 6, 0, 7, 1, 4, 5, 2, 3, 9, 8]
GOLDEN_LARGE = [369842830628, 288969231665, 669845047424, 654720870458]


def test_metadata_has_position_key_and_generator():
    """sampler[i] gives RecordMetadata, whose generator depends on seed and position and is absent
    without a seed.
    """
    sampler = IndexSampler(10, shuffle=True, num_epochs=1, seed=1)
    metadata = sampler[3]
    assert metadata.index == 3
    assert isinstance(metadata.record_key, int)
    assert sampler[3].rng.random() == metadata.rng.random()
    assert sampler[4].rng.random() != sampler[3].rng.random()
    assert IndexSampler(10)[0].rng is None


def test_lengths_are_those_of_grain():
    """len() is the number of positions of all shards, and sys.maxsize for an endless sampler."""
    assert len(IndexSampler(10)) == sys.maxsize
    assert len(IndexSampler(10, num_epochs=3)) == 30
    assert len(IndexSampler(10, ShardOptions(0, 3, drop_remainder=True), num_epochs=1)) == 9
    assert len(SequentialSampler(7)) == 7
    assert len(IndexSampler(2**55, num_epochs=2**40)) == sys.maxsize


def test_sequential_sampler_keeps_the_order():
    """SequentialSampler reads every record once, in order."""
    sampler = SequentialSampler(5, NoSharding(), seed=3)
    assert [sampler[i].record_key for i in range(5)] == [0, 1, 2, 3, 4]


def test_a_sequential_order_can_be_repeated():
    """Its epochs follow one another, with the same seed and shard; None: without end."""
    sampler = SequentialSampler(3, ShardOptions(1, 2), seed=3)
    assert [sampler.over(2)[place].record_key for place in range(6)] == [0, 1, 2] * 2
    assert (sampler.over(2).seed, sampler.over(2).shard_options) == (3, ShardOptions(1, 2))
    assert len(sampler.over(None)) == ENDLESS


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_records": 0}, ValueError, "num_records=0"),
        ({"num_records": -1}, ValueError, "num_records=-1"),
        ({"num_records": 2**55 + 1}, ValueError, "num_records"),
        ({"num_records": 5, "num_epochs": 0}, ValueError, "num_epochs=0"),
        ({"num_records": 5, "shuffle": True}, ValueError, "needs a seed"),
        ({"num_records": 5, "seed": -1}, ValueError, "seed=-1"),
        ({"num_records": 5, "seed": 2**32}, ValueError, r"\[0, 2\^32\)"),
        ({"num_records": 5, "seed": 1.5}, TypeError, "seed=1.5 is a float"),
        ({"num_records": 5, "seed": "1"}, TypeError, "str"),
        ({"num_records": "5"}, TypeError, "num_records"),
        ({"num_records": 5, "algorithm": "fast"}, ValueError, '"grain"'),
        (
            {"num_records": 2, "algorithm": "grain", "shard_options": ShardOptions(2, 3)},
            ValueError,
            "fewer shards",
        ),
    ],
)
def test_bad_arguments_are_named_with_their_limit(arguments, error, message):
    """A sampler with an impossible argument is never made."""
    with pytest.raises(error, match=message):
        IndexSampler(**arguments)


@pytest.mark.parametrize("index", [-1, 10, 10**9])
def test_positions_outside_are_an_index_error(index):
    """A position outside the order names the limits."""
    with pytest.raises(IndexError, match=r"\[0, 10\)"):
        IndexSampler(10, num_epochs=1)[index]


@pytest.mark.parametrize("arguments", [(-1, 2), (2, 2), (0, 0), (0, -1)])
def test_impossible_shards_are_refused(arguments):
    """shard_index lies in [0, shard_count)."""
    with pytest.raises(ValueError, match="shard_"):
        ShardOptions(*arguments)


def test_a_users_own_scalar_sampler_answers_for_many_positions():
    """__getitem__ and __len__ are all that a sampler needs."""

    class Backwards:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return RecordMetadata(index=index, record_key=3 - index)

    assert isinstance(Backwards(), Sampler)
    sampler = as_vector_sampler(Backwards())
    assert sampler.record_keys(np.arange(4)).tolist() == [3, 2, 1, 0]
    assert sampler.seed is None
    assert sampler.seeds(np.arange(4)) is None
    assert [sampler[position].record_key for position in range(4)] == [3, 2, 1, 0]
    assert (sampler.facts.block_size, sampler.facts.parts, sampler.facts.balance) == (1, (), None)
    assert (sampler.epoch_count, sampler.epoch_at(3), sampler.length_over(3)) == (1, 0, 12)
    assert (sampler.position_of(1, 0), sampler.position_of(4, 0), sampler.position_of(1, 1)) == (
        2,
        None,
        None,
    )
    assert sampler.part_at(2) == ("", 2)
    assert sampler.parts == {"": sampler}
    assert not len(sampler.omitted_keys)
    assert sampler.part_epochs(2) == {"": 0}
    assert sampler.part_records(2) == {"": 2}
    with pytest.raises(
        ValueError, match=r"Backwards.* cannot be used with a growing source or omit="
    ):
        DataLoader(data_source=range(4), sampler=Backwards(), omit=[1])


def test_an_endless_sampler_of_a_users_own_has_epochs_of_as_many_positions_as_records():
    """A loop per epoch of a sampler without end comes to an end."""

    class Endless:
        def __len__(self):
            return sys.maxsize

        def __getitem__(self, index):
            return RecordMetadata(index=index, record_key=index % 3)

    loader = DataLoader(data_source=range(5), sampler=Endless())
    assert [list(epoch) for epoch in loader.epochs(2)] == [[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]]
    assert loader.find(2, epoch=1) == (5, 0)


class Backwards(VectorSampler):
    """A kind of order that defines what each kind must define, and nothing else."""

    shard_options, seed, epoch_length, fingerprint = NoSharding(), 3, 5, {"kind": "Backwards"}

    def __len__(self):
        return self.of_equal_shards(15)

    def record_keys(self, positions):
        return 4 - positions % 5


def test_a_new_kind_of_order_is_one_class():
    """The rest of the protocol has defaults: shards, epochs, places, traces, planned batches and
    resuming work.
    """
    whole = DataLoader(data_source=range(5), sampler=Backwards(), operations=[headrace.Batch(2)])
    assert [batch.tolist() for batch in whole] == [
        [4, 3],
        [2, 1],
        [0, 4],
        [3, 2],
        [1, 0],
        [4, 3],
        [2, 1],
        [0],
    ]
    own = DataLoader(data_source=range(5), sampler=Backwards(), shard_options=ShardOptions(1, 2))
    assert list(own) == [3, 1, 4, 2, 0, 3, 1]
    assert Backwards().saved == (Backwards().fingerprint, (), ())  # no changes, no ends of parts
    assert [[batch.tolist() for batch in epoch] for epoch in whole.epochs(2)] == 2 * [
        [[4, 3], [2, 1], [0]]
    ]
    assert whole.find(4, epoch=1) == (2, 1)
    assert [record.key for record in headrace.trace(whole, 2).records] == [0, 4]
    headrace.check_resume(whole, steps=3, worker_counts=[0])
    planned = headrace.BudgetBatch(6, lengths=[1, 2, 3, 2, 1], seed=0)
    arrays = [np.zeros(length) for length in (1, 2, 3, 2, 1)]
    assert (
        sum(
            len(batch)
            for batch in DataLoader(data_source=arrays, sampler=Backwards(), operations=[planned])
        )
        >= 15
    )
    with pytest.raises(ValueError, match="cannot be used with a growing source or omit="):
        DataLoader(data_source=range(5), sampler=Backwards(), omit=[1])


@pytest.mark.parametrize(
    "key", [10**400, 10**5000, 1 << 63, np.uint64(1 << 63), "a"], ids=short_repr
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_record_key_that_no_source_has_is_told(key, place):
    """Whatever it is, and at whatever position: by an error that names the sampler, and the key,
    briefly.
    """

    class Odd:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return RecordMetadata(index=index, record_key=key if index == place else index)

    with pytest.raises(RecordKeyError, match="Odd returned") as caught:
        list(DataLoader(data_source=range(4), sampler=Odd()))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("thing", [[1, 2, 3], None, 5, "sampler"])
def test_what_is_no_sampler_is_refused(thing):
    """A list or number as sampler is an error that names IndexSampler."""
    with pytest.raises(TypeError, match="IndexSampler"):
        as_vector_sampler(thing)


def test_samplers_travel():
    """A pickled sampler gives the same order."""
    sampler = IndexSampler(100, ShardOptions(1, 2), shuffle=True, seed=5)
    assert pickle.loads(pickle.dumps(sampler)) == sampler


def test_shard_by_jax_process_asks_jax():
    """In a single process, ShardByJaxProcess is shard 0 of 1."""
    import headrace

    shard = headrace.ShardByJaxProcess(drop_remainder=True)
    assert (shard.shard_index, shard.shard_count, shard.drop_remainder) == (0, 1, True)


class Unsized:
    """A sampler with what Grain's protocol asks for, and no more."""

    def __init__(self, stop):
        self.stop = stop

    def __getitem__(self, index):
        if index >= self.stop:
            raise IndexError(index)
        return RecordMetadata(index=index, record_key=index * 3 % 7)


@pytest.mark.parametrize("stop", [0, 6])
def test_the_end_of_a_sampler_without_len_is_found(stop):
    """By IndexError, as Grain finds it, with as many elements."""
    theirs = grain.DataLoader(
        data_source=list(range(7)), sampler=Unsized(stop), shard_options=grain.sharding.NoSharding()
    )
    ours = DataLoader(data_source=range(7), sampler=Unsized(stop))
    assert len(ours) == stop
    assert list(ours) == [int(record) for record in theirs]


def test_a_sampler_without_len_and_end_is_endless():
    """Where it never raises IndexError."""
    loader = DataLoader(
        data_source=range(7), sampler=Unsized(math.inf), operations=[headrace.Batch(2)]
    )
    assert next(iter(loader)).tolist() == [0, 3]
    with pytest.raises(TypeError, match="never ends"):
        len(loader)
