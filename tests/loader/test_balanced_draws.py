"""Shards of equal cost where records are drawn by weight or by class: the same global batches,
elastic, resumed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import headrace
from headrace import (
    Balance,
    BalancedSampler,
    Batch,
    DataLoader,
    MixSampler,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError, LengthsError

RECORDS, GLOBAL = 50, 42
LENGTHS = np.clip(np.random.default_rng(1).lognormal(3, 1, RECORDS), 1, 200).astype(np.int64)
WEIGHTS = np.arange(RECORDS) % 7
COST = headrace.attention(0, 1)
SAMPLERS = {
    "with": lambda **more: WeightedSampler(WEIGHTS, 75, seed=1, **more),
    "without": lambda **more: WeightedSampler(WEIGHTS, replacement=False, seed=1, **more),
    "balanced": lambda **more: BalancedSampler(WEIGHTS % 3, seed=1, **more),
    "balanced by weights": lambda **more: BalancedSampler(WEIGHTS % 3, [1, 2, 0.5], seed=1, **more),
}


def _loader(
    name, shard=0, shards=1, *, size=None, operations=(), balance=None, epochs=3, **options
):
    """Batches of 42 records of all shards together; records are their keys."""
    balance = balance or Balance(LENGTHS, COST)
    sampler = SAMPLERS[name](
        num_epochs=epochs, balance=balance, shard_options=ShardOptions(shard, shards)
    )
    size = GLOBAL // shards if size is None else size
    return DataLoader(
        data_source=range(RECORDS),
        sampler=sampler,
        operations=[*operations, Batch(size)],
        **options,
    )


def _keys(batches):
    return sorted(np.concatenate([np.empty(0, np.int64), *batches]).tolist())


def _drawn(name, start=0):
    """The oracle: the keys of all positions, in order."""
    sampler = SAMPLERS[name](num_epochs=3)
    return sampler.record_keys(np.arange(start, len(sampler)))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("shards", [1, 2, 3, 7])
@pytest.mark.one_in(4)
def test_global_batches_are_those_without_balance(name, shards):
    """Each has the records of its positions, and the largest sum of a shard is smaller, in the
    mean.
    """
    keys = _drawn(name)
    streams = [list(_loader(name, shard, shards)) for shard in range(shards)]
    worst = worst_in_turn = 0
    for step, start in enumerate(range(0, len(keys) - GLOBAL + 1, GLOBAL)):
        batches = [stream[step] for stream in streams]
        expected = keys[start : start + GLOBAL]
        assert _keys(batches) == sorted(expected.tolist())
        worst += max((LENGTHS[batch] ** 2).sum() for batch in batches)
        worst_in_turn += max(
            (LENGTHS[expected[shard::shards]] ** 2).sum() for shard in range(shards)
        )
    assert worst < worst_in_turn or shards == 1
    assert _keys(batch for stream in streams for batch in stream) == sorted(keys.tolist())
    for stream, shard in zip(streams, range(shards)):
        assert [
            _loader(name, shard, shards).records_at(step).tolist() for step in range(len(stream))
        ] == [batch.tolist() for batch in stream]


def test_a_loop_for_each_epoch_deals_its_own_batches():
    """Whose positions begin with the epoch."""
    loops = [list(map(list, _loader("with", shard, 3).epochs(3))) for shard in range(3)]
    for number, epochs in enumerate(zip(*loops)):
        keys = SAMPLERS["with"]().record_keys(np.arange(75 * number, 75 * (number + 1)))
        for start, batches in zip((0, 42), zip(*epochs)):
            assert _keys(batches) == sorted(keys[start : start + GLOBAL].tolist())


def test_other_weights_come_between_two_global_batches():
    """On as many shards or on others; inside a block that was dealt they are refused."""

    def loader(weights, shard, shards, batches=1):
        balance = Balance(LENGTHS, COST, batches=batches)
        sampler = WeightedSampler(weights, 75, num_epochs=2, seed=1, balance=balance)
        return DataLoader(
            data_source=range(RECORDS),
            sampler=sampler,
            operations=[Batch(GLOBAL // shards)],
            shard_options=ShardOptions(shard, shards),
        )

    new = np.arange(RECORDS) % 2
    expected = (
        WeightedSampler(new, 75, num_epochs=2, seed=1).record_keys(np.arange(GLOBAL, 150)).tolist()
    )
    states = []
    for shard in range(3):
        iterator = iter(loader(WEIGHTS, shard, 3))
        next(iterator)
        states.append(iterator.get_state())
    for shards in (2, 3):
        left = []
        for shard in range(shards):
            iterator = iter(loader(new, shard, shards))
            iterator.set_states(states, strict=False)
            left += list(iterator)
        assert _keys(left) == sorted(expected)
    iterator = iter(loader(WEIGHTS, 0, 3, batches=2))
    next(iterator)
    with pytest.raises(
        CheckpointError,
        match="weights changed, and the checkpoint was saved inside a global batch of 84 records",
    ):
        iter(loader(new, 0, 3, batches=2)).set_states(
            [iterator.get_state()], strict=False, equal_steps=True
        )


def test_balance_is_a_part_of_the_identity():
    """A state of a balanced run is refused without; a sampler without has the fingerprint that it
    always had.
    """
    for make in SAMPLERS.values():
        balanced, plain = make(balance=Balance(LENGTHS)).fingerprint, make().fingerprint
        assert {**plain, "balance": balanced["balance"]} == balanced
        assert "balance" not in plain
    iterator = iter(_loader("with", 0, 2))
    next(iterator)
    plain = DataLoader(
        data_source=range(RECORDS),
        sampler=SAMPLERS["with"](num_epochs=3),
        operations=[Batch(21)],
        shard_options=ShardOptions(0, 2),
    )
    with pytest.raises(CheckpointError, match="balance"):
        iter(plain).set_state(iterator.get_state())


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_cannot_be_balanced_is_refused(name):
    """Other things than a balance, and lengths that are too few; a part of a mix is balanced by the
    mix.
    """
    with pytest.raises(TypeError, match=r"Pass headrace\.Balance\(lengths, cost\)"):
        SAMPLERS[name](balance=True)
    with pytest.raises(LengthsError, match="49 lengths, but there are 50 records"):
        SAMPLERS[name](balance=Balance(LENGTHS[1:]))
    with pytest.raises(ValueError, match="part 'a' of the mix has its own"):
        MixSampler({"a": SAMPLERS[name](balance=Balance(LENGTHS)), "b": 5})
    mix = MixSampler(
        {"a": SAMPLERS[name](num_epochs=1), "b": 5},
        shard_options=ShardOptions(0, 2),
        balance=Balance({"a": LENGTHS, "b": LENGTHS[:5]}),
    )
    sources = {"a": range(RECORDS), "b": range(5)}
    assert len(next(iter(DataLoader(data_source=sources, sampler=mix, operations=[Batch(4)])))) == 4


@pytest.mark.parametrize("count", [49, 51])
def test_each_record_has_one_weight(count):
    """Fewer or more of them than records are an error that says both numbers; of a part of a mix,
    too.
    """
    weighted = [
        (WeightedSampler(WEIGHTS), "weights"),
        (WeightedSampler(WEIGHTS, replacement=False), "weights"),
        (BalancedSampler(WEIGHTS), "labels"),
    ]
    for sampler, what in weighted:
        with pytest.raises(
            ValueError, match=f"the sampler has 50 {what}, but the source has {count} records"
        ):
            DataLoader(data_source=range(count), sampler=sampler)
        sources = {"web": range(count), "books": range(9)}
        with pytest.raises(ValueError, match=f"50 {what}, but part 'web' has {count} records"):
            DataLoader(data_source=sources, sampler=MixSampler({"web": sampler, "books": 9}))
    keys = next(
        iter(
            DataLoader(data_source=range(RECORDS), sampler=weighted[0][0], operations=[Batch(2000)])
        )
    )
    assert set(Counter(keys.tolist())) == set(np.flatnonzero(WEIGHTS).tolist())
