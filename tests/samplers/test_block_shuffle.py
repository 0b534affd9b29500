"""The shuffle of blocks: each record once an epoch, from few blocks at a time, and as random as a
window allows.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries

from headrace import BlockShuffle, IndexSampler, load

SHUFFLES = st.builds(BlockShuffle, st.integers(1, 9), st.integers(2, 6), st.integers(1, 4))


def keys_of(sampler, count, start=0):
    """Those of consecutive positions."""
    return sampler.record_keys(np.arange(start, start + count))


@tries(200)
@given(SHUFFLES, st.integers(1, 400), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_each_epoch_has_every_record_once(shuffle, records, seed, epoch):
    """Whatever the sizes; and the place of each record is known."""
    sampler = IndexSampler(records, shuffle=shuffle, seed=seed)
    keys = keys_of(sampler, records, epoch * records)
    assert sorted(keys.tolist()) == list(range(records))
    for place in {0, records // 2, records - 1}:
        assert sampler.position_of(int(keys[place]), epoch) == epoch * records + place


def test_any_position_is_that_of_the_whole_order():
    """Asked for one by one, backwards and over the end of an epoch."""
    sampler = IndexSampler(1000, shuffle=BlockShuffle(16, 4, 3), seed=5)
    keys = keys_of(sampler, 2500)
    scattered = np.random.default_rng(0).permutation(2500)
    assert (sampler.record_keys(scattered) == keys[scattered]).all()
    assert [sampler[place].record_key for place in (0, 999, 1000, 2499)] == keys[
        [0, 999, 1000, 2499]
    ].tolist()


@pytest.mark.parametrize(("lanes", "shards"), [(1, 1), (4, 4), (4, 2)])
def test_a_shard_has_few_blocks_at_hand(lanes, shards):
    """As many as a window for each of its lanes, and each block in one window, but for those of the
    rest.
    """
    block, window, records = 64, 8, 64 * 400 + 17
    sampler = IndexSampler(records, shuffle=BlockShuffle(block, window, lanes), seed=1)
    at_hand = block * window * lanes // shards
    seen: list[set[int]] = []
    for shard in range(shards):
        positions = np.arange(shard, records, shards)
        blocks = sampler.record_keys(positions) // block
        some = [
            set(blocks[first : first + at_hand].tolist())
            for first in range(0, len(blocks), at_hand)
        ]
        assert max(map(len, some)) <= 3 * window * lanes // shards + window // 2 + lanes + 1
        seen.append(set(blocks.tolist()))
    shared = sum(map(len, seen)) - len(set().union(*seen))
    assert shared <= (window // 2 + lanes) * (shards - 1)


def test_a_window_mixes_its_blocks_evenly():
    """Consecutive records are of any of its blocks alike, and blocks come in another order each
    epoch.
    """
    records = 64 * 1600
    sampler = IndexSampler(records, shuffle=BlockShuffle(64, 16), seed=3)
    windows = [keys_of(sampler, 512, epoch * records) // 64 for epoch in range(20)]
    for blocks in windows:
        counts = np.unique(blocks, return_counts=True)[1]
        assert 7 <= len(counts) <= 16  # the rest, half a window, may come first
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 3 * len(counts)
    assert len(np.unique(np.concatenate(windows))) > 200


def test_records_of_the_end_of_the_source_come_anywhere():
    """The rest, with a last block that is not whole, begins at another place in each epoch."""
    sampler = IndexSampler(1000 * 16 + 7, shuffle=BlockShuffle(16, 8), seed=1)
    places = np.array([sampler.position_of(16006, epoch) - epoch * 16007 for epoch in range(60)])
    assert 5000 < places.mean() < 11000
    assert places.std() > 3000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shuffle": BlockShuffle()}, "needs a seed"),
        ({"shuffle": BlockShuffle(), "seed": 1, "algorithm": "grain"}, "Leave out"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message):
    """They are errors at once."""
    with pytest.raises(ValueError, match=message):
        IndexSampler(10, **arguments)


@pytest.mark.parametrize(
    ("name", "value"), [("block", 0), ("window", 1), ("lanes", 0), ("block", 2**30)]
)
def test_sizes_that_make_no_sense(name, value):
    """They say what they must be."""
    with pytest.raises(ValueError, match=rf"{name}={value} must be in"):
        BlockShuffle(**{name: value})


def test_the_fingerprint_tells_the_shuffle():
    """A state of another one is not taken for this one's."""
    found = [
        IndexSampler(10, shuffle=shuffle, seed=1).fingerprint
        for shuffle in (True, BlockShuffle(), BlockShuffle(8))
    ]
    assert found[0]["shuffle"] is True
    assert found[1]["shuffle"] == {"block": 1024, "window": 16, "lanes": 1}
    assert found[1] != found[2]


def test_the_order_is_a_promise():
    """Runs outlive releases: these positions have these records for ever."""
    sampler = IndexSampler(1000, shuffle=BlockShuffle(16, 4, 2), seed=7)
    assert keys_of(sampler, 8, 500).tolist() == [577, 399, 858, 396, 587, 534, 951, 388]
    assert keys_of(sampler, 8, 1996).tolist() == [278, 771, 283, 783, 526, 746, 729, 153]


def test_load_takes_it_too():
    """In place of True."""
    loader = load(np.arange(100), shuffle=BlockShuffle(10, 4), seed=1, num_epochs=1)
    assert [int(x) for x in loader] == keys_of(
        IndexSampler(100, shuffle=BlockShuffle(10, 4), seed=1), 100
    ).tolist()
