"""Random programs: recipes drawn from one generator, and the chains and loaders that are made of
them.

`drawn` takes its choices from a `random.Random`: from a seed, or from hypothesis, which makes
failures small. `plain_model` says what a program gives.

Elements are tokens, numbers of which no two records have one in common, or arrays of these. What a
chain adds to a token is below one; so the tokens that came out of it can be compared, however they
were grouped, with those that should have.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    MapTransform,
    MapWithIndexTransform,
    NoSharding,
    Pack,
    RandomMapTransform,
    ShardOptions,
    WindowShuffle,
)

MOST_NODES = 8
MOST_ELEMENTS = 60
"""That tests take of a stream, which may have no end."""
ONE = NoSharding()


class Step(NamedTuple):
    """A node of a chain.

    Attributes:
        name: of the method.
        n: a small number for its arguments.
        others: what else comes into it.
    """

    name: str
    n: int
    others: tuple[Any, ...] = ()


class Recipe(NamedTuple):
    """A chain: a source of so many records, the methods before `to_iter_dataset`, and those after
    it.
    """

    count: int
    before: tuple[Step, ...]
    after: tuple[Step, ...]


def tokens(element: Any) -> np.ndarray:
    """The tokens of an element."""
    return np.floor(np.ravel(element))


def total(element: Any) -> float:
    """The sum of an element of any shape."""
    return float(np.sum(element))


def counted(elements: Any) -> Counter[float]:
    """How often each token is in some elements."""
    return Counter(token for element in elements for token in tokens(element).tolist())


class Backwards(MapDataset):
    """A user's own: the last element first."""

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        epoch, place = divmod(index, len(self))
        return self._parent[epoch * len(self) + len(self) - 1 - place]


class Passed(IterDataset):
    """A user's own: what its parent gives, one by one."""

    def __iter__(self):
        return PassedIterator(iter(self._parent))


class PassedIterator:
    """Its state is that of its parent, and how many came out of it."""

    def __init__(self, parent):
        self._parent, self._count = parent, 0

    def __next__(self):
        element = next(self._parent)
        self._count += 1
        return element

    def get_state(self):
        return {"parent": self._parent.get_state(), "count": self._count}

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self._count = state["count"]


def _shift(x):
    return x + 1000.0


def _noise(x, rng):
    return np.floor(x) + rng.random() * 0.9


def _index(index, x):
    return np.floor(x) + index % 8 / 16


def _keeps(x):
    """Of single tokens some; arrays of them all, as these are others with other shards."""
    return np.ndim(x) > 0 or int(x) % 3 != 0


def _keeps_some(x):
    return int(total(x)) % 3 != 0


def _copies(x):
    return [np.float64(token) for token in np.ravel(x) for _ in range(int(token) % 3)]


def _gathered(elements):
    return np.concatenate(
        [np.zeros(0), *(np.ravel(element) for element in elements if element is not None)]
    )


def _document(x):
    return np.repeat(tokens(x), 2)


def _tokens_of(row):
    return row["tokens"]


def _packed(row):
    return row["tokens"][row["tokens_segment_ids"] > 0]


