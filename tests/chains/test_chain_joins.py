"""Streams that come together by methods of IterDataset, beside the real grain where the promise is
the same.
"""

from __future__ import annotations

from collections import Counter

import grain
import numpy as np
import pytest

from headrace import IterDataset, MapDataset


def three(kind):
    """Streams of odd numbers, of hundreds, and of several rows a record."""
    return [
        kind.range(1, 40).to_iter_dataset().filter(lambda x: x % 2),
        kind.range(100, 2000, 100).to_iter_dataset(),
        kind.range(-12, 0).to_iter_dataset().map(lambda x: x * 10),
    ]


def of_grain(name, parents, **options):
    """A dataset that has no method there."""
    return getattr(grain.experimental, f"{name}IterDataset")(parents, **options)


SAME_AS_GRAIN = {
    "zip": (
        lambda streams: IterDataset.zip(streams[:2], strict=False),
        lambda streams: of_grain("Zip", streams[:2], strict=False),
    ),
    "limit": (lambda streams: streams[0].limit(5), lambda streams: of_grain("Limit", streams[0], count=5)),
    "limit beyond the end": (lambda streams: streams[0].limit(99), lambda streams: of_grain("Limit", streams[0], count=99)),
    "repeat": (lambda streams: streams[0].repeat(3), lambda streams: of_grain("Repeat", streams[0], num_epochs=3)),
    "repeated batches": (
        lambda streams: streams[0].batch(3).repeat(2),
        lambda streams: of_grain("Repeat", streams[0].batch(3), num_epochs=2),
    ),
    "limit of batches": (
        lambda streams: streams[0].batch(3).limit(2),
        lambda streams: of_grain("Limit", streams[0].batch(3), count=2),
    ),
    "batches of a limit": (
        lambda streams: streams[1].limit(5).map(lambda x: x + 1).batch(3),
        lambda streams: of_grain("Limit", streams[1], count=5).map(lambda x: x + 1).batch(3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_AS_GRAIN)
def test_joins_give_what_grain_gives(name):
    """In the same order."""
    ours, theirs = SAME_AS_GRAIN[name]
    np.testing.assert_equal(list(ours(three(MapDataset))), list(theirs(three(grain.MapDataset))))


def test_a_mix_keeps_to_its_weights_and_ends_as_told():
    """With the first that ends, with the last, or never; each element once until then."""
    streams = three(MapDataset)
    whole = Counter(x for stream in streams for x in stream)
    first = list(IterDataset.mix(streams, [2, 1, 1]))
    assert Counter(first) < whole
    for count in range(1, len(first)):
        assert abs(sum(x > 0 and x % 2 for x in first[:count]) - count / 2) <= 1
    assert Counter(IterDataset.mix(streams, [2, 1, 1], when_exhausted="all")) == whole
    endless = iter(IterDataset.mix(streams, [2, 1, 1], when_exhausted="repeat"))
    assert len([next(endless) for _ in range(500)]) == 500


def test_a_mix_that_repeats_shuffles_each_epoch_anew():
    """Where the stream comes from a shuffled MapDataset; other epochs of its random maps, too."""
    shuffled = MapDataset.range(8).shuffle(1).random_map(lambda x, rng: (x, rng.random()), seed=1)
    stream = IterDataset.mix(
        [shuffled.to_iter_dataset().filter(lambda e: e[0])], when_exhausted="repeat"
    )
    elements = list(stream.limit(14))
    epochs = [elements[:7], elements[7:]]
    assert all(sorted(x for x, _ in epoch) == list(range(1, 8)) for epoch in epochs)
    assert [x for x, _ in epochs[0]] != [x for x, _ in epochs[1]]
    assert not {number for _, number in epochs[0]} & {number for _, number in epochs[1]}
    assert epochs[1] == [each for each in shuffled.repeat(2)[8:] if each[0]]


def test_a_seed_before_a_join_holds_after_it():
    """Made of those of all parts; another one for each random method."""

    def joined(*seeds):
        parts = [MapDataset.range(9).seed(seed).to_iter_dataset() for seed in seeds]
        return list(IterDataset.mix(parts).random_map(lambda x, rng: rng.random()))

    assert joined(1, 2) == joined(1, 2)
    assert len({tuple(joined(*seeds)) for seeds in ((1, 2), (1, 3), (2, 2))}) == 3


def test_elements_say_which_dataset_they_come_from():
    """By name; of mixes in mixes, by both names."""
    inner = IterDataset.mix({"odd": three(MapDataset)[0], "hundreds": three(MapDataset)[1]})
    iterator = iter(IterDataset.mix({"inner": inner, "tens": three(MapDataset)[2]}).batch(8))
    next(iterator)
    assert {name: len(keys) for name, keys in iterator.last_records().items()} == {
        "inner/odd": 2, "inner/hundreds": 2, "tens": 4,
    }  # fmt: skip


@pytest.mark.parametrize("when_exhausted", ["first", "all"])
def test_a_mix_that_repeats_begins_a_mix_below_it_anew(when_exhausted):
    """One with random access, as one of streams."""
    parts = [MapDataset.range(3), MapDataset.range(10, 13)]
    inner = MapDataset.mix(parts, when_exhausted=when_exhausted).to_iter_dataset()
    outer = IterDataset.mix(
        [inner, MapDataset.range(100, 900).to_iter_dataset()], when_exhausted="repeat"
    )
    elements = [x for x in outer.limit(36) if x < 100]
    assert elements == list(inner) * 3


LIMITED = {
    "elements": lambda stream: stream.limit(90),
    "batches": lambda stream: stream.batch(9).limit(10),
    "elements of batches": lambda stream: stream.limit(95).limit(90).batch(10),
    "a cache": lambda stream: stream.limit(90).cache().repeat(3),
    "a repeat": lambda stream: stream.limit(45).repeat(2),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_has_no_more_made_than_it_gives(name):
    """Whatever the lengths of tasks; after a restore, what is left of it. A cache is
    filled once.
    """
    made = []
    iterator = iter(
        LIMITED[name](MapDataset.range(1000).map(lambda x: made.append(x) or x).to_iter_dataset())
    )
    whole = list(iterator)
    assert len(made) == 90
    if name in ("elements", "batches"):
        iterator = iter(
            LIMITED[name](
                MapDataset.range(1000).map(lambda x: made.append(x) or x).to_iter_dataset()
            )
        )
        taken = len(whole) // 3
        for _ in range(taken):
            next(iterator)
        iterator.set_state(iterator.get_state())
        made.clear()
        assert len(list(iterator)) == len(whole) - taken
        assert len(made) == 90 - 90 * taken // len(whole)


def test_a_limit_after_a_filter_has_all_made_that_it_needs():
    """However many the filter leaves out."""
    numbers = MapDataset.range(1000).to_iter_dataset()
    assert list(numbers.filter(lambda x: x % 10 == 0).map(str).limit(90)) == [
        str(x) for x in range(0, 900, 10)
    ]
