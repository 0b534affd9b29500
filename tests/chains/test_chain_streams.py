"""Chains as streams: what an equal DataLoader gives, whatever the workers; states,
shards, devices.
"""

from __future__ import annotations

import os
import random
import threading
import time

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MapDataset,
    MapWithIndexTransform,
    RandomMapTransform,
    ShardOptions,
)
from headrace.errors import CheckpointError, EmptyStreamError

RECORDS = 50
ARRAYS = {"x": np.arange(RECORDS), "y": np.arange(RECORDS * 3.0).reshape(RECORDS, 3)}


def twice(element):
    """Doubles x."""
    return {"x": element["x"] * 2, "y": element["y"]}


def noisy(element, rng):
    """Adds random numbers to y."""
    return {"x": element["x"], "y": element["y"] + rng.random(3)}


def indexed(index, element):
    """Adds the index."""
    return {"x": element["x"], "index": index, "y": element["y"]}


def some(element):
    """Keeps two of three."""
    return int(element["x"]) % 3 != 0


def copies(element):
    """None, one or two."""
    return [element] * (int(element["x"]) % 3)


def chain(epochs=2):
    """Shuffled epochs."""
    return MapDataset.source(ARRAYS).shuffle(seed=7).repeat(epochs)


EQUAL = {
    "batch": ([Batch(8)], lambda d: d.batch(8)),
    "columns": ([Batch(8, drop_remainder=True)], lambda d: d.batch(8, drop_remainder=True)),
    "map": ([twice, Batch(8)], lambda d: d.map(twice).batch(8)),
    "random": (
        [
            twice,
            RandomMapTransform(noisy),
            Batch(8),
            RandomMapTransform(lambda e, rng: (e["x"], rng.random())),
        ],
        lambda d: (
            d.map(twice)
            .random_map(noisy, seed=7)
            .batch(8)
            .to_iter_dataset()
            .random_map(lambda e, rng: (e["x"], rng.random()), seed=7)
        ),
    ),
    "random in random access": (
        [
            RandomMapTransform(noisy),
            Batch(8),
            RandomMapTransform(lambda e, rng: (e["x"], rng.random())),
        ],
        lambda d: (
            d.random_map(noisy, seed=7)
            .batch(8)
            .random_map(lambda e, rng: (e["x"], rng.random()), seed=7)
        ),
    ),
    "index": (
        [MapWithIndexTransform(indexed), Batch(8)],
        lambda d: d.map_with_index(indexed).batch(8),
    ),
    "filter": (
        [
            twice,
            Filter(some),
            RandomMapTransform(noisy),
            MapWithIndexTransform(indexed),
            Batch(8),
            lambda e: e["y"],
        ],
        lambda d: (
            d.map(twice)
            .filter(some)
            .random_map(noisy, seed=7)
            .map_with_index(indexed)
            .to_iter_dataset()
            .batch(8)
            .map(lambda e: e["y"])
        ),
    ),
    "flat map": (
        [FlatMap(copies), RandomMapTransform(noisy), Batch(8)],
        lambda d: (
            d.flat_map(copies, max_fan_out=2).random_map(noisy, seed=7).to_iter_dataset().batch(8)
        ),
    ),
    "flat map of a stream": (
        [FlatMap(copies), RandomMapTransform(noisy), Batch(8)],
        lambda d: d.to_iter_dataset().flat_map(copies).random_map(noisy, seed=7).batch(8),
    ),
    "no batch": ([twice], lambda d: d.map(twice)),
}


def as_stream(dataset):
    """A dataset of either kind as a stream."""
    return dataset.to_iter_dataset() if isinstance(dataset, MapDataset) else dataset


def assert_equal_streams(first, second):
    """The same elements, and some."""
    first, second = list(first), list(second)
    assert len(first) == len(second) > 0
    for one, other in zip(first, second):
        np.testing.assert_equal(one, other)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", EQUAL)
def test_a_chain_gives_what_the_equal_loader_gives(name):
    """Byte for byte: unsharded, in shards, in threads and processes; and at each index, where there
    is one.
    """
    operations, make = EQUAL[name]
    sampler = IndexSampler(RECORDS, shuffle=True, seed=7, num_epochs=2)
    for shard in (ShardOptions(0, 1), ShardOptions(1, 3), ShardOptions(2, 3, drop_remainder=True)):
        loader = DataLoader(
            data_source=ARRAYS, sampler=sampler, operations=operations, shard_options=shard
        )
        stream = as_stream(make(chain())).shard(shard)
        assert_equal_streams(loader, stream)
        assert_equal_streams(loader, stream.with_options(worker_count=2, worker_kind="thread"))
    assert_equal_streams(loader, stream.mp_prefetch(2))


