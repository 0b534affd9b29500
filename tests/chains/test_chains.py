"""MapDataset: what each method gives at an index, beside the real grain where the promise is the
same.
"""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from itertools import pairwise

import cloudpickle
import grain
import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    Filter,
    FlatMap,
    IterDataset,
    MapDataset,
    MapTransform,
    MapWithIndexTransform,
    RandomMapTransform,
)
from headrace.errors import BatchError, CheckpointError, FanOutError, SeedError


class Words(FlatMap):
    max_fan_out = 3

    def flat_map(self, element):
        return [element] * (element % 4)


class GrainWords(grain.experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element):
        return [element] * (element % 4)


class Reversed(MapDataset):
    """A user's own dataset."""

    def __init__(self, parent):
        super().__init__(parent)

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        assert type(index) is int, "slices and lists are taken apart before"
        return self._parent[len(self) - 1 - index]


class Sometimes(MapDataset):
    """One that knows nothing of its base, and leaves elements out."""

    def __init__(self):
        self.count = 9

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return None if index % 3 == 0 else index


def plain(value):
    """Arrays as lists."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


SAME_AS_GRAIN = {
    "range": lambda kind: kind.range(3, 20, 2),
    "source": lambda kind: kind.source(["a", "b", "c", "d"]),
    "repeat": lambda kind: kind.range(3).repeat(3),
    "repeat forever": lambda kind: kind.range(3).repeat()[:10],
    "repeat the first epoch": lambda kind: (
        kind.range(3).map_with_index(lambda i, x: i).repeat(3, reseed_each_epoch=False)
    ),
    "slice": lambda kind: kind.range(10)[2:9:3],
    "slice backwards": lambda kind: kind.range(10).slice(slice(8, 2, -2)),
    "slice of a slice": lambda kind: kind.range(20)[1::2][::3],
    "hosts": lambda kind: kind.range(10)[1::4].repeat(2),
    "map": lambda kind: kind.range(5).map(lambda x: x * 2),
    "map with index": lambda kind: kind.range(5).repeat(2).map_with_index(lambda i, x: (i, x)),
    "filter": lambda kind: kind.range(8).filter(lambda x: x % 3),
    "filter and map": lambda kind: (
        kind.range(8).filter(lambda x: x % 3).map(lambda x: x + 1).repeat(2)[1:]
    ),
    "index after a filter": lambda kind: (
        kind.range(8).filter(lambda x: x % 3).map_with_index(lambda i, x: (i, x))
    ),
    "a map that gives None": lambda kind: (
        kind.range(4).map(lambda x: x or None).map(lambda x: x + 1)[1:]
    ),
    "batch": lambda kind: kind.range(7).batch(3),
    "batch, rest dropped": lambda kind: kind.range(7).batch(3, drop_remainder=True).repeat(2),
    "batches of each epoch": lambda kind: kind.range(7).batch(3).repeat(2),
    "batches over epochs": lambda kind: kind.range(7).repeat(2).batch(3),
    "batch by function": lambda kind: kind.range(7).batch(3, batch_fn=sum),
    "batches of batches": lambda kind: kind.range(8).batch(2).batch(2),
    "index of a batch": lambda kind: kind.range(7).batch(3).map_with_index(lambda i, x: x * 0 + i),
    "concatenate": lambda kind: kind.concatenate([kind.range(3), kind.range(7, 9), kind.range(1)]),
    "concatenate epochs": lambda kind: kind.concatenate(
        [kind.range(3).map_with_index(lambda i, x: i), kind.range(2)]
    ).repeat(2),
    "concatenate filtered": lambda kind: kind.concatenate(
        [kind.range(6).filter(lambda x: x % 2), kind.range(3)]
    ),
    "select": lambda kind: kind.select_from_datasets(
        [kind.range(3), kind.range(7, 9)], [(1, 0), (0, 2), (1, 1)]
    ),
    "pipe": lambda kind: kind.range(5).pipe(
        lambda dataset, by: dataset.map(lambda x: x * by), by=3
    ),
}


@pytest.mark.parametrize("name", SAME_AS_GRAIN)
def test_methods_give_what_grain_gives(name):
    """Lengths, elements at every index, past the end and before the beginning, and what iteration
    yields.
    """
    ours, theirs = (SAME_AS_GRAIN[name](kind) for kind in (MapDataset, grain.MapDataset))
    assert len(ours) == len(theirs)
    # a list ends, and Grain counts on beyond 2^63
    past = 0 if name in ("select", "repeat forever") else 3
    indices = range(-past, len(theirs) + past)
    assert [plain(ours[index]) for index in indices] == [plain(theirs[index]) for index in indices]
    assert [plain(each) for each in ours[list(indices)]] == [
        plain(theirs[index]) for index in indices
    ]
    assert [plain(each) for each in ours] == [plain(each) for each in theirs]
    with_nones = ours.to_iter_dataset(allow_nones=True)
    assert [plain(each) for each in with_nones] == [
        plain(theirs[index]) for index in range(len(theirs))
    ]


def test_flat_map_and_zip_give_what_grain_gives():
    """They are classes of their own there."""
    theirs = grain.experimental.FlatMapMapDataset(grain.MapDataset.range(6), GrainWords())
    ours = MapDataset.range(6).flat_map(Words())
    assert len(ours) == len(theirs)
    assert [ours[i] for i in range(40)] == [theirs[i] for i in range(40)] == ours[list(range(40))]
    assert list(ours) == list(theirs.to_iter_dataset())
    theirs = grain.experimental.ZipMapDataset(
        [grain.MapDataset.range(3), grain.MapDataset.range(4, 7)]
    )
    ours = MapDataset.zip([MapDataset.range(3), MapDataset.range(4, 7)])
    assert [ours[i] for i in range(7)] == [theirs[i] for i in range(7)]
    assert list(ours) == list(theirs.to_iter_dataset())


def test_apply_takes_ours_grains_and_functions():
    """One transform or a list; objects by their methods."""

    class Plus(grain.transforms.Map):
        def map(self, element):
            return element + 1

    class Odd(grain.transforms.Filter):
        def filter(self, element):
            return element % 2

    class Draw(grain.transforms.RandomMap):
        def random_map(self, element, rng):
            return element + rng.random()

    class Index(grain.transforms.MapWithIndex):
        def map_with_index(self, index, element):
            return index, element

    chain = MapDataset.range(6).seed(0).apply([Plus(), lambda x: x * 3, Odd(), Draw(), Index()])
    own = [MapTransform(lambda x: x + 1), lambda x: x * 3, Filter(lambda x: x % 2)]
    own += [RandomMapTransform(Draw().random_map), MapWithIndexTransform(Index().map_with_index)]
    assert list(chain) == list(MapDataset.range(6).seed(0).apply(own))
    assert [int(x) for _, x in chain] == [3, 9, 15]
    for batch in (grain.transforms.Batch(4, drop_remainder=True), Batch(4, drop_remainder=True)):
        assert [plain(each) for each in MapDataset.range(6).apply(batch)] == [[0, 1, 2, 3]]
    assert list(MapDataset.range(3).apply(GrainWords())) == [1, 2, 2]
    assert list(MapDataset.range(3).to_iter_dataset().apply([GrainWords(), Plus()])) == [2, 3, 3]


SHUFFLES = {
    "shuffle": lambda dataset: dataset.shuffle(seed=3),
    "window": lambda dataset: dataset.window_shuffle(4, seed=3),
    "block": lambda dataset: dataset.block_shuffle(4, seed=3),
}


@pytest.mark.parametrize("length", [1, 2, 4, 7, 8, 9, 30])
@pytest.mark.parametrize("shuffle", SHUFFLES.values(), ids=list(SHUFFLES))
def test_shuffles_give_every_element_once_an_epoch(shuffle, length):
    """Whatever the length; with a slice of time for each epoch, and another order in
    the next one.
    """
    dataset = shuffle(MapDataset.range(length))
    epochs = [
        [dataset[index] for index in range(epoch * length, (epoch + 1) * length)]
        for epoch in range(-1, 3)
    ]
    assert all(sorted(epoch) == list(range(length)) for epoch in epochs)
    assert length < 12 or len(set(map(tuple, epochs))) == 4
    assert list(dataset.repeat(3)) == [*epochs[1], *epochs[2], *epochs[3]]


def test_windows_and_blocks_stay_together():
    """A window shuffle moves nothing out of its window; a block shuffle leaves blocks
    as they are.
    """
    windows = list(MapDataset.range(10).window_shuffle(4, seed=1))
    assert [sorted(windows[start : start + 4]) for start in (0, 4, 8)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    blocks = list(MapDataset.range(10).block_shuffle(4, seed=1))
    assert blocks != list(range(10))
    assert {tuple(range(first, min(first + 4, 10))) for first in (0, 4, 8)} == {
        tuple(x for x in blocks if x // 4 == block) for block in range(3)
    }
    assert sum(after != before + 1 for before, after in pairwise(blocks)) <= 2


def test_identity_of_shuffles_in_parts_keeps_its_class_names_of_old():
    """States hold these; the classes behind the methods have other names today."""
    assert MapDataset.range(20).block_shuffle(4, seed=1).fingerprint["chain"] == "02956f5d31b0"
    assert MapDataset.range(20).window_shuffle(4, seed=1).fingerprint["chain"] == "6166496c5b12"


def test_a_shuffle_may_be_the_same_in_each_epoch():
    """With reseed_each_epoch=False; the epochs of what is below go on."""
    dataset = (
        MapDataset.range(9).map_with_index(lambda i, x: i).shuffle(seed=1, reseed_each_epoch=False)
    )
    assert [dataset[i + 9] for i in range(9)] == [dataset[i] + 9 for i in range(9)]


def test_random_maps_depend_on_seed_and_index():
    """Each index draws its own numbers, each time the same; threads do not disturb one another."""
    dataset = MapDataset.range(50).random_map(lambda x, rng: rng.random(), seed=5)
    values = [dataset[index] for index in range(100)]
    assert len(set(values)) == 100
    assert dataset[list(range(100))] == values == [dataset[index] for index in range(100)]
    assert list(dataset) == values[:50]
    assert MapDataset.range(50).random_map(lambda x, rng: rng.random(), seed=6)[3] != values[3]
    found = {}

    def read(number):
        found[number] = [dataset[index] for index in range(100)]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == values for number in range(4))


def test_random_maps_with_one_seed_draw_different_numbers():
    """Each knows how many operations came before it."""
    draw = RandomMapTransform(lambda x, rng: (*x, rng.random()))
    dataset = (
        MapDataset.range(5)
        .map(lambda x: ())
        .random_map(draw, seed=1)
        .shuffle(1)
        .random_map(draw, seed=1)
    )
    assert all(first != second for first, second in dataset)


def test_seed_gives_each_random_method_another_seed():
    """Those after it alone; and one of their own takes precedence."""
    seeded = MapDataset.range(20).seed(1)
    assert list(seeded.shuffle()) == list(MapDataset.range(20).seed(1).shuffle())
    assert list(seeded.shuffle()) != list(MapDataset.range(20).seed(2).shuffle())
    assert list(seeded.shuffle()) != list(seeded.map(lambda x: x).shuffle())
    assert list(seeded.shuffle(seed=4)) == list(MapDataset.range(20).shuffle(seed=4))
    both = MapDataset.concatenate([seeded, MapDataset.range(20).seed(3)])
    assert list(both.shuffle()) != list(MapDataset.concatenate([seeded, seeded]).shuffle())


def test_what_is_random_needs_a_seed():
    """A SeedError, which is a ValueError, says how to pass one."""
    for make in (
        lambda d: d.shuffle(),
        lambda d: d.window_shuffle(2),
        lambda d: d.block_shuffle(2),
        lambda d: d.random_map(lambda x, rng: x),
        lambda d: d.to_iter_dataset().random_map(lambda x, rng: x),
    ):
        with pytest.raises(SeedError, match=r"seed=0"):
            make(MapDataset.range(5))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda d: d.shuffle(1 << 32), ValueError, "seed"),
        (lambda d: d.shuffle(-1), ValueError, "seed"),
        (lambda d: d.shuffle("a"), TypeError, "seed"),
        (lambda d: d.repeat().repeat(), ValueError, "never ends"),
        (lambda d: d.repeat().shuffle(1), ValueError, "never ends"),
        (lambda d: d.repeat(0), ValueError, "num_epochs"),
        (lambda d: d.batch(0), ValueError, "batch_size"),
        (lambda d: d.window_shuffle(0, 1), ValueError, "window_size"),
        (
            lambda d: d.filter(bool).batch(2),
            ValueError,
            r"`MapDataset\.batch` can not follow `MapDataset\.filter`",
        ),
        (
            lambda d: d.flat_map(Words()).map(str).batch(2),
            ValueError,
            r"follow `MapDataset\.flat_map`",
        ),
        (
            lambda d: MapDataset.concatenate([d, d.filter(bool)]).batch(2),
            ValueError,
            r"follow `MapDataset\.filter`, which",
        ),
        (lambda d: d.flat_map(lambda x: [x]), ValueError, "max_fan_out"),
        (lambda d: d.flat_map(lambda x: [x] * 3, max_fan_out=2)[1], FanOutError, "max_fan_out=2"),
        (lambda d: d.flat_map(lambda x: None, max_fan_out=2)[1], TypeError, "None for an"),
        (lambda d: d.map(3), TypeError, "Pass a function"),
        (lambda d: d.map(Filter(bool)), TypeError, "MapTransform"),
        (lambda d: d.map(MapTransform), TypeError, "Pass an instance"),
        (lambda d: d.apply(3), TypeError, "Pass a transform"),
        (lambda d: d.apply(Batch), TypeError, r"Batch\): .* Pass an instance"),
        (lambda d: IterDataset.mix([MapDataset]), TypeError, "dataset 0 is a"),
        (lambda d: d[np.arange(10) > 5], TypeError, r"np\.flatnonzero\(mask\)"),
        (
            lambda d: d.select([[1, 2], [3]]),
            TypeError,
            r"indices \[\[1, 2\], \[3\]\] are not a list of whole numbers",
        ),
        (lambda d: d.slice(3), TypeError, "a slice"),
        (lambda d: d["a"], TypeError, "str"),
        (lambda d: d[[0.5]], TypeError, "whole numbers"),
        (lambda d: d[5:5][0], IndexError, "empty"),
        (lambda d: MapDataset.zip([d, d[1:]]), ValueError, "different lengths"),
        (lambda d: MapDataset.zip([]), ValueError, "at least one"),
        (lambda d: MapDataset.zip(d), TypeError, "list of datasets"),
        (lambda d: MapDataset.concatenate([d, d.repeat()]), ValueError, "never ends"),
        (lambda d: MapDataset.concatenate([d, [1, 2]]), TypeError, "dataset 1 is a list"),
        (lambda d: MapDataset.source([]), ValueError, "empty"),
        (lambda d: MapDataset.source("path"), TypeError, "path"),
        (lambda d: d.map(lambda x: np.zeros(x)).batch(2)[1], BatchError, "shape"),
        (lambda d: d.to_iter_dataset().with_options(workers=2), TypeError, "no argument workers="),
        (lambda d: d.to_iter_dataset().mp_prefetch(-1), ValueError, "worker_count"),
    ],
)
def test_bad_input_is_refused(make, error, message):
    """With a message that names it, in under 500 characters."""
    with pytest.raises(error, match=message) as caught:
        make(MapDataset.range(10))
    assert len(str(caught.value)) < 500


def test_empty_and_endless_datasets():
    """A slice may be empty; an endless rest of an endless dataset is endless."""
    assert list(MapDataset.range(5)[5:].shuffle(1).map(str).repeat()) == []
    endless = MapDataset.range(5).repeat()
    assert len(endless) == len(endless[1::2]) == len(endless.batch(2)) == sys.maxsize
    assert len(endless[2:9]) == 7
    assert len(endless.map(Words().flat_map).flat_map(Words())) == sys.maxsize
    assert [endless[1::2][i] for i in range(4)] == [1, 3, 0, 2]


@pytest.mark.long
def test_a_dataset_of_the_users_own_stands_anywhere():
    """Below, between and above the methods; with the vectorised way, in batches and in workers."""
    chain = Reversed(MapDataset.range(9).map(lambda x: x * 10)).map(lambda x: x + 1).shuffle(3)
    assert sorted(chain) == list(range(1, 91, 10))
    assert [chain[i] for i in range(9)] == chain[list(range(9))] == list(chain)
    assert list(Reversed(MapDataset.range(4))) == [3, 2, 1, 0]
    assert list(Reversed(MapDataset.range(4))[1:3]) == [2, 1]
    assert [
        Reversed(MapDataset.range(4))[each] for each in ([0, 2], np.array([3]), np.int64(1))
    ] == [[3, 1], [0], 2]
    assert [plain(b) for b in Reversed(MapDataset.range(4)).batch(2)] == [[3, 2], [1, 0]]
    assert list(Sometimes().map(lambda x: x + 1)) == [2, 3, 5, 6, 8, 9]
    assert [plain(b) for b in Sometimes().to_iter_dataset().batch(4).mp_prefetch(1)] == [
        [1, 2, 4, 5],
        [7, 8],
    ]
    assert MapDataset.range(3).map(str).parents[0][2] == 2


@pytest.mark.slow
def test_a_dataset_is_a_source():
    """Of a DataLoader, of another chain; it pickles, and says what it is."""
    chain = MapDataset.range(10).shuffle(1).map(lambda x: x + 1)
    loader = headrace.load(chain, num_epochs=1, batch_size=4, worker_count=1)
    assert np.concatenate(list(loader)).tolist() == list(chain)
    assert list(MapDataset.source(chain)) == list(chain)
    again = cloudpickle.loads(cloudpickle.dumps(chain))
    assert list(again) == list(chain)
    assert again.fingerprint == chain.fingerprint == copy.copy(chain).fingerprint
    assert (
        pickle.loads(pickle.dumps(MapDataset.range(3).shuffle(1)))[0]
        == MapDataset.range(3).shuffle(1)[0]
    )
    others = [
        chain.map(str),
        MapDataset.range(11),
        chain.shuffle(2),
        chain[1:],
        chain.batch(2),
        chain.batch(3),
    ]
    assert len({str(each.fingerprint) for each in [chain, *others]}) == 7


def test_long_chains_take_no_longer_than_their_length():
    """Each node asks the one below it once."""
    dataset = MapDataset.range(40).seed(1)
    for _ in range(15):
        dataset = (
            dataset.map_with_index(lambda i, x: x)
            .filter(lambda x: True)
            .shuffle()
            .repeat(1)
            .map(lambda x: x)
        )
    assert sorted(dataset) == sorted(dataset[range(40)]) == list(range(40))
    with pytest.raises(ValueError, match=r"follow `MapDataset\.filter`, which"):
        dataset.batch(2)
    dense = MapDataset.range(40)
    for _ in range(30):
        dense = dense.map_with_index(lambda i, x: x).repeat(1).random_map(lambda x, rng: x, seed=1)
    assert list(dense.batch(20).repeat(2)[1]) == list(range(20, 40))


@pytest.mark.parametrize("number", [2, -3, 0.5])
@pytest.mark.parametrize(
    "take", [list, lambda dataset: dataset[1], lambda dataset: dataset[[0, 1]]]
)
def test_a_selection_of_a_dataset_that_is_not_there_is_an_error(number, take):
    """At an index and in a stream, never another element; numbers below 0 count from the last."""
    datasets = [MapDataset.range(4), MapDataset.range(10, 14)]
    with pytest.raises((IndexError, TypeError), match=r"the map names dataset|integer"):
        take(MapDataset.select_from_datasets(datasets, [(0, 0), (number, 1)]))
    last = MapDataset.select_from_datasets(datasets, [(0, 0), (-1, 1)])
    assert list(last) == [0, 11] == last[[0, 1]]


class Mapping:
    """A selection map with a plain attribute."""

    def __init__(self, first):
        self.first = first

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return (0, self.first)


def test_a_selection_map_of_any_size_makes_a_small_state():
    """Whatever its class; another map is another chain."""
    maps = [Mapping(0), Mapping(1), [(0, 0)] * 999, [(0, 1)] * 999]
    states = [
        iter(MapDataset.select_from_datasets([MapDataset.range(9)], each)).get_state()
        for each in maps
    ]
    assert len({*states}) == 4
    assert max(map(len, states)) < 1000


@pytest.mark.parametrize(
    "above", [lambda dataset: dataset, lambda dataset: MapDataset.zip([dataset])]
)
def test_another_array_in_a_selection_map_is_noticed(above):
    """A state is refused with it."""

    def run(first):
        return iter(above(MapDataset.select_from_datasets([MapDataset.range(9)], Mapping(first))))

    state = run(np.arange(9)).get_state()
    run(np.arange(9)).set_state(state)
    with pytest.raises(CheckpointError, match="selections"):
        run(np.arange(9) + 1).set_state(state)


@pytest.mark.parametrize(
    "endless",
    [
        MapDataset.range(7).shuffle(1).repeat(),
        MapDataset.range(7).random_map(lambda x, rng: x + rng.random(), seed=1).repeat(),
        MapDataset.mix([MapDataset.range(7), MapDataset.range(10, 13)], when_exhausted="repeat"),
        MapDataset.mix([MapDataset.range(7).repeat(), MapDataset.range(10, 13).repeat()]),
    ],
)
def test_a_part_of_an_endless_dataset_is_the_same_again_in_its_next_epoch(endless):
    """As there is no next epoch below; at an index and in a stream."""
    part = endless[2:12:2]
    twice = part.repeat(2)
    assert [twice[index] for index in range(10)] == list(part) * 2 == list(twice) == part[range(10)]
    assert part[-1] == part[4]
