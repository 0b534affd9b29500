"""IterDatasets that are mixed, zipped, interleaved, limited, repeated, or shuffled in windows."""

import numpy as np
import pytest

from millrace import IterDataset, MapDataset, ShardOptions
from millrace.errors import JoinError, SeedError


def numbers(first, count, seed=None):
    """The numbers from `first` on."""
    dataset = MapDataset.source(np.arange(first, first + count))
    return (dataset if seed is None else dataset.shuffle(seed=seed)).to_iter_dataset()


def test_a_mix_that_repeats_goes_on_with_the_next_epoch_shuffled_anew():
    """Of the dataset that ended; the others stay where they are."""
    mixed = IterDataset.mix([numbers(0, 5, seed=1), numbers(100, 1000)], [1, 1], when_exhausted="repeat")
    elements = [int(x) for x, _ in zip(mixed, range(40))]
    small = [x for x in elements if x < 100]
    assert [sorted(small[start : start + 5]) for start in range(0, 20, 5)] == [[0, 1, 2, 3, 4]] * 4
    assert small[:5] != small[5:10]
    assert [x for x in elements if x >= 100] == list(range(100, 120))


def test_a_mix_of_filtered_streams_counts_what_comes_out():
    """Not what goes in."""
    mixed = IterDataset.mix([numbers(0, 1000).filter(lambda x: x % 10 == 0), numbers(1000, 1000)], [0.5, 0.5])
    elements = [int(x) for x, _ in zip(mixed, range(100))]
    assert sum(x < 1000 for x in elements) == 50


@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_schedule_changes_the_weights_on_the_way(worker_count):
    """At the element that it says."""
    mixed = IterDataset.mix(
        {"a": numbers(0, 900), "b": numbers(1000, 900)}, [(0, {"a": 1, "b": 0}), (50, {"a": 0, "b": 1})]
    )
    elements = [int(x) for x, _ in zip(mixed.mp_prefetch(worker_count), range(100))]
    assert elements == [*range(50), *range(1000, 1050)]


def test_shards_of_a_mix_share_each_dataset():
    """And together read all of it."""
    mixed = IterDataset.mix([numbers(0, 30), numbers(100, 30)], when_exhausted="all")
    parts = [list(mixed.shard(ShardOptions(shard, 3))) for shard in range(3)]
    assert [len(part) for part in parts] == [20, 20, 20]
    assert sorted(int(x) for part in parts for x in part) == [*range(30), *range(100, 130)]


def test_datasets_of_different_shards_cannot_be_mixed():
    """As one could not go on with others."""
    with pytest.raises(JoinError, match=r"\.shard\(shard_options\)"):
        IterDataset.mix([numbers(0, 9).shard(ShardOptions(0, 2)), numbers(0, 9)])


def test_a_mix_of_unlike_elements_names_them_when_it_is_batched():
    """As any batch of unlike elements."""
    mixed = IterDataset.mix([numbers(0, 9).map(lambda x: {"a": x}), numbers(0, 9)]).batch(4)
    with pytest.raises(ValueError, match="structure"):
        list(mixed)


def test_options_of_the_parts_hold_for_the_whole():
    """The largest number of workers."""
    mixed = IterDataset.mix([numbers(0, 9).mp_prefetch(1), numbers(0, 9).with_options(on_error="skip")])
    assert (mixed._stream.execution.worker_count, mixed._stream.skips_errors) == (1, True)


def test_window_shuffle_needs_a_seed():
    """Its own, or one before."""
    with pytest.raises(SeedError, match="window_shuffle needs a seed"):
        numbers(0, 9).window_shuffle(3)
    assert sorted(numbers(0, 9).seed(1).window_shuffle(9)) == list(range(9))


@pytest.mark.parametrize("wrong", [3, [], {}, ["a"], [numbers(0, 3), 3]])
def test_what_is_no_list_of_streams_is_refused(wrong):
    """With the method's name."""
    for method in (IterDataset.mix, IterDataset.zip, IterDataset.interleave):
        with pytest.raises((TypeError, ValueError), match=method.__name__):
            method(wrong)