@pytest.mark.parametrize("name", EQUAL)
def test_elements_are_the_same_at_an_index_and_in_a_stream(name):
    """All those that a filter has not left out, in order."""
    dataset = EQUAL[name][1](chain())
    if isinstance(dataset, MapDataset):
        assert_equal_streams(
            (each for each in map(dataset.__getitem__, range(len(dataset))) if each is not None),
            dataset,
        )
        evaluated = dataset.to_iter_dataset(allow_nones=True)
        assert_equal_streams((each for each in evaluated if each is not None), dataset)


def draw(element, rng):
    """Appends a random number to a tuple."""
    return (*element, rng.random())


ODD = {
    "random below a shuffle": lambda d: (
        d.map(lambda x: (x,)).random_map(draw, seed=1).shuffle(2).random_map(draw, seed=1)
    ),
    "index below a shuffle": lambda d: (
        d.map_with_index(lambda i, x: i * 100 + x).shuffle(2).repeat(2)
    ),
    "repeats of random maps": lambda d: (
        d.map(lambda x: (x,)).random_map(draw, seed=1).repeat(3).random_map(draw, seed=1)
    ),
    "same epoch again": lambda d: (
        d.map(lambda x: (x,)).random_map(draw, seed=1).repeat(2, reseed_each_epoch=False)
    ),
    "batches repeated": lambda d: d.shuffle(1).batch(4).repeat(2),
    "whole batches repeated": lambda d: d.shuffle(1).batch(4, drop_remainder=True).repeat(2),
    "whole batches of indices repeated": lambda d: (
        d.map_with_index(lambda i, x: i * 100 + x).batch(4, drop_remainder=True).repeat(2)
    ),
    "even batches repeated": lambda d: d[:20].shuffle(1).batch(4).map(lambda x: x + 1).repeat(3),
    "shuffled batches": lambda d: d.batch(4).shuffle(1),
    "batches of batches": lambda d: d[:20].batch(2).map(lambda x: x * 2).batch(5).repeat(2),
    "batches by index": lambda d: d.batch(4).map_with_index(lambda i, x: x * 0 + i),
    "flat maps": lambda d: (
        d.flat_map(lambda x: range(x % 3), max_fan_out=3)
        .flat_map(lambda x: [(x,)] * x, max_fan_out=2)
        .random_map(draw, seed=1)
    ),
    "flat map by index": lambda d: d.flat_map(
        lambda x: [x] * (x % 3), max_fan_out=2
    ).map_with_index(lambda i, x: (i, x)),
    "flat map repeated": lambda d: (
        d.flat_map(lambda x: [(x,)] * (x % 3), max_fan_out=2).random_map(draw, seed=1).repeat(2)
    ),
    "flat map repeated, random": lambda d: (
        d.flat_map(lambda x: [(x,)] * (x % 3), max_fan_out=2).repeat(2).random_map(draw, seed=1)
    ),
    "batches repeated, random": lambda d: (
        d.batch(4).repeat(2).random_map(lambda x, rng: x + rng.random(), seed=1)
    ),
    "whole batches repeated, random": lambda d: (
        d.batch(4, drop_remainder=True)
        .repeat(2)
        .random_map(lambda x, rng: x + rng.random(), seed=1)
    ),
    "even batches taken apart, random": lambda d: (
        d[:20]
        .batch(4)
        .flat_map(lambda x: [(y,) for y in x[:3]], max_fan_out=4)
        .repeat(2)
        .random_map(draw, seed=1)
    ),
    "flat map shuffled": lambda d: d.flat_map(lambda x: [x] * (x % 3), max_fan_out=2).shuffle(3),
    "filters shuffled": lambda d: (
        d.filter(lambda x: x % 3).shuffle(1).filter(lambda x: x % 2).repeat(2)
    ),
    "windows of blocks": lambda d: (
        d.block_shuffle(4, seed=1).window_shuffle(8, seed=1).repeat(2)[3:40]
    ),
    "concatenated": lambda d: MapDataset.concatenate(
        [d.filter(lambda x: x % 2), d.shuffle(1)[:7]]
    ).shuffle(1),
    "zipped": lambda d: MapDataset.zip([d.shuffle(1), d.filter(lambda x: x % 2)]).map(str),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ODD)