class Swapped:
    """A selection map: elements of two datasets in turn."""

    def __init__(self, shortest):
        self._shortest = shortest

    def __len__(self):
        return 2 * self._shortest

    def __getitem__(self, index):
        return (index % 2, index // 2)


def _selected(datasets):
    return MapDataset.select_from_datasets(datasets, Swapped(min(map(len, datasets))))


def _zipped(datasets):
    length = min(map(len, datasets))
    return MapDataset.zip([dataset[:length] for dataset in datasets]).map(_gathered)


BEFORE: dict[str, Callable[[Any, int], Any]] = {
    "map": lambda d, n: d.map(_shift),
    "random_map": lambda d, n: d.random_map(_noise, seed=n),
    "map_with_index": lambda d, n: d.map_with_index(_index),
    "filter": lambda d, n: d.filter(_keeps),
    "flat_map": lambda d, n: d.map(np.ravel).map(lambda x: x[:2]).flat_map(_copies, max_fan_out=4),
    "shuffle": lambda d, n: d.shuffle(seed=n),
    "window_shuffle": lambda d, n: d.window_shuffle(n, seed=n),
    "block_shuffle": lambda d, n: d.block_shuffle(n, seed=n),
    "slice": lambda d, n: d[n // 3 :: 1 + n // 4],
    "backwards": lambda d, n: d[::-1],
    "repeat": lambda d, n: d.repeat(1 + n // 3, reseed_each_epoch=bool(n % 2)),
    "batch": lambda d, n: d.batch(n, batch_fn=_gathered),
    "drop": lambda d, n: (
        d.batch(min(n, len(d)), drop_remainder=True, batch_fn=_gathered) if len(d) else d
    ),
    "own": lambda d, n: Backwards(d),
}
AFTER: dict[str, Callable[[Any, int], Any]] = {
    "map": lambda d, n: d.map(_shift),
    "random_map": lambda d, n: d.random_map(_noise, seed=n),
    "map_with_index": lambda d, n: d.map_with_index(_index),
    "filter": lambda d, n: d.filter(_keeps),
    "flat_map": lambda d, n: d.flat_map(_copies),
    "batch": lambda d, n: d.batch(n, batch_fn=_gathered),
    "drop": lambda d, n: d.batch(n, drop_remainder=True, batch_fn=_gathered),
    "rebatch": lambda d, n: d.map(np.ravel).rebatch(n),
    "window_shuffle": lambda d, n: d.window_shuffle(n, seed=n),
    "pack": lambda d, n: d.map(_document).pack(2 * n + 1, window=1 + n // 2).map(_packed),
    "limit": lambda d, n: d.limit(3 * n),
    "repeat": lambda d, n: d.repeat(1 + n // 3),
    "cache": lambda d, n: d.cache(),
    "own": lambda d, n: Passed(d).map(lambda x: x),
}
SUMMED: dict[str, Callable[[Any, int], Any]] = {
    "stack": lambda d, n: d.map(total).batch(n),
    "keep few": lambda d, n: d.filter(_keeps_some),
}
"""Methods of streams whose results depend on how elements are grouped, so that tokens cannot be
counted.
"""


class Broken(Exception):  # noqa: N818
    """What operations fail with."""


def _fails(n, broken):
    """A map that fails on some tokens, as long as it is `broken`: True, or the kind of error."""

    def fails(x):
        found = [token for token in tokens(x).tolist() if broken and (7 * token + n) % 11 == 0]
        if found:
            raise (Broken if broken is True else broken)(f"{n} at {found}")
        return x

    return fails


def _fails_midway(n, broken):
    """A flat map that fails after the copies that it made, as long as it is broken."""
    fails = _fails(n, broken)

    def copies(x):
        yield from _copies(x)
        fails(x)

    return copies


def _fails_to_keep(n, broken):
    fails = _fails(n, broken)
    return lambda x: _keeps(fails(x))


def _fails_to_draw(n, broken):
    fails = _fails(n, broken)
    return lambda x, rng: _noise(fails(x), rng)


def _fails_to_gather(n, broken):
    fails = _fails(n, broken)
    return lambda elements: fails(_gathered(elements))


FAILING: dict[str, Callable[[Any, int, bool], Any]] = {
    "fails": lambda d, n, broken: d.map(_fails(n, broken)),
    "fails to keep": lambda d, n, broken: d.filter(_fails_to_keep(n, broken)),
    "fails midway": lambda d, n, broken: d.flat_map(_fails_midway(n, broken)),
    "fails to draw": lambda d, n, broken: d.random_map(_fails_to_draw(n, broken), seed=n),
    "fails in a window": lambda d, n, broken: d.window_shuffle(n, seed=n).map(_fails(n, broken)),
    "fails when packed": lambda d, n, broken: AFTER["pack"](d, n).map(_fails(n, broken)),
    "fails to batch": lambda d, n, broken: d.batch(n, batch_fn=_fails_to_gather(n, broken)),
}
"""Methods of streams that fail, until somebody repairs them."""
OPERATIONS: dict[str, Callable[[int], list[Any]]] = {
    "map": lambda n: [MapTransform(_shift)],
    "random_map": lambda n: [RandomMapTransform(_noise)],
    "map_with_index": lambda n: [MapWithIndexTransform(_index)],
    "filter": lambda n: [Filter(_keeps)],
    "keep few": lambda n: [Filter(_keeps_some)],
    "flat_map": lambda n: [FlatMap(_copies)],
    "batch": lambda n: [Batch(n, batch_fn=_gathered)],
    "drop": lambda n: [Batch(n, drop_remainder=True, batch_fn=_gathered)],
    "stack": lambda n: [MapTransform(total), Batch(n)],
    "window_shuffle": lambda n: [WindowShuffle(n, seed=n)],
    "pack": lambda n: [
        MapTransform(_document),
        Pack(2 * n + 1, "first_fit", window=1 + n // 2),
        MapTransform(_tokens_of),
    ],
}
"""The same as operations of a loader."""
FAILING_OPERATIONS: dict[str, Callable[[int], list[Any]]] = {
    "fails": lambda n: [MapTransform(_fails(n, True))],
    "fails to keep": lambda n: [Filter(_fails_to_keep(n, True))],
    "fails midway": lambda n: [FlatMap(_fails_midway(n, True))],
    "fails to batch": lambda n: [Batch(n, batch_fn=_fails_to_gather(n, True))],
}
JOINED_BEFORE: dict[str, Callable[[list[Any], int], Any]] = {
    "concatenate": lambda ds, n: MapDataset.concatenate(ds),
    "select": lambda ds, n: _selected(ds),
    "zip": lambda ds, n: _zipped(ds),
    "mix": lambda ds, n: MapDataset.mix(ds, _weights(ds, n)),
    "mix all": lambda ds, n: MapDataset.mix(
        ds, _schedule(ds, n), when_exhausted="all", ramp=n % 2 > 0
    ),
    "mix repeat": lambda ds, n: MapDataset.mix(ds, _weights(ds, n), when_exhausted="repeat")[
        : 5 * n
    ],
}
JOINED: dict[str, Callable[[list[Any], int], Any]] = {
    "mix": lambda ds, n: IterDataset.mix(ds, _weights(ds, n)),
    "mix all": lambda ds, n: IterDataset.mix(ds, _weights(ds, n), when_exhausted="all"),
    "mix schedule": lambda ds, n: IterDataset.mix(
        ds, _schedule(ds, n), when_exhausted="all", ramp=n % 2 > 0
    ),
    "mix repeat": lambda ds, n: IterDataset.mix(ds, _weights(ds, n), when_exhausted="repeat").limit(
        5 * n
    ),
    "zip": lambda ds, n: IterDataset.zip(ds, strict=False).map(_gathered),
    "interleave": lambda ds, n: IterDataset.interleave(ds, cycle_length=1 + n % 3),
}
COUNTS = frozenset({"limit", "repeat", "own", "zip", "mix repeat"})
"""Methods of streams that cannot always go on with other shards."""
LOSSLESS = {"drop": "batch", "mix": "mix all", "zip": "mix all"}
"""Methods of streams that leave tokens out, others with other shards; and those that do not."""
LOSSY = frozenset({*LOSSLESS, "limit", "mix repeat"})


def _weights(datasets, n):
    return [1 + number * n / 3 for number in range(len(datasets))]


def _schedule(datasets, n):
    return [(0, [1] * len(datasets)), (n, _weights(datasets, n)), (3 * n, [2] * len(datasets))]


def _steps(
    chance: random.Random,
    names: list[str],
    joins: list[str],
    inputs: Callable[[], Recipe],
    most: int,
) -> Any:
    steps = []
    for _ in range(chance.randint(0, most)):
        if joins and chance.randint(0, 2) == 2:
            others = tuple(inputs() for _ in range(chance.randint(1, 2)))
            steps.append(Step(chance.choice(joins), chance.randint(1, 8), others))
        else:
            steps.append(Step(chance.choice(names), chance.randint(1, 8)))
    return tuple(steps)


def drawn(
    chance: random.Random,
    before: Iterable[str] = BEFORE,
    after: Iterable[str] = AFTER,
    most_records: int = 25,
) -> Recipe:
    """A chain of at most eight nodes, of some methods with random access and some of streams."""
    names, streams = sorted(before), sorted(after)

    def plain() -> Recipe:
        return Recipe(chance.randint(1, most_records), _steps(chance, names, [], plain, 2), ())

    def small() -> Recipe:
        return plain()._replace(after=_steps(chance, streams, [], plain, 2))

    first = _steps(chance, names, sorted(JOINED_BEFORE), plain, 3)
    if streams:
        recipe = Recipe(
            chance.randint(1, most_records),
            first,
            _steps(chance, streams, sorted(JOINED), small, 4),
        )
    else:
        recipe = Recipe(chance.randint(1, most_records), first, ())
    while _nodes(recipe) > MOST_NODES:
        recipe = recipe._replace(
            **({"after": recipe.after[1:]} if recipe.after else {"before": recipe.before[1:]})
        )
    return recipe


def recipes(before: Iterable[str] = BEFORE, after: Iterable[str] = AFTER) -> Any:
    """Drawn by hypothesis."""
    return st.randoms(use_true_random=False).map(lambda chance: drawn(chance, before, after))


def failing_recipes() -> Any:
    """Chains that have a method that fails, above joins and below."""
    after = [*((AFTER | SUMMED).keys() - {"own"}), *FAILING]
    return recipes(after=after).filter(lambda recipe: bool(names_in(recipe) & FAILING.keys()))


def loader_recipes(names: Iterable[str] = OPERATIONS) -> Any:
    """Recipes of loaders: a list of operations."""
    choices = sorted(names)

    def recipe(chance: random.Random) -> Recipe:
        return Recipe(chance.randint(1, 60), (), _steps(chance, choices, [], lambda: None, 5))

    return st.randoms(use_true_random=False).map(recipe)


def operations_of(recipe: Recipe) -> list[Any]:
    """Those of its loader."""
    made = OPERATIONS | FAILING_OPERATIONS
    return [operation for step in recipe.after for operation in made[step.name](step.n)]


def sampler_of(recipe: Recipe, shard: ShardOptions = ONE, num_epochs: int = 1) -> IndexSampler:
    """Shuffles all records."""
    return IndexSampler(recipe.count, shard, shuffle=True, seed=7, num_epochs=num_epochs)


def loader_of(recipe: Recipe, sampler: IndexSampler, **options: Any) -> DataLoader:
    """The loader of a recipe over tokens."""
    source = np.arange(recipe.count, dtype=np.float64)
    return DataLoader(
        data_source=source, sampler=sampler, operations=operations_of(recipe), **options
    )


def _nodes(recipe: Recipe) -> int:
    return sum(1 + sum(map(_nodes, step.others)) for step in (*recipe.before, *recipe.after))


def names_in(recipe: Recipe) -> set[str]:
    """The methods of streams that a chain has."""
    return {step.name for step in recipe.after} | {
        name for step in recipe.after for other in step.others for name in names_in(other)
    }


def before(recipe: Recipe, firsts: Iterator[int] | None = None) -> MapDataset:
    """The dataset with random access of a recipe."""
    firsts = itertools.count(0, 100) if firsts is None else firsts
    first = next(firsts)
    dataset = MapDataset.source(np.arange(first, first + recipe.count, dtype=np.float64)).seed(
        first
    )
    for step in recipe.before:
        others = [other for other in (before(other, firsts) for other in step.others) if len(other)]
        if not len(dataset):
            return dataset
        if step.name in JOINED_BEFORE and not others:
            continue
        if others:
            dataset = JOINED_BEFORE[step.name]([dataset, *others], step.n)
        elif step.name not in ("batch", "drop") or not dataset.root_node.left_out_by:
            dataset = BEFORE[step.name](dataset, step.n)
    return dataset


def stream_of(recipe: Recipe, shard: ShardOptions = ONE, broken: bool = False) -> IterDataset:
    """The stream of a recipe, or a part of it; with `broken`, methods fail."""
    return _stream(recipe, itertools.count(0, 100), broken).shard(shard)


def _stream(recipe: Recipe, firsts: Iterator[int], broken: bool) -> IterDataset:
    stream = before(recipe, firsts).to_iter_dataset()
    for step in recipe.after:
        others = [_stream(other, firsts, broken) for other in step.others]
        if step.name in FAILING:
            stream = FAILING[step.name](stream, step.n, broken)
        else:
            methods = AFTER | SUMMED
            stream = (
                JOINED[step.name]([stream, *others], step.n)
                if others
                else methods[step.name](stream, step.n)
            )
    return stream


def lossless(recipe: Recipe) -> Recipe:
    """A chain of all tokens that a chain may have."""
    steps = [step for step in recipe.after if step.name not in ("filter", "limit")]
    others = [tuple(map(lossless, step.others)) for step in steps]
    names = [LOSSLESS.get(step.name, step.name) for step in steps]
    return recipe._replace(
        after=tuple(Step(name, step.n, below) for name, step, below in zip(names, steps, others))
    )
