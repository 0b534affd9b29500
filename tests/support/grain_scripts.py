"""Random scripts for the real Grain and for ours: elements of any kind, datasets and sources of
one's own, several iterators.

In: a number. Out: what each step of the script gave with a Grain; the same number makes the same
steps.
"""

import collections
import contextlib
import itertools
import json
import random

import numpy as np

from support import both
from support.grain_programs import transform

Point = collections.namedtuple("Point", "x y")

ELEMENTS = {
    "int": lambda i: i,
    "float": lambda i: i / 3,
    "bool": lambda i: i % 2 == 0,
    "ints and floats": lambda i: i if i % 3 else i / 2,
    "two dtypes": lambda i: np.int32(i) if i % 3 else np.float32(i),
    "small int": lambda i: np.uint8(i % 250),
    "half floats": lambda i: np.full((2,), i, np.float16),
    "list": lambda i: [i, i + 1],
    "lists in lists": lambda i: {"a": [[i, 2], [3.5]], "b": (i,)},
    "tuple": lambda i: (i, {"q": [i]}),
    "named tuple": lambda i: Point(i, np.arange(2) + i),
    "no rows": lambda i: np.zeros((0, 3)),
    "no axes": lambda i: np.array(i),
    "complex": lambda i: complex(i, 1),
    "date": lambda i: np.datetime64("2020-01-01") + i,
    "order of keys": lambda i: {"b": i, "a": i * 2} if i % 2 else {"a": i * 2, "b": i},
    "numbers as keys": lambda i: {2: i, 1: i},
    "columns first": lambda i: np.asfortranarray(np.arange(6).reshape(2, 3) + i),
    "view": lambda i: (np.arange(12) + i)[::3],
    "large": lambda i: np.full((64, 65), i, np.float32),
    "empty dict": lambda i: {"a": {}, "b": i},
    "empty list": lambda i: {"a": [], "b": i},
    "none": lambda i: {"a": None, "b": i},
    "record": lambda i: np.array((i, 2.5), dtype=[("p", "i4"), ("q", "f8")]),
    "ordered dict": lambda i: collections.OrderedDict(b=i, a=1),
    "default dict": lambda i: collections.defaultdict(int, {"b": i, "a": 1}),
    "above 63 bits": lambda i: 2**63 + i,
    "objects": lambda i: np.array([i, "x"], dtype=object),
}


class Source:
    """A source of one's own, of which a record may fail; with `many`, records are read in one call,
    too.
    """

    def __init__(self, count, element, bad, many):
        self.count, self.element, self.bad = count, element, bad
        if many:
            self.__getitems__ = None  # as a mock has it: on the instance, and not to be called

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.bad:
            raise KeyError("a bad record")
        return self.element(int(index))

    def __repr__(self):
        return "Source"


