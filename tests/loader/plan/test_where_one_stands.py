"""Iterators and feeders say where their user stands, and show nothing that is not the user's."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, Filter, FlatMap, IndexSampler, ShardOptions, load

DEVICE = jax.devices()[0]


def _opened(loader, on_devices):
    return iter(loader.to_device(DEVICE) if on_devices else loader)


both = pytest.mark.parametrize("on_devices", [False, True])


@both
def test_step_and_epoch_are_those_of_the_batch_received_last(on_devices):
    """However far ahead the work is, and after a restore."""
    loader = load(np.arange(10), batch_size=4, num_epochs=3)
    with _opened(loader, on_devices) as iterator:
        assert (iterator.step, iterator.epoch) == (0, 0)
        iterator.start_prefetch()
        assert (iterator.step, iterator.epoch) == (0, 0)
        seen, states = [], []
        for _ in iterator:
            seen.append((iterator.step, iterator.epoch))
            states.append(iterator.get_state())
    assert seen == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2), (8, 2)]
    with _opened(loader, on_devices) as again:
        for state, place in zip(states, seen):
            again.set_state(state)
            assert (again.step, again.epoch) == place


@pytest.mark.parametrize(
    "operations", [[Filter(lambda x: x % 2), Batch(3)], [FlatMap(lambda x: [x, x, x])]]
)
def test_the_epoch_is_told_whatever_the_operations_drop_or_add(operations):
    """The epoch of the record delivered last."""
    iterator = iter(load(range(6), transformations=operations, num_epochs=4))
    for _ in iterator:
        records = iterator.step * 3 * 2 if len(operations) == 2 else -(-iterator.step // 3)
        assert iterator.epoch == (records - 1) // 6
    assert iterator.epoch == 3


@pytest.mark.parametrize("shard", range(3))
@pytest.mark.parametrize("drop", [False, True])
def test_the_epochs_of_grains_order_are_told(shard, drop):
    """There, each shard has epochs of its own length."""
    sampler = IndexSampler(10, ShardOptions(shard, 3, drop), num_epochs=4, algorithm="grain")
    iterator = iter(DataLoader(data_source=range(10), sampler=sampler))
    length = 3 + (shard == 0 and not drop)
    assert all(iterator.epoch == index // length for index, _ in enumerate(iterator))


@both
def test_an_iterator_has_passed_what_it_delivered_whatever_is_skipped(on_devices):
    """`passed` grows by one with each element, up to `len()`, so a progress line with skipped steps
    ends full.
    """
    loader = load(np.arange(48), batch_size=4, num_epochs=1).skip([(0, 1), (2, 4), (11, 12)])
    with _opened(loader, on_devices) as iterator:
        found = [iterator.passed, *(iterator.passed for _ in iterator)]
        assert found == list(range(len(iterator) + 1))
    shards = [
        iter(
            load(np.arange(48), batch_size=4, num_epochs=1, shard_options=ShardOptions(i, 2)).skip(
                [(1, 2)]
            )
        )
        for i in range(2)
    ]
    for shard in shards:
        next(shard), next(shard)
    with _opened(load(np.arange(48), batch_size=8, num_epochs=1), on_devices) as whole:
        whole.set_states([shard.get_state() for shard in shards])
        found = [whole.passed, *(whole.passed for _ in whole)]
        assert found == list(range(len(whole) + 1))


@both
def test_an_iterator_has_the_length_of_its_loader(on_devices):
    """Also in the middle, with steps left out, and where the number of shards changed; endless ones
    have none.
    """
    loader = load(np.arange(48), batch_size=4, num_epochs=1).skip([(2, 4)])
    with _opened(loader, on_devices) as iterator:
        for _ in itertools.islice(iterator, 5):
            assert len(iterator) == len(loader) == 10
        assert len(list(iterator)) == 5
    shards = [
        load(np.arange(48), batch_size=4, num_epochs=1, shard_options=ShardOptions(i, 2))
        for i in range(2)
    ]
    states = []
    for shard in shards:
        first = iter(shard)
        next(first)
        states.append(first.get_state())
    with _opened(load(np.arange(48), batch_size=8, num_epochs=1), on_devices) as whole:
        whole.set_states(states)
        assert (len(whole), len(list(whole))) == (5, 5)
    with _opened(load([1]), on_devices) as endless:
        assert endless
        with pytest.raises(TypeError, match="never ends"):
            len(endless)


@pytest.mark.slow
def test_an_iterator_prints_where_it_stands():
    """Step, epoch, workers and source."""
    with iter(load({"x": np.arange(6)}, batch_size=4, worker_count=1)) as iterator:
        next(iterator), next(iterator)
        told = "step=2, epoch=1, worker_count=1, data_source=MemorySource(6 records of dict)"
        assert repr(iterator) == f"DataLoaderIterator({told})"
    with iter(load({"x": np.arange(6)}, batch_size=4).to_device(DEVICE)) as feeder:
        next(feeder)
        told = "step=1, epoch=0, worker_count=0, data_source=MemorySource(6 records of dict)"
        assert repr(feeder) == f"DeviceFeeder({told})"


def test_a_feeder_of_something_else_knows_no_step():
    """It says so, and prints what it reads from."""
    with iter(headrace.device_put([np.ones(2)], DEVICE)) as feeder:
        next(feeder)
        assert repr(feeder) == "DeviceFeeder(source=list_iterator)"
        for ask in (lambda: feeder.step, lambda: feeder.epoch, lambda: len(feeder)):
            with pytest.raises(TypeError, match="needs the iterator of a DataLoader"):
                ask()
        for ask in (lambda: feeder.part_epochs, lambda: feeder.part_records):
            with pytest.raises(AttributeError, match="needs the iterator of a DataLoader"):
                ask()


def test_dir_shows_what_is_for_users():
    """Names without an underscore are those of the documentation."""
    loader = load(np.arange(4), batch_size=2)
    state = {
        "get_state",
        "set_state",
        "set_states",
        "state_dict",
        "load_state_dict",
        "save",
        "load",
    }
    state |= {"get_extra_state", "set_extra_state"}
    shared = state | {
        "change",
        "close",
        "ended",
        "epoch",
        "here",
        "host_iterator",
        "last_records",
        "part_epochs",
        "part_records",
        "passed",
        "records_at",
        "skipped_count",
        "snapshot",
        "start_prefetch",
        "stats",
        "step",
    }
    with iter(loader.to_device(DEVICE)) as feeder:
        assert _shown(feeder) == shared | {"mask"}
    assert _shown(iter(loader)) == shared | {
        "as_made",
        "execution",
        "go_back",
        "pipeline",
        "take_up",
    }
    assert _shown(headrace.checkpoint) == set(headrace.checkpoint.__all__)
    assert _shown(loader) == {
        *(
            "across_hosts",
            "epochs",
            "find",
            "loader_description",
            "records_at",
            "skip",
            "to_device",
            "with_batch_size",
        )
    }


def _shown(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.mark.parametrize("records", range(6, 20))
def test_records_of_batches_of_batches_are_those_that_come(records):
    """The last batch is dropped only where it is short: `records_at` knows it, whatever the batches
    inside.
    """
    loader = DataLoader(
        data_source=range(records),
        sampler=IndexSampler(records, num_epochs=1),
        operations=[Batch(3), Batch(2, drop_remainder=True)]
        if records % 3 == 0
        else [Batch(3, True), Batch(2)],
    )
    delivered = [np.ravel(element).tolist() for element in loader]
    assert [loader.records_at(step).tolist() for step in range(len(delivered))] == delivered
    with pytest.raises(IndexError):
        loader.records_at(len(delivered))