def test_what_the_engine_takes_apart_changes_nothing(name):
    """Whatever part of a chain runs as order and operations of the engine, elements are those at
    each index.
    """
    dataset = ODD[name](MapDataset.range(22))
    at_each_index = [
        each for each in map(dataset.__getitem__, range(len(dataset))) if each is not None
    ]
    assert_equal_streams(at_each_index, dataset)
    assert_equal_streams(
        at_each_index, [each for each in dataset[range(len(dataset))] if each is not None]
    )
    stream = dataset.to_iter_dataset()
    assert_equal_streams(at_each_index, stream.with_options(worker_count=2, worker_kind="thread"))
    shards = [
        list(dataset.to_iter_dataset(shard_options=ShardOptions(index, 2))) for index in range(2)
    ]
    if "batch" not in name:
        assert sorted(map(str, shards[0] + shards[1])) == sorted(map(str, at_each_index))


@pytest.mark.parametrize(
    ("name", "operations"),
    [("batches repeated", 0), ("whole batches repeated", 1), ("even batches repeated", 2), ("repeats of random maps", 3),
     ("filters shuffled", 2), ("flat map repeated", 2), ("random below a shuffle", 1)],
)  # fmt: skip
def test_as_much_as_possible_runs_as_operations(name, operations):
    """So that batches are made on slabs, and orders in blocks."""
    assert (
        repr(ODD[name](MapDataset.range(22)).to_iter_dataset())
        == f"IterDataset(1 source, {operations} operations)"
    )


def test_a_state_of_another_chain_is_refused():
    """Another seed, order, function or source; the same chain made again is the same."""

    def stream(seed=1, by=2, records=40, window=4):
        dataset = MapDataset.range(records).window_shuffle(window, seed).batch(2).shuffle(seed)
        return iter(dataset.map(lambda x: x * by).to_iter_dataset())

    state = stream().get_state()
    stream().set_state(state)
    for changes in ({"seed": 2}, {"by": 3}, {"records": 41}, {"window": 5}):
        with pytest.raises(CheckpointError, match="another pipeline"):
            stream(**changes).set_state(state)


@pytest.mark.slow
def test_rebatch_gives_the_same_rows_in_other_batches():
    """As Grain does; with states inside a batch that is taken apart."""
    import grain

    theirs = grain.MapDataset.range(10).batch(4).to_iter_dataset()
    theirs = grain.experimental.RebatchIterDataset(theirs, 3)
    ours = MapDataset.range(10).batch(4).to_iter_dataset().rebatch(3)
    assert_equal_streams(ours, theirs)
    iterator = iter(ours)
    next(iterator)
    again = iter(ours.mp_prefetch(1))
    again.set_state(iterator.get_state())
    assert [batch.tolist() for batch in again] == [[3, 4, 5], [6, 7, 8], [9]]
    trees = MapDataset.source(ARRAYS).batch(7).to_iter_dataset().rebatch(20, drop_remainder=True)
    assert [batch["y"].shape for batch in trees] == [(20, 3), (20, 3)]


def test_streams_know_their_length_as_loaders_do():
    """Batches of a shard; but not after a filter, nor of what never ends."""
    dataset = MapDataset.range(50).batch(8)
    assert len(dataset.to_iter_dataset()) == 7
    assert len(dataset.to_iter_dataset(shard_options=ShardOptions(0, 2))) == 4
    for unknown in (
        dataset.to_iter_dataset().filter(bool),
        MapDataset.range(5).repeat().to_iter_dataset(),
    ):
        with pytest.raises(TypeError):
            len(unknown)
    with pytest.raises(EmptyStreamError):
        iter(MapDataset.range(5).batch(8, drop_remainder=True).to_iter_dataset())


