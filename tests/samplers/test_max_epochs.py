"""Parts that leave a mix after so many epochs: which records come, in what proportions, from any
state, on any shards.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries

from headrace import (
    Batch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ShardOptions,
    WeightedSampler,
)
from headrace.errors import CheckpointError

PARTS = {"web": 50, "books": 4, "code": 9}
WEIGHTS = {"web": 0.5, "books": 0.3, "code": 0.2}


def drawn(sampler, count):
    """The parts of consecutive positions."""
    return [
        sampler.names[part]
        for part in (sampler.record_keys(np.arange(count)) % len(sampler.names)).tolist()
    ]


def books_and_others(**more):
    """Two epochs of books, in a mix that repeats the others."""
    return MixSampler(
        PARTS,
        WEIGHTS,
        shuffle=True,
        seed=0,
        when_exhausted="repeat",
        max_epochs={"books": 2},
        **more,
    )


def test_a_part_leaves_after_its_epochs_and_the_others_share_its_place():
    """Each of its records comes as often as it has epochs; before and after, proportions hold at
    every position.
    """
    sampler = books_and_others()
    names = np.array(drawn(sampler, 2000))
    keys = sampler.record_keys(np.arange(2000)) // 3
    books = np.flatnonzero(names == "books")
    assert Counter(keys[books].tolist()) == dict.fromkeys(range(4), 2)
    assert sorted(keys[books[:4]].tolist()) == sorted(keys[books[4:]].tolist()) == [0, 1, 2, 3]
    end = books[-1] + 1
    assert abs(end - 8 / 0.3) < 4
    assert np.abs(np.cumsum(names[end:] == "web") - np.arange(1, 2001 - end) * 5 / 7).max() < 1.5
    assert len(sampler) == len(MixSampler(PARTS, when_exhausted="repeat"))


@tries(100)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 8), min_size=1),
    st.data(),
    st.sampled_from(["first", "all", "repeat"]),
)
def test_counts_are_exact(sizes, data, when_exhausted):
    """Of every part that leaves, its epochs whole; the mix ends when nobody is left, or by what
    `when_exhausted` says.
    """
    most = data.draw(st.dictionaries(st.sampled_from(sorted(sizes)), st.integers(1, 3)))
    weights = {name: data.draw(st.integers(1, 9)) for name in sizes}
    sampler = MixSampler(
        sizes, weights, seed=1, shuffle=True, when_exhausted=when_exhausted, max_epochs=most
    )
    others = sizes.keys() - most.keys()
    endless = when_exhausted == "repeat" and others
    total = 3000 if endless else len(sampler)
    assert endless or total <= sum(sizes[name] * most.get(name, 1) for name in sizes)
    names = drawn(sampler, total)
    counts = Counter(names)
    limits = {name: sizes[name] * most.get(name, 1) for name in sizes}
    if endless:
        assert {name: counts[name] for name in most} == {name: limits[name] for name in most}
    elif when_exhausted == "all" or not others:
        assert counts == limits
    else:  # it ends when a part that does not leave would be drawn again
        assert any(counts[name] == limits[name] for name in others)
        assert all(counts[name] <= limits[name] for name in sizes)
    keys = sampler.record_keys(np.arange(total)) // len(sizes)
    for name in sizes:
        own = keys[np.array(names) == name]
        for start in range(0, len(own) - sizes[name] + 1, sizes[name]):
            assert sorted(own[start : start + sizes[name]].tolist()) == list(range(sizes[name]))


def test_the_order_before_is_as_without():
    """Only what comes after a part has left is another; and a mix without the argument has the
    fingerprint that it had.
    """
    plain = MixSampler(PARTS, WEIGHTS, shuffle=True, seed=0, when_exhausted="repeat")
    sampler = books_and_others()
    end = max(place for place, name in enumerate(drawn(sampler, 200)) if name == "books")
    assert (plain.record_keys(np.arange(end)) == sampler.record_keys(np.arange(end))).all()
    assert "max_epochs" not in plain.fingerprint
    assert sampler.fingerprint["max_epochs"] == {"books": 2}


def test_parts_with_orders_of_their_own():
    """An epoch is that of the part's sampler, whatever number of epochs it was made for; a list may
    name them by place.
    """
    parts = [
        IndexSampler(5, num_epochs=1),
        IndexSampler(3),
        WeightedSampler([1, 1, 1, 1], num_samples=2, seed=0),
    ]
    sampler = MixSampler(parts, when_exhausted="repeat", max_epochs=[2, 1, 3])
    assert len(sampler) == 10 + 3 + 6
    assert Counter(drawn(sampler, 19)) == {"0": 10, "1": 3, "2": 6}
    assert len(MixSampler(parts, when_exhausted="first", max_epochs=[2, None, 3])) > 19


def loader_of(sampler=None, **more):
    """Records are (part, key)."""
    sources = {name: [f"{name} {key}" for key in range(count)] for name, count in PARTS.items()}
    sampler = sampler or MixSampler(
        PARTS,
        WEIGHTS,
        shuffle=True,
        seed=0,
        when_exhausted="all",
        max_epochs={"books": 2, "code": 3},
    )
    return DataLoader(
        data_source=sources, sampler=sampler, operations=[Batch(4, batch_fn=list)], **more
    )


def test_the_number_of_epochs_may_change_between_two_runs():
    """A part that has had more than it is now to have leaves at once; one that left before comes
    back for the rest.
    """
    first = iter(loader_of(books_and_others()))
    for _ in range(15):
        next(first)  # 60 records: books have left
    with pytest.raises(CheckpointError, match="max_epochs"):
        iter(
            loader_of(MixSampler(PARTS, WEIGHTS, shuffle=True, seed=0, when_exhausted="repeat"))
        ).set_state(first.get_state())
    for most, books in ((1, 0), (2, 0), (3, 4)):
        sampler = MixSampler(
            PARTS,
            WEIGHTS,
            shuffle=True,
            seed=0,
            when_exhausted="repeat",
            max_epochs={"books": most},
        )
        second = iter(loader_of(sampler))
        second.set_state(first.get_state(), strict=False)
        rest = [record for _ in range(100) for record in next(second)]
        assert sum(record.startswith("books") for record in rest) == books
        third = iter(loader_of(sampler))
        third.set_state(second.get_state())
        assert next(third) == next(second)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("when_exhausted", ["all", "repeat", "first"])
def test_chains_have_it_too(stream, when_exhausted):
    """Datasets with random access, and streams whose lengths only reading tells; each epoch
    shuffled anew.
    """
    parts = {
        "web": MapDataset.source([f"w{key}" for key in range(40)]),
        "books": MapDataset.source([f"b{key}" for key in range(6)])
        .shuffle(seed=0)
        .filter(lambda x: x != "b3"),
    }
    if stream:
        mixed = IterDataset.mix(
            {name: part.to_iter_dataset() for name, part in parts.items()},
            [1, 1],
            when_exhausted=when_exhausted,
            max_epochs={"books": 2},
        )
    else:
        mixed = MapDataset.mix(
            parts, [1, 1], when_exhausted=when_exhausted, max_epochs={"books": 2}
        ).to_iter_dataset()
    found = [element for element, _ in zip(mixed, range(200))]
    books = [element for element in found if element[0] == "b"]
    assert Counter(books) == dict.fromkeys(("b0", "b1", "b2", "b4", "b5"), 2)
    assert books[:5] != books[5:]
    assert len(found) == (200 if when_exhausted == "repeat" else 50)


def test_a_stream_goes_on_with_other_shards_after_a_part_has_left():
    """Each element once, or as often as its dataset has epochs."""

    def mixed(shard, count):
        options = ShardOptions(shard, count)
        parts = [
            MapDataset.range(40).filter(lambda x: x % 3),
            MapDataset.range(100, 106).filter(lambda x: x != 103),
        ]
        streams = [part.shuffle(seed=1).to_iter_dataset(shard_options=options) for part in parts]
        return iter(IterDataset.mix(streams, [1, 1], when_exhausted="all", max_epochs=[None, 2]))

    read, states = [], []
    for shard in range(2):
        elements = mixed(shard, 2)
        read += [next(elements) for _ in range(13)]
        states.append(elements.get_state())
    for shard in range(3):
        elements = mixed(shard, 3)
        elements.set_states(states)
        read += list(elements)
    assert Counter(read) == Counter([x for x in range(40) if x % 3] + 2 * [100, 101, 102, 104, 105])


def test_a_mix_of_maps_has_the_same_elements_at_every_index():
    """Its length is known, and an index past its end is in its next epoch."""
    mixed = MapDataset.mix(
        [MapDataset.range(8), MapDataset.range(100, 103)], when_exhausted="all", max_epochs={"1": 3}
    )
    assert len(mixed) == 17
    assert [mixed[index] for index in range(17)] == list(mixed)
    assert Counter(mixed[range(17, 34)]) == Counter(list(mixed))


@pytest.mark.parametrize(
    ("max_epochs", "error", "match"),
    [
        ({"books": 0}, ValueError, "max_epochs"),
        ({"books": 1.5}, TypeError, "max_epochs"),
        ({"maps": 1}, ValueError, "names 'maps'"),
        ([1], ValueError, "1 values, but there are 3 parts"),
        (2, TypeError, "a dict with a number of epochs for each part"),
    ],
)
def test_what_is_no_number_of_epochs_is_refused(max_epochs, error, match):
    """Value, limit and remedy."""
    with pytest.raises(error, match=match):
        MixSampler(PARTS, max_epochs=max_epochs)
