"""Chains of up to eight random methods: the same at an index and in a stream, with workers, from any state, and in shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import IterDataset, MapDataset, ShardOptions


def draw(element, rng):
    """An element with a random number that keeps its place."""
    return element + rng.random()


def indexed(index, element):
    """An element that knows its index."""
    return element + index / 1000


def some(element):
    """Two of three."""
    return int(np.sum(element)) % 3 != 0


def copies(element):
    """None, one or two."""
    return [element + 0.5, element - 0.5][: int(np.sum(element)) % 3]


def documents(element):
    """An array of tokens."""
    return np.full(1 + int(np.sum(element)) % 5, int(np.sum(element)) % 97)


def added(pair):
    """The sum of two elements, of which the first may have been left out."""
    return (0 if pair[0] is None else pair[0]) + pair[1]


def in_batches(dataset, size, **options):
    """Sums of batches, where nothing was left out before, and there is a whole batch."""
    try:
        found = dataset.batch(size, **options).map(np.sum)
    except ValueError:
        return dataset
    return found if len(found) else dataset


METHODS = {
    "shuffle": lambda d: d.shuffle(7),
    "window": lambda d: d.window_shuffle(5, 7),
    "block": lambda d: d.block_shuffle(4, 7),
    "slice": lambda d: d[1::2],
    "backwards": lambda d: d[::-1],
    "repeat": lambda d: d.repeat(2) if len(d) < 60 else d,
    "same again": lambda d: d.repeat(2, reseed_each_epoch=False) if len(d) < 60 else d,
    "map": lambda d: d.map(lambda x: x + 1),
    "random": lambda d: d.random_map(draw, seed=3),
    "index": lambda d: d.map_with_index(indexed),
    "filter": lambda d: d.filter(some),
    "flat map": lambda d: d.flat_map(copies, max_fan_out=2) if len(d) < 60 else d,
    "batch": lambda d: in_batches(d, 2),
    "full batch": lambda d: in_batches(d, 3, drop_remainder=True),
    "concatenate": lambda d: MapDataset.concatenate([d, MapDataset.range(5)]),
    "mix": lambda d: MapDataset.mix([d.shuffle(1), MapDataset.range(100, 120)], [2, 1], when_exhausted="all"),
    "zip": lambda d: MapDataset.zip([d, MapDataset.range(len(d))]).map(added),
}

STREAMS = {
    "map": lambda s: s.map(lambda x: x * 2),
    "random": lambda s: s.random_map(draw, seed=4),
    "filter": lambda s: s.filter(some),
    "flat map": lambda s: s.flat_map(copies),
    "window": lambda s: s.window_shuffle(4, seed=1),
    "limit": lambda s: s.limit(20),
    "repeat": lambda s: s.repeat(2),
    "mix": lambda s: IterDataset.mix([s, MapDataset.range(9).to_iter_dataset()], when_exhausted="all"),
    "interleave": lambda s: IterDataset.interleave([s, MapDataset.range(9).to_iter_dataset().filter(some)]),
    "pack": lambda s: s.map(documents).pack(8, window=7).map(lambda row: row["tokens"].sum()),
    "batch": lambda s: s.batch(3).map(np.sum),
}

EXAMPLES = settings(deadline=None, suppress_health_check=list(HealthCheck))


def made(names):
    """The dataset of methods, applied one after the other."""
    dataset = MapDataset.source(list(range(3, 26)))
    for name in names:
        if len(dataset):
            dataset = METHODS[name](dataset)
    return dataset


def _same_everywhere(dataset):
    each = [dataset[index] for index in range(len(dataset))]
    np.testing.assert_equal(dataset[range(len(dataset))], each)
    present = [element for element in each if element is not None]
    np.testing.assert_equal(list(dataset), present)
    np.testing.assert_equal([e for e in dataset.to_iter_dataset(allow_nones=True) if e is not None], present)
    return present


def _same_in_shards(dataset, present):
    shards = [list(dataset.to_iter_dataset(shard_options=ShardOptions(index, 3))) for index in range(3)]
    assert sorted(element for shard in shards for element in shard) == sorted(present)


def _same_from_states(stream, elements, step):
    with iter(stream) as iterator:
        for _ in range(step):
            next(iterator)
        state = iterator.get_state()
    with iter(stream.with_options(worker_count=2, worker_kind="thread")) as iterator:
        iterator.set_state(state)
        np.testing.assert_equal(list(iterator), elements[step:])


@settings(EXAMPLES, max_examples=60)
@given(st.lists(st.sampled_from(sorted(METHODS)), max_size=8), st.integers(0, 10))
def test_any_chain_is_the_same_at_an_index_and_in_a_stream(names, step):
    """One by one, many at a time, as a stream of the engine, in three shards, and from a state on, with workers."""
    dataset = made(names)
    present = _same_everywhere(dataset)
    if not any("batch" in name for name in names):  # each shard makes batches of its own records
        _same_in_shards(dataset, present)
    _same_from_states(dataset.to_iter_dataset(), present, min(step, len(present)))


WITH_INDEX = ("batch", "full batch", "flat map", "index", "random", "map", "slice", "shuffle", "repeat", "mix", "zip")


@pytest.mark.parametrize("examples", [80, pytest.param(2000, marks=pytest.mark.long)])
def test_what_draws_by_its_place_draws_the_same_at_an_index_and_in_a_stream(examples):
    """Random maps above whatever moves elements to other places, makes several of one, or one of several."""

    @settings(EXAMPLES, max_examples=examples)
    @given(st.lists(st.sampled_from(WITH_INDEX), max_size=5))
    def held(names):
        _same_everywhere(made([*names, "random"]))

    held()


@settings(EXAMPLES, max_examples=40)
@given(
    st.lists(st.sampled_from(sorted(METHODS)), max_size=4),
    st.lists(st.sampled_from(sorted(STREAMS)), min_size=1, max_size=4),
    st.integers(0, 10),
)
def test_any_stream_of_a_chain_goes_on_from_a_state(before, after, step):
    """With workers that it was not taken with."""
    stream = made(before).to_iter_dataset()
    for name in after:
        stream = STREAMS[name](stream)
    elements = list(stream)
    _same_from_states(stream, elements, min(step, len(elements)))


@pytest.mark.parametrize("size", [1, 3, 4])
@settings(EXAMPLES, max_examples=15)
@given(st.lists(st.sampled_from(sorted(set(METHODS) - {"filter", "flat map"})), max_size=5), st.booleans())
def test_any_chain_is_batched_as_its_elements_are(size, names, drops):
    """At an index, in the stream, and over several epochs."""
    dataset = made(names)
    batched = dataset.batch(size, drop_remainder=drops)
    elements = dataset[range(len(dataset))]
    stop = len(elements) - len(elements) % size if drops else len(elements)
    expected = [np.stack(elements[start : start + size]) for start in range(0, stop, size)]
    np.testing.assert_equal(batched[range(len(batched))], expected)
    if expected:
        np.testing.assert_equal(list(batched), expected)
        twice = batched.repeat(2)
        np.testing.assert_equal(list(twice), [twice[index] for index in range(2 * len(expected))])