@pytest.mark.parametrize(
    "stream",
    [
        MapDataset.range(5).repeat().to_iter_dataset().limit(3),
        MapDataset.range(5).to_iter_dataset().limit(9).batch(2),
        MapDataset.range(5).repeat(2).to_iter_dataset().batch(3).limit(9).batch(3),
        MapDataset.range(5).to_iter_dataset().repeat(3),
        MapDataset.range(5).to_iter_dataset().repeat().limit(7).batch(3, drop_remainder=True),
        MapDataset.range(5).to_iter_dataset(shard_options=ShardOptions(1, 2)).cache().repeat(2),
    ],
    ids=["limit", "batches", "batches of batches", "repeat", "part of an endless repeat", "shard"],
)
def test_limits_and_repeats_of_known_streams_have_a_length(stream):
    """It is the number of elements that come, wherever the stream stands; also with an endless
    stream below the limit.
    """
    with iter(stream) as iterator:
        lengths = {len(stream), len(iterator), *(len(iterator) for _ in iterator)}
        assert lengths == {iterator.passed} == {len(list(stream))}


@pytest.mark.parametrize("endless", [False, True])
def test_a_limit_after_a_filter_has_no_length(endless):
    """The message says that the length is unknown, not that the stream never ends."""
    dataset = MapDataset.range(5).repeat(None if endless else 2)
    with pytest.raises(TypeError, match=r"is unknown before they are read, because of .* a Filter"):
        len(dataset.to_iter_dataset().filter(lambda x: x % 2).limit(3))
    with pytest.raises(TypeError, match="never ends"):
        len(dataset.to_iter_dataset().repeat())


