"""Restores and changes that are not possible: each is refused before anything is read, with the
reason and a remedy.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.growing_source import GrowingKeys

from headrace import (
    Balance,
    Batch,
    BudgetBatch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ShardOptions,
    load,
)
from headrace.checkpoint import from_grain_state
from headrace.errors import CheckpointError

CASES = {}


def case(error, message):
    """Add a function, which raises `error` with `message`, to the cases."""

    def add(function):
        CASES[function.__name__.strip("_")] = (function, error, message)
        return function

    return add


def on_shards(make, steps):
    """States of shards, each after its own number of steps."""
    states = []
    for shard, count in enumerate(steps):
        with iter(make(ShardOptions(shard, len(steps)))) as iterator:
            for _ in range(count):
                next(iterator)
            states.append(iterator.get_state())
    return states


def restored(chain, states, strict=True, **options):
    """Restore states of all shards, or the state of one, in a chain."""
    with iter(chain) as iterator:
        if isinstance(states, list):
            iterator.set_states(states, strict=strict, **options)
        else:
            iterator.set_state(states, strict=strict)


def _stream(first, count=8):
    return MapDataset.range(first, first + count).to_iter_dataset()


@case(CheckpointError, "zipped datasets .* saved at the same step. Pass such states")
def _shards_of_a_zip_at_different_steps():
    zipped = IterDataset.zip([_stream(0), _stream(100)])
    restored(zipped, on_shards(zipped.shard, [1, 2]))


@case(CheckpointError, "IterDataset.repeat cannot change its number of shards")
def _other_shards_of_a_repeated_stream():
    repeated = _stream(0).repeat(2)
    restored(repeated, on_shards(repeated.shard, [1, 1]))


def _mix(operation, *names, **more):
    parts = {name: _stream(100 * number) for number, name in enumerate(names)}
    return operation(IterDataset.mix(parts | more, when_exhausted="all"))


@case(CheckpointError, "the operations after the mix differ .* Restore with the former operations")
def _a_dataset_more_and_another_operation_after_the_mix():
    def after_a_batch(chain):
        return chain.batch(2).flat_map(list).window_shuffle(4, seed=1)

    (state,) = on_shards(lambda shard: _mix(after_a_batch, "a"), [1])
    restored(_mix(lambda chain: chain, "a", "b"), state, strict=False)


@case(CheckpointError, "dataset 'a' of the mix has other operations .* another name")
def _a_dataset_with_other_operations():
    (state,) = on_shards(lambda shard: _mix(lambda chain: chain, "b", a=_stream(0)), [1])
    shuffled = _stream(0).filter(bool).window_shuffle(3, seed=1)
    restored(_mix(lambda chain: chain, a=shuffled, c=_stream(50)), state, strict=False)


@case(CheckpointError, "Both changes at once are not possible here")
def _a_dataset_more_and_records_omitted_inside_a_window():
    def parts(omit, *names):
        every = {
            name: MapDataset.range(8).omit(omit if name == "a" else []).to_iter_dataset()
            for name in names
        }
        return IterDataset.mix(every, when_exhausted="all").window_shuffle(4, seed=1)

    (state,) = on_shards(lambda shard: parts([1], "a"), [1])
    restored(parts([1, 2], "a", "b"), state, strict=False)


@case(CheckpointError, "held some records. With the changed mix, it would hold other records")
def _other_weights_inside_a_window_after_records_were_omitted():
    def mixed(weights):
        parts = {
            "a": MapDataset.range(8).omit([1]).to_iter_dataset(),
            "b": _stream(100),
        }
        return IterDataset.mix(parts, weights, when_exhausted="all").window_shuffle(4, seed=1)

    (state,) = on_shards(lambda shard: mixed({"a": 1, "b": 1}), [1])
    restored(mixed({"a": 3, "b": 1}), state, strict=False)


def _planned(seed=0, shard=None):
    sampler = IndexSampler(24, shard or ShardOptions(0, 1), shuffle=True, seed=seed, num_epochs=1)
    arrays = [np.full(3, key) for key in range(24)]
    operations = [BudgetBatch(6, pad_to=(3,), lengths=[3] * 24)]
    return DataLoader(data_source=arrays, sampler=sampler, operations=operations)


@case(CheckpointError, "planned from lengths, and this plan differs")
def _another_seed_of_planned_batches():
    (state,) = on_shards(lambda shard: _planned(), [1])
    restored(_planned(seed=1), state, strict=False)


@case(CheckpointError, "planned batches cannot change their number of shards")
def _other_shards_of_planned_batches_before_skipped_steps():
    states = on_shards(lambda shard: _planned(shard=shard).skip([(3, 4)]), [1, 1])
    restored(_planned(), states)


def _eight(shard=None, **options):
    return load(range(8), batch_size=1, num_epochs=1, shard_options=shard, **options)


@case(CheckpointError, "two states are of shard 0, but they differ. Pass one state for each shard")
def _two_states_of_one_shard():
    first, second = (on_shards(_eight, [steps, 1]) for steps in (1, 2))
    restored(_eight(), [*first, second[0]])


@case(TypeError, r"change\(batch_size=\) does not work with balance= on several shards")
def _another_batch_size_of_records_divided_by_cost():
    _balanced(2).change(batch_size=4)


@case(ValueError, "at_step=1 is in the middle of a group of 8 records .* Pass 2")
def _other_weights_inside_a_group_of_records_divided_by_cost():
    _balanced(2).change(weights={"a": 3, "b": 1}, at_step=1)


def _balanced(batches):
    """The iterator of one of two shards of a mix whose records are divided by their costs."""
    parts = {"a": range(32), "b": range(32)}
    costs = {name: [1] * 32 for name in parts}
    sampler = MixSampler(
        parts, balance=Balance(costs, batches=batches), shard_options=ShardOptions(0, 2)
    )
    return iter(DataLoader(data_source=parts, sampler=sampler, operations=[Batch(2)]))


@case(LookupError, "is read by shard [01] of 2")
def _the_step_of_a_record_that_another_shard_reads():
    shards = [_planned(shard=ShardOptions(shard, 2)) for shard in range(2)]
    for loader in shards:
        loader.find(0, 0)


@case(CheckpointError, "equal_steps=True cannot be used with a growing source")
def _one_state_of_a_growing_source():
    with TemporaryDirectory() as folder:
        sizes = Path(folder, "sizes.json")
        sizes.write_text("[8]")

        def growing(shard=None):
            return load(GrowingKeys(sizes), shuffle=True, seed=1, shard_options=shard)

        restored(growing(), on_shards(growing, [1, 1])[:1], equal_steps=True)


@case(CheckpointError, "Grain run on several workers and shards, .* Keep the number of shards")
def _other_shards_after_a_grain_run_with_workers():
    def of_grain(index, count):
        sampler = IndexSampler(12, ShardOptions(index, count), num_epochs=1, algorithm="grain")
        return DataLoader(data_source=range(12), sampler=sampler)

    states = []
    for shard in range(2):
        last = {"last_seen_indices": {"0": 4 + shard, "1": 2 + shard}, "last_worker_index": 0}
        grains = json.dumps({"version": 2, **last, "worker_count": 2}).encode()
        states.append(from_grain_state(grains, of_grain(shard, 2)).get_state())
    restored(of_grain(0, 1), states)


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_a_reason_and_a_remedy(name):
    """The message has under 500 characters."""
    refused, error, message = CASES[name]
    with pytest.raises(error, match=message) as caught:
        refused()
    assert len(str(caught.value)) < 500
