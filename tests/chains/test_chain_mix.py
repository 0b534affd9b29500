"""MapDataset.mix: at an index and in a stream, as a loader with a MixSampler, and after its weights
were changed.
"""

from __future__ import annotations

import sys
from collections import Counter

import grain
import numpy as np
import pytest

from headrace import (
    Batch,
    DataLoader,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ShardOptions,
)
from headrace.errors import CheckpointError

SOURCES = {"a": list(range(40)), "b": list(range(100, 125)), "c": list(range(200, 210))}
WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.2}


def parts(**seeds):
    """Shuffled datasets."""
    return {
        name: MapDataset.source(source).shuffle(seeds.get(name, 3))
        for name, source in SOURCES.items()
    }


def draw(element, rng):
    """A random number beside an element."""
    return element, rng.random()


MIXES = {
    "first": lambda: MapDataset.mix(parts(), WEIGHTS),
    "all": lambda: MapDataset.mix(parts(), WEIGHTS, when_exhausted="all"),
    "repeat": lambda: MapDataset.mix(parts(), WEIGHTS, when_exhausted="repeat")[:120],
    "endless parts": lambda: MapDataset.mix([each.repeat() for each in parts().values()], [5, 3, 2])[:120],
    "schedule": lambda: MapDataset.mix(
        list(parts().values())[:2], [(0, [1, 0]), (10, [1, 1])], when_exhausted="all", ramp=True
    ),
    "maps and filters below": lambda: MapDataset.mix(
        [each.map(lambda x: x + 1).filter(lambda x: x % 3) for each in parts().values()], when_exhausted="all"
    ),
    "random maps below": lambda: MapDataset.mix(
        [each.random_map(draw, seed=seed) for seed, each in enumerate(parts().values())], [5, 3, 2]
    ),
    "operations above": lambda: MapDataset.mix(parts(), WEIGHTS).random_map(draw, seed=1).map_with_index(lambda i, x: (i, x)),
    "two epochs": lambda: MapDataset.mix(parts(), WEIGHTS, when_exhausted="all").repeat(2)[3:],
    "two epochs of the first": lambda: MapDataset.mix(parts(), WEIGHTS).map(lambda x: -x).repeat(2),
    "shuffled": lambda: MapDataset.mix(parts(), WEIGHTS).shuffle(1),
    "hosts": lambda: MapDataset.mix(parts(), WEIGHTS)[1::3],
    "mix of mixes": lambda: MapDataset.mix([MapDataset.mix(parts(), WEIGHTS, when_exhausted="all"), MapDataset.range(-90, 0)]),
    "concatenated": lambda: MapDataset.concatenate([MapDataset.mix(parts()), parts()["a"].map(lambda x: x + 1)]).repeat(2),
    "batches": lambda: MapDataset.mix(parts(), WEIGHTS).map(lambda x: x + 1).batch(4),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MIXES)
def test_a_mix_is_the_same_at_an_index_and_in_a_stream(name):
    """One by one, many at a time, with workers, and from a state on."""
    dataset = MIXES[name]()
    one_by_one = [
        each for each in map(dataset.__getitem__, range(len(dataset))) if each is not None
    ]
    assert len(one_by_one) > 10
    np.testing.assert_equal(
        [each for each in dataset[range(len(dataset))] if each is not None], one_by_one
    )
    iterator = iter(dataset)
    elements = [next(iterator) for _ in range(7)]
    again = iter(dataset.to_iter_dataset().with_options(worker_count=2, worker_kind="thread"))
    again.set_state(iterator.get_state())
    np.testing.assert_equal([*elements, *again], one_by_one)


def test_a_mix_is_that_of_a_loader():
    """With the same parts, weights and seeds; in shards, too; by its names."""
    orders = {
        name: IndexSampler(len(source), shuffle=True, num_epochs=1, seed=3)
        for name, source in SOURCES.items()
    }
    for exhausted in ("first", "all"):
        sampler = MixSampler(orders, WEIGHTS, when_exhausted=exhausted)
        stream = (
            MapDataset.mix(parts(), WEIGHTS, when_exhausted=exhausted).batch(4).to_iter_dataset()
        )
        for shard in (ShardOptions(0, 1), ShardOptions(1, 3)):
            loader = DataLoader(
                data_source=SOURCES, sampler=sampler, operations=[Batch(4)], shard_options=shard
            )
            np.testing.assert_equal(list(stream.shard(shard)), list(loader))
    one, other = iter(stream), iter(loader)
    next(one), next(other)
    assert set(one.last_records()) <= set(SOURCES) and set(other.last_records()) <= set(SOURCES)  # noqa: PT018