@pytest.mark.slow
def test_options_change_where_the_work_is_done():
    """Errors left out, threads, Grain's options for processes; never the stream."""

    class Options:
        num_workers = 1
        per_worker_buffer_size = 2

    stream = (
        MapDataset.range(10)
        .map(lambda x: 10 // (x - 3))
        .to_iter_dataset(headrace.ReadOptions(num_threads=0))
    )
    iterator = iter(stream.with_options(on_error="skip", max_errors=1))
    assert (list(iterator), iterator.skipped_count) == (
        [10 // (x - 3) for x in range(10) if x != 3],
        1,
    )
    assert list(MapDataset.range(10).to_iter_dataset().mp_prefetch(Options())) == list(range(10))


@pytest.mark.slow
def test_a_function_is_called_in_each_worker_before_its_first_task():
    """With its number and how many there are; order and elements are as without it, with
    `sequential_slice` too.
    """

    def named(number, count):
        os.environ["OF_A_TEST"] = f"{number} of {count}"

    stream = (
        MapDataset.range(40)
        .to_iter_dataset()
        .map(lambda x: (x, os.environ["OF_A_TEST"]))
        .batch(1, batch_fn=list)
    )
    found = [
        pair for batch in stream.mp_prefetch(2, named, sequential_slice=True) for pair in batch
    ]
    assert [x for x, _ in found] == list(range(40))
    assert {name for _, name in found} <= {"0 of 2", "1 of 2"}
    assert "OF_A_TEST" not in os.environ


class NeedsSetting:
    """A source that cannot be unpickled but where a setting was made."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index

    def __reduce__(self):
        return _unpickled_with_setting, ()


def _unpickled_with_setting():
    if "OF_A_TEST" not in os.environ:
        raise LookupError("there is no setting")
    return NeedsSetting()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.one_in(2)
@pytest.mark.slow
def test_a_function_is_called_in_each_worker_before_anything_else_is_unpickled(fresh, monkeypatch):
    """The source finds what the function has set, also in workers that are fresh interpreters; what
    both have is one thing.
    """
    if fresh:
        monkeypatch.setenv("HEADRACE_TRANSPORT", "portable")
    shared = []

    def sets(number, count):
        os.environ["OF_A_TEST"] = "set"
        shared.append(number)

    stream = MapDataset.source(NeedsSetting()).map(lambda x: (x, len(shared))).to_iter_dataset()
    assert list(stream.mp_prefetch(2, sets)) == [(x, 1) for x in range(20)]
    for unset in (None, lambda number, count: None):
        with pytest.raises(LookupError, match="there is no setting") as caught:
            list(stream.mp_prefetch(2, unset))
        assert any("could not unpickle the pipeline" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_function_that_seeds_a_worker_has_the_last_word():
    """Global random numbers are those of its seed."""

    def seeds(number, count):
        random.seed(7)

    stream = MapDataset.range(1).map(lambda x: random.random()).to_iter_dataset()
    with pytest.warns(UserWarning, match="draws from the global generator"):
        assert list(stream.mp_prefetch(1, seeds)) == [random.Random(7).random()]


@pytest.mark.slow
def test_what_fails_before_the_first_task_of_a_worker_is_told_as_it_is():
    """With a note; without worker processes a warning says that the function is not called."""
    stream = MapDataset.range(4).to_iter_dataset()
    with pytest.raises(ZeroDivisionError) as caught:
        list(stream.mp_prefetch(1, lambda number, count: number // 0))
    assert "worker_init_fn failed in worker 0 of 1" in caught.value.__notes__[0]
    with pytest.warns(UserWarning, match="worker_init_fn is not called with worker_count=0"):
        list(stream.mp_prefetch(0, print))
    with pytest.raises(TypeError, match="worker_init_fn=3 is an int"):
        stream.mp_prefetch(1, 3)
    with pytest.warns(UserWarning, match="timeout"):
        iter(MapDataset.range(10).to_iter_dataset().with_options(timeout=5.0)).close()


def test_prefetch_makes_elements_on_a_thread_ahead_of_the_loop():
    """As many as it is told; a stream with workers keeps them, and 0 makes none ahead."""
    made = []
    stream = (
        MapDataset.range(10)
        .to_iter_dataset()
        .map(lambda x: made.append(threading.current_thread().name) or x)
    )
    with iter(stream.prefetch(3)) as iterator:
        assert next(iterator) == 0
        until = time.monotonic() + 20
        while len(made) < 4 and time.monotonic() < until:
            time.sleep(1e-3)
        assert len(made) >= 4
        assert set(made) == {"headrace-worker_0"}
        assert list(iterator) == list(range(1, 10))
    made.clear()
    assert list(stream.prefetch(0)) == list(range(10))
    assert set(made) == {threading.current_thread().name}
    options = stream.mp_prefetch(2).prefetch(4).chain_stream.execution
    assert (options.worker_count, options.worker_kind, options.worker_buffer_size) == (2, None, 4)
    options = stream.prefetch(4).mp_prefetch(2).chain_stream.execution
    assert (options.worker_count, options.worker_kind) == (2, None)
    options = stream.with_options(worker_kind="thread").mp_prefetch(2).chain_stream.execution
    assert (options.worker_count, options.worker_kind) == (2, "thread")
    with pytest.raises(ValueError, match=r"prefetch: count=-1 .*mp_prefetch\(2\)"):
        stream.prefetch(-1)


def test_failures_say_where_they_arose():
    """In the operation, or in the reading of what was evaluated as a source; with the user's own
    exception.
    """

    def fails(x):
        if x == 5:
            raise KeyError("five")
        return x

    for chain in (
        MapDataset.range(10).map(fails),
        MapDataset.range(10).map(fails).batch(1).shuffle(1),
    ):
        with pytest.raises(KeyError, match="five") as caught:
            list(chain)
        assert "headrace: " in caught.value.__notes__[0]


def test_a_stream_goes_on_devices():
    """As a loader's does."""
    jax = pytest.importorskip("jax")
    stream = MapDataset.range(6).batch(3).to_iter_dataset()
    with iter(stream.to_device(jax.devices()[0])) as feeder:
        assert [batch.tolist() for batch in feeder] == [[0, 1, 2], [3, 4, 5]]


SAME_AS_GRAIN = {
    "filter": lambda stream: stream.filter(lambda x: x % 3),
    "map": lambda stream: stream.map(lambda x: x + 1),
    "map with index": lambda stream: stream.map_with_index(lambda i, x: (i, x)),
    "batch": lambda stream: stream.filter(lambda x: x % 3).batch(4),
    "batch, rest dropped": lambda stream: stream.batch(4, drop_remainder=True),
    "batch by function": lambda stream: stream.batch(4, batch_fn=sum),
    "batches mapped": lambda stream: (
        stream.batch(4).map(lambda x: x * 2).filter(lambda x: x[0] % 16)
    ),
    "pipe": lambda stream: stream.pipe(lambda s, size: s.batch(size), size=5),
}


@pytest.mark.parametrize("name", SAME_AS_GRAIN)
def test_streams_give_what_grain_gives(name):
    """Element by element, after what MapDatasets leave out as well."""
    import grain

    make = SAME_AS_GRAIN[name]
    for before in (lambda d: d, lambda d: d[1::2].repeat(2)):
        ours, theirs = (
            make(before(kind.range(22)).to_iter_dataset())
            for kind in (MapDataset, grain.MapDataset)
        )
        assert_equal_streams(ours, theirs)