class SourceOfMany(Source):
    """The same; reads several at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def root(g, count, element):
    """A dataset of a class of one's own."""

    class Root(g.MapDataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            return self.slice(index) if isinstance(index, slice) else element(index % count)

    return Root()


def evens(g, dataset):
    """Each second element, by a class of one's own."""

    class Evens(g.MapDataset):
        def __len__(self):
            return (len(self._parent) + 1) // 2

        def __getitem__(self, index):
            if isinstance(index, slice):
                return self.slice(index)
            epoch, rest = divmod(index, len(self))
            return self._parent[epoch * len(self._parent) + rest * 2]

    return Evens(dataset)


def without_each(g, dataset, step):
    """All elements but each so manieth, by classes of one's own."""

    class Iterator(g.DatasetIterator):
        count = 0

        def __next__(self):
            while True:
                element = next(self._parent)
                self.count += 1
                if self.count % step:
                    return element

        def get_state(self):
            return {"parent": self._parent.get_state(), "count": self.count}

        def set_state(self, state):
            self._parent.set_state(state["parent"])
            self.count = state["count"]

    class WithoutEach(g.IterDataset):
        def __iter__(self):
            return Iterator(self._parent.__iter__())

    return WithoutEach(dataset)


def draws(x, rng):
    """Draws in several ways."""
    return {"x": x, "r": rng.integers(9, size=2), "p": rng.permutation(3), "n": rng.normal()}


def some_of(n):
    """A filter that looks at the whole element."""
    return lambda x: len(str(both.told(x))) % 3 != n % 3


def transformation(g, n):
    """One of Grain's transformations."""
    return [
        lambda: transform(g, "Map", lambda self, x: [x, n]),
        lambda: transform(
            g, "RandomMap", lambda self, x, rng: (x, None if rng is None else rng.random())
        ),
        lambda: transform(g, "Filter", lambda self, x: some_of(n)(x)),
        lambda: g.transforms.Batch(n % 3 + 1, drop_remainder=n % 2 == 0),
    ][n % 4]()


BY_INDEX = (
    lambda g, d, n: d.batch(n % 4 + 1, drop_remainder=n % 2 == 0),
    lambda g, d, n: d.batch(n % 3 + 1, batch_fn=tuple),
    lambda g, d, n: d.shuffle(seed=[0, 1, 2**31, 2**32 - 1][n % 4]),
    lambda g, d, n: d.repeat(2, reseed_each_epoch=n % 2 == 0),
    lambda g, d, n: d[
        [None, 1, -3, 2][n % 4] : [None, 5, -1, 30, -2][n % 5] : [None, 2, -1][n % 3]
    ],
    lambda g, d, n: d.map_with_index(lambda i, x: {"i": i, "x": x}),
    lambda g, d, n: d.filter(some_of(n)),
    lambda g, d, n: d.seed(n).random_map(draws),
    lambda g, d, n: d.pipe(lambda dataset: dataset.map(lambda x: (x, n))),
    lambda g, d, n: g.MapDataset.concatenate([d, d]),
    lambda g, d, n: g.MapDataset.mix([d, d], [[1, 2], [1e-6, 1], [0.3, 0.7]][n % 3]),
    lambda g, d, n: g.experimental.ZipMapDataset([d, d]),
    lambda g, d, n: g.experimental.WindowShuffleMapDataset(d, window_size=n % 4 + 1, seed=n),
    lambda g, d, n: evens(g, d),
    lambda g, d, n: evens(g, d.seed(n)).shuffle(),
)
IN_ORDER = (
    lambda g, d, n: d.batch(n % 4 + 1, drop_remainder=n % 2 == 0),
    lambda g, d, n: d.batch(
        n % 3 + 1, batch_fn=lambda v: g.experimental.batch_and_pad(v, batch_size=n % 3 + 1)
    ),
    lambda g, d, n: d.seed(n).random_map(draws),
    lambda g, d, n: d.filter(some_of(n)),
    lambda g, d, n: g.experimental.LimitIterDataset(d, n % 7 + 1),
    lambda g, d, n: g.experimental.RepeatIterDataset(d, n % 2 + 1),
    lambda g, d, n: d.map(lambda x: [x, {"n": n}]),
    lambda g, d, n: g.IterDataset.mix([d, d], [1, n % 3 + 1]),
    lambda g, d, n: g.experimental.ZipIterDataset([d, d], strict=n % 2 == 0),
    lambda g, d, n: g.experimental.CacheIterDataset(d),
    lambda g, d, n: d.map_with_index(lambda i, x: (i, x)),
    lambda g, d, n: without_each(g, d, n % 4 + 2),
    lambda g, d, n: without_each(g, d.seed(n), 3).random_map(draws),
)


def by_index(g, r):
    """A MapDataset."""
    element, count = ELEMENTS[r.choice([*ELEMENTS])], r.choice([1, 2, 3, 5, 8, 13])
    kinds = [
        lambda: root(g, count, element),
        lambda: g.MapDataset.source(
            Source(count, element, r.choice([None, None, None, count - 1]), r.random() < 0.3)
        ),
        lambda: g.MapDataset.source(
            SourceOfMany(count, element, r.choice([None, None, None, count - 1]), False)
        ),
        lambda: g.MapDataset.source([element(number) for number in range(count)]),
        lambda: g.MapDataset.range(r.randrange(-5, 5), r.randrange(6, 20), r.choice([1, 2, 3])).map(
            element
        ),
    ]
    dataset = r.choice(kinds)()
    for _ in range(r.randint(0, 3)):
        dataset = r.choice(BY_INDEX)(g, dataset, r.randrange(20))
    return dataset


def in_order(g, r):
    """An IterDataset."""
    options = (
        {"read_options": g.ReadOptions(r.choice([0, 1, 16]), r.choice([16, 500]))}
        if r.random() < 0.3
        else {}
    )
    dataset = by_index(g, r).to_iter_dataset(**options)
    for _ in range(r.randint(0, 2)):
        dataset = r.choice(IN_ORDER)(g, dataset, r.randrange(20))
    return dataset


def loader(g, r):
    """A loader, or what `load` gives."""
    count, records = r.choice([1, 2, 5, 9, 14]), r.randrange(30)
    kind = r.choice([Source, SourceOfMany])
    data = kind(
        count, ELEMENTS[r.choice([*ELEMENTS])], None, many=kind is Source and r.random() < 0.3
    )
    shard = (
        g.sharding.ShardOptions(records % 2, 2, records % 3 == 0)
        if count > 1
        else g.sharding.NoSharding()
    )
    operations = [transformation(g, r.randrange(8)) for _ in range(r.randint(0, 3))]
    if r.random() < 0.3:
        batches = r.choice([{}, {"batch_size": 2}, {"batch_size": 3, "drop_remainder": True}])
        order = {"num_epochs": r.choice([1, 2]), "shuffle": r.random() < 0.5, "seed": records}
        return g.load(data, shard_options=shard, transformations=operations, **order, **batches)
    sampler = r.choice(
        [
            lambda: g.samplers.SequentialSampler(count, shard, r.choice([None, 3])),
            lambda: g.samplers.IndexSampler(count, shard, shuffle=True, num_epochs=2, seed=records),
            lambda: g.samplers.IndexSampler(count, shard, num_epochs=1),
        ]
    )()
    return g.DataLoader(data_source=data, sampler=sampler, operations=operations)


def given(function):
    """What a step gave: an element, "end", or the error."""
    try:
        return both.told(function())
    except StopIteration:
        return "end"
    except Exception as error:
        return error


def looked_up(dataset, r):
    """Elements by index, far ones too, lengths, and whole epochs."""
    for _ in range(12):
        index = r.choice([0, 1, 2, -1, -2, 3, 7, 11, 100])
        step = r.choice(
            [
                lambda: len(dataset),
                lambda: list(itertools.islice(dataset, 9)),
                lambda index=index: dataset[index],
                lambda index=index: dataset[index],
            ]
        )
        yield given(step)


def iterated(dataset, r):
    """Several iterators, by turns; each may go to any state that another had, also
    after its end.
    """
    iterators, states = [iter(dataset)], []
    for _ in range(25):
        kind, iterator, number = r.random(), r.choice(iterators), r.randrange(100)
        if kind < 0.6:
            yield given(lambda iterator=iterator: next(iterator))
        elif kind < 0.75:
            states.append(iterator.get_state())
        elif kind < 0.92 and states:
            state = states[number % len(states)]
            kept = state if isinstance(state, bytes) else json.loads(json.dumps(state))
            yield given(lambda iterator=iterator, kept=kept: iterator.set_state(kept))
        elif kind >= 0.92:
            iterators.append(iter(dataset))


def beginning(g, number):
    """The dataset or loader of a script, or the error that making it gave; the kind of its steps;
    where its choices go on.
    """
    r = random.Random(number)
    make, steps = r.choice(
        [(by_index, looked_up), (in_order, iterated), (in_order, iterated), (loader, iterated)]
    )
    try:
        return make(g, r), steps, r
    except Exception as error:
        return error, steps, r


def script(g, number):
    """What each step gives, up to an error."""
    dataset, steps, r = beginning(g, number)
    if isinstance(dataset, Exception):
        yield dataset
        return
    with contextlib.suppress(StopIteration):
        for found in steps(dataset, r):
            yield found
            if isinstance(found, Exception):
                return