def test_lengths_and_counts_are_those_of_grain():
    """As long as each element comes at most once; each part within one of its share."""
    for lengths, weights in (
        ([5, 3], None),
        ([10, 10, 10], [0.5, 0.3, 0.2]),
        ([70, 30], [7, 3]),
        ([5, 100], [1, 1]),
    ):
        ours = MapDataset.mix(
            [MapDataset.range(i * 1000, i * 1000 + n) for i, n in enumerate(lengths)], weights
        )
        theirs = grain.MapDataset.mix(
            [grain.MapDataset.range(i * 1000, i * 1000 + n) for i, n in enumerate(lengths)], weights
        )
        assert abs(len(ours) - len(theirs)) <= len(lengths)
        shorter = min(len(ours), len(theirs))
        counts, of_grain = (
            Counter(mix[i] // 1000 for i in range(shorter)) for mix in (ours, theirs)
        )
        assert all(abs(counts[part] - of_grain[part]) <= 1 for part in range(len(lengths)))
    repeated = MapDataset.mix([MapDataset.range(3).repeat(), MapDataset.range(5).repeat()])
    assert len(repeated) == sys.maxsize
    assert Counter(repeated[range(30)]) == Counter([*list(range(3)) * 5, *list(range(5)) * 3])


def test_the_next_epoch_of_a_mix_has_the_next_elements_of_its_parts():
    """All of them again, in another order, where all were drawn; what was left, where not."""
    every = MapDataset.mix(parts(), WEIGHTS, when_exhausted="all")
    epochs = [[every[e * len(every) + i] for i in range(len(every))] for e in (-1, 0, 1)]
    assert all(
        sorted(epoch) == sorted([*SOURCES["a"], *SOURCES["b"], *SOURCES["c"]]) for epoch in epochs
    )
    assert epochs[0] != epochs[1] != epochs[2]
    first = MapDataset.mix([MapDataset.range(100), MapDataset.range(1000, 1010)])
    assert sorted(first[range(21, 31)]) == [*range(11, 16), *range(1000, 1005)]  # 21 in an epoch


def test_weights_and_parts_may_change_between_two_runs():
    """Parts that stay go on with their next elements; a strict state says what changed."""

    def stream(weights, names="abc"):
        chosen = {
            name: part.map(lambda x: x + 0) for name, part in parts().items() if name in names
        }
        return iter(
            MapDataset.mix(chosen, weights, when_exhausted="all").batch(2).to_iter_dataset()
        )

    former = stream(WEIGHTS)
    seen = [x for _ in range(6) for x in next(former).tolist()]
    later = stream({"a": 0.2, "b": 0.8}, "ab")
    with pytest.raises(CheckpointError, match="weights"):
        later.set_state(former.get_state())
    later.set_state(former.get_state(), strict=False)
    rest = [x for batch in later for x in batch.tolist()]
    assert sorted(x for x in [*seen, *rest] if x < 200) == [*SOURCES["a"], *SOURCES["b"]]
    assert sum(x >= 100 for x in rest[:10]) == 8


AFTER = {
    "pack": lambda stream: stream.map(lambda x: np.full(1 + x % 5, x)).pack(12, window=8),
    "packs in batches": lambda stream: (
        stream.map(lambda x: np.full(1 + x % 5, x)).pack(12, window=8).batch(2)
    ),
    "window_shuffle": lambda stream: stream.window_shuffle(8, seed=1).map(
        lambda x: {"tokens": x + 0}
    ),
    "rows of batches": lambda stream: stream.batch(8).flat_map(
        lambda batch: [{"tokens": x} for x in batch]
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("steps", range(1, 12))
def test_what_a_window_of_a_mix_was_begun_with_comes_before_the_mix_is_changed(after, steps):
    """Wherever a window stands: each element of the parts that stay comes once."""

    def stream(weights):
        chosen = {
            name: part.map(lambda x: x + 1000) for name, part in parts().items() if name in weights
        }
        return iter(
            AFTER[after](MapDataset.mix(chosen, weights, when_exhausted="all").to_iter_dataset())
        )

    def elements(rows):
        return [
            int(x)
            for row in rows
            for tokens in np.atleast_2d(row["tokens"])
            for x in np.unique(tokens[tokens > 0])
        ]

    former, later = stream({"a": 0.5, "b": 0.5}), stream({"a": 0.1, "b": 0.3, "c": 0.6})
    seen = elements(next(former) for _ in range(steps))
    later.set_state(former.get_state(), strict=False)
    seen += elements(later)
    assert sorted(seen) == sorted(x + 1000 for source in SOURCES.values() for x in source)


@pytest.mark.parametrize("steps", range(1, 12))
@pytest.mark.parametrize("changed", [{"a": 1, "b": 2}, {"a": 1, "b": 1, "c": 1}])
@pytest.mark.one_in(24)
def test_a_mix_is_changed_inside_a_window_of_what_a_filter_left(steps, changed):
    """The window is read to its end, and comes as it was begun; each element of all parts comes
    once.
    """

    def stream(weights):
        chosen = {name: part for name, part in parts().items() if name in weights}
        mixed = MapDataset.mix(chosen, weights, when_exhausted="all").to_iter_dataset()
        return iter(mixed.filter(lambda x: x % 3).window_shuffle(8, seed=1))

    former, whole, later = (
        stream({"a": 0.7, "b": 0.3}),
        stream({"a": 0.7, "b": 0.3}),
        stream(changed),
    )
    seen = [next(former) for _ in range(steps)]
    later.set_state(former.get_state(), strict=False)
    again = stream(changed)
    for element in later:
        seen.append(element)
        again.set_state(later.get_state())
        assert again.get_state() == later.get_state()
    to_end = -(-steps // 8) * 8
    assert seen[:to_end] == [next(whole) for _ in range(to_end)]
    assert sorted(seen) == sorted(x for name in changed for x in SOURCES[name] if x % 3)


@pytest.mark.slow
def test_shards_change_a_mix_inside_windows_of_what_a_filter_left_together():
    """One alone does not know where the windows of the others end; given the states of all, on any
    number of shards.
    """

    def shards(weights, count):
        mixed = MapDataset.mix(parts(), weights, when_exhausted="all").to_iter_dataset()
        stream = mixed.filter(lambda x: x % 3).window_shuffle(8, seed=1)
        return [iter(stream.shard(ShardOptions(index, count))) for index in range(count)]

    equal = {"a": 1, "b": 1, "c": 1}
    former = shards(WEIGHTS, 2)
    seen = [next(iterator) for iterator in former for _ in range(3)]
    states = [iterator.get_state() for iterator in former]
    with pytest.raises(
        CheckpointError, match=r"Call set_states\(…\) with the states of all shards"
    ):
        shards(equal, 2)[0].set_state(states[0], strict=False)
    for count in (1, 2, 3):
        rest = []
        for iterator in shards(equal, count):
            iterator.set_states(states, strict=False)
            rest += iterator
        assert sorted([*seen, *rest]) == sorted(
            x for source in SOURCES.values() for x in source if x % 3
        )


WITHIN = {
    "slice": lambda mix: mix[1::3],
    "shuffle": lambda mix: mix.shuffle(1),
    "repeat": lambda mix: mix.map(abs).repeat(2),
    "limit": lambda mix: mix.to_iter_dataset().limit(9),
    "mix of mixes": lambda mix: MapDataset.mix([mix, MapDataset.range(50)]),
    "mix of streams": lambda mix: IterDataset.mix([mix, MapDataset.range(50)]),
    "streams within": lambda mix: IterDataset.mix(
        [IterDataset.mix({"m": mix, "n": mix}), MapDataset.range(50)]
    ),
    "zip": lambda mix: MapDataset.zip([mix, mix]),
    "pack": lambda mix: mix.map(lambda x: np.arange(3)).pack(8, lengths=[3] * len(mix)),
    "random map": lambda mix: mix.random_map(draw, seed=1).shuffle(1),
}


@pytest.mark.parametrize("within", WITHIN)
def test_a_changed_mix_is_refused_where_its_parts_cannot_go_on(within):
    """What is done to a mix as a whole: an error, though not strict. The same mix goes on."""

    def run(**weights):
        return iter(
            WITHIN[within](
                MapDataset.mix(
                    {name: parts()[name] for name in weights}, weights, when_exhausted="all"
                )
            )
        )

    former = run(a=1, b=1)
    next(former)
    state = former.get_state()
    for changed in (run(a=1, b=2), run(a=1, c=1)):
        with pytest.raises(CheckpointError, match="so some records would come twice or never"):
            changed.set_state(state, strict=False)
    rest = list(former)
    for strict in (True, False):
        same = run(a=1, b=1)
        same.set_state(state, strict=strict)
        np.testing.assert_equal(list(same), rest)


def test_what_cannot_be_mixed_is_refused():
    """With the name of the part, or what is wrong with the weights."""
    some = parts()
    with pytest.raises(ValueError, match="dataset b is empty"):
        MapDataset.mix({**some, "b": some["b"][:0]})
    with pytest.raises(ValueError, match="weight"):
        MapDataset.mix(some, {"a": 1, "b": -1, "c": 1})
    with pytest.raises(ValueError, match="d"):
        MapDataset.mix(some, {"a": 1, "b": 1, "d": 1})
    with pytest.raises(ValueError, match="when_exhausted"):
        MapDataset.mix(some, when_exhausted="never")
    with pytest.raises(TypeError, match="dataset 1 is a list"):
        MapDataset.mix([some["a"], [1, 2]])
    with pytest.raises(ValueError, match=r"follow `MapDataset\.filter`, which"):
        MapDataset.mix([some["a"].filter(bool), some["b"]]).batch(2)
    with pytest.raises(IndexError, match="no last element to count from"):
        MapDataset.mix(some, when_exhausted="repeat")[-1]


def test_streams_with_options_of_different_kinds_are_mixed():
    """A number of workers and "auto", seconds and None: the option of the last stream wins."""
    streams = [
        MapDataset.source(range(4)).to_iter_dataset().mp_prefetch(2).with_options(hang_seconds=5),
        MapDataset.source(range(4))
        .to_iter_dataset()
        .mp_prefetch("auto")
        .with_options(hang_seconds=None),
    ]
    assert IterDataset.mix(streams) is not None
