"""IterDataset: a chain that is run from its beginning to its end, by the engine of `DataLoader`.

In: the stream of a `MapDataset`, and what is to be done to it. Out: iterators with states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from ..loader.arguments import warn_of_no_effect
from ..loader.device.description import to_device
from ..loader.iterator import DataLoaderIterator
from ..loader.plan.build import not_empty
from ..loader.plan.compile import compiled
from ..loader.plan.nodes import Apply
from ..loader.plan.pipeline import Pipeline
from ..loader.plan.skipped_steps import NONE_SKIPPED
from ..loader.plan.steps import number_of
from ..operations import (
    Batch,
    Filter,
    MapTransform,
    MapWithIndexTransform,
    Operation,
    Pack,
    RandomMapTransform,
    WindowShuffle,
)
from ..operations.keyed import KeyedRandomMap
from ..operations.packing.rules import Strategy
from ..samplers import ShardOptions
from ..samplers.sharding import as_shard_options
from .arguments import BELOW_2_64, as_named, checked_seed, seed_of
from .iter_joins import Exhausted, cached, interleaved, limited, mixed, repeated, run_through, sharded, zipped
from .other_kind import Remarks
from .rows import rows_of
from .stream import Stream
from .transforms import as_kind, each_of, fan_out_of, method_for

T = TypeVar("T")


class IterDataset(Remarks, Generic[T]):
    """A stream of elements; made by `MapDataset.to_iter_dataset()`, and by the methods of another stream. Immutable.

    A class of your own, made from this one, defines `__iter__`, whose iterators have `get_state` and `set_state`; it can stand
    anywhere in a chain. `super().__init__(parent)` keeps the dataset that it is made from, as `self._parent`. Such a dataset is
    run through in order, in one worker.

    Each `iter(dataset)` is an independent run from the start: a `DataLoaderIterator`, with `get_state`, `set_state`,
    `set_states`, `start_prefetch` and all else. The stream does not depend on the number of workers; a state goes on with any.

    >>> import millrace
    >>> dataset = millrace.MapDataset.range(10).to_iter_dataset().filter(lambda x: x % 3).batch(2)
    >>> iterator = iter(dataset)
    >>> next(iterator).tolist()
    [1, 2]
    >>> again = iter(dataset.mp_prefetch(1))
    >>> again.set_state(iterator.get_state())
    >>> [batch.tolist() for batch in again]
    [[4, 5], [7, 8]]
    """

    def __init__(self, *parents: Any) -> None:
        self._parents = parents

    @classmethod
    def _of(cls, stream: Stream) -> IterDataset[Any]:
        """The dataset that the engine makes of a stream."""
        dataset = IterDataset[Any]()
        dataset.__dict__["_stream"] = stream
        return dataset

    @property
    def _parent(self) -> Any:
        """The dataset that this one, of a class of yours, is made from."""
        (parent,) = self._parents
        return parent

    @cached_property
    def _stream(self) -> Stream:
        """Of a class of the user's: the engine runs through it."""
        if not self._is_own:
            raise TypeError(
                f"{type(self).__name__} has no __iter__; define it, or take MapDataset.….to_iter_dataset()."
            )
        return run_through(self)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_stream", "_pipeline") if self._is_own else ()
        return {name: value for name, value in vars(self).items() if name not in derived}

    @property
    def _is_own(self) -> bool:
        """Whether it is of a class of the user's, which says how it is run through."""
        return type(self).__iter__ is not IterDataset.__iter__

    @cached_property
    def _pipeline(self) -> Pipeline:
        return not_empty(compiled(self._stream.tree, self._stream.skips_errors))

    def __iter__(self) -> DataLoaderIterator:
        warn_of_no_effect(self._stream.execution, profiles=False)
        return DataLoaderIterator(self._pipeline, self._stream.execution, self._stream.max_errors)

    def __len__(self) -> int:
        """Number of elements of this shard, known before anything is read.

        Raises:
            TypeError: it is endless, or an operation decides how many there are.
        """
        return number_of(self._pipeline, (0, 0), NONE_SKIPPED)

    def __repr__(self) -> str:
        leaves, operations = len(self._pipeline.leaves), len(self._pipeline.operations)
        return f"IterDataset({leaves} source{'s' * (leaves > 1)}, {operations} operations)"

    def map(self, transform: MapTransform | Callable[[T], Any]) -> IterDataset[Any]:
        """A function of each element.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().map(lambda x: x * 10))
        [0, 10, 20]
        """
        return self._then(as_kind(MapTransform, transform))

    def random_map(
        self, transform: RandomMapTransform | Callable[..., Any], *, seed: int | None = None
    ) -> IterDataset[Any]:
        """A function of each element and a generator, which depends on the seed and on where the element stands in the stream.

        Args:
            transform: a function `(element, rng)`, or a `RandomMapTransform`.
            seed: in `[0, 2^64)`; None (default): made of that of `seed()` before.

        Raises:
            SeedError: there is no seed.

        >>> from millrace import MapDataset
        >>> noisy = MapDataset.range(3).to_iter_dataset().random_map(lambda x, rng: x + rng.random(), seed=1)
        >>> list(noisy) == list(noisy)
        True
        """
        kind, stream = as_kind(RandomMapTransform, transform), self._stream
        own = seed_of("random_map", seed, stream.seeds, BELOW_2_64)
        return self._then(KeyedRandomMap(kind, own, stream.operations))

    def map_with_index(self, transform: MapWithIndexTransform | Callable[[int, T], Any]) -> IterDataset[Any]:
        """A function of each element and its position: the index that it had in the `MapDataset`, whatever was left out before.

        Of a batch, and of what a flat map gave, it is the position of the (first) record that it was made of.

        >>> from millrace import MapDataset
        >>> odd = MapDataset.range(6).to_iter_dataset().filter(lambda x: x % 2)
        >>> list(odd.map_with_index(lambda index, x: (index, x)))
        [(1, 1), (3, 3), (5, 5)]
        """
        return self._then(as_kind(MapWithIndexTransform, transform))

    def filter(self, transform: Filter | Callable[[T], bool]) -> IterDataset[T]:
        """The elements that a function is true of.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(5).to_iter_dataset().filter(lambda x: x % 2))
        [1, 3]
        """
        return self._then(as_kind(Filter, transform))

    def flat_map(self, transform: Any, max_fan_out: int | None = None) -> IterDataset[Any]:
        """The elements that a function gives for each, in a list or another iterable.

        Args:
            transform: the function, or a `FlatMap`.
            max_fan_out: most elements of one; more are an error. None (default): that of the `FlatMap`, or no limit.

        >>> from millrace import MapDataset
        >>> list(MapDataset.source(["to be", "or"]).to_iter_dataset().flat_map(str.split))
        ['to', 'be', 'or']
        """
        return self._then(fan_out_of(transform, max_fan_out))

    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: Callable[[Sequence[Any]], Any] | None = None
    ) -> IterDataset[Any]:
        """Consecutive elements as one, as `Batch` makes it.

        >>> from millrace import MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(5).to_iter_dataset().batch(2, drop_remainder=True)]
        [[0, 1], [2, 3]]
        """
        return self._then(Batch(batch_size, drop_remainder, batch_fn))

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[Any]:
        """Batches of another size, of the same rows in the same order.

        >>> from millrace import MapDataset
        >>> batches = MapDataset.range(5).batch(2).to_iter_dataset()
        >>> [batch.tolist() for batch in batches.rebatch(3)]
        [[0, 1, 2], [3, 4]]
        """
        return self.flat_map(rows_of).batch(batch_size, drop_remainder=drop_remainder)

    def pack(
        self, length: int | Mapping[Any, Any], strategy: Strategy = "best_fit", window: int = 1000, **settings: Any
    ) -> IterDataset[Any]:
        """Documents as rows of one length, as `Pack` makes them of so many elements at a time.

        Args:
            length: tokens of a row, as of `Pack`.
            strategy: likewise.
            window: likewise.
            **settings: other arguments of `Pack`.

        >>> import numpy as np
        >>> from millrace import MapDataset
        >>> documents = MapDataset.range(1, 4).to_iter_dataset().map(lambda x: np.full(x, x))
        >>> [row["tokens"].tolist() for row in documents.pack(3)]
        [[1, 2, 2], [3, 3, 3]]
        """
        return self._packed(Pack(length, strategy, window, **settings))

    @staticmethod
    def mix(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        weights: Any = None,
        *,
        when_exhausted: Exhausted = "first",
        ramp: bool = False,
    ) -> IterDataset[Any]:
        """Elements of several streams, in proportion to their weights, at every step.

        Filters and flat maps may come before it: what is counted are the elements that come out of them.

        Args:
            datasets: in a list, or in a dict by name.
            weights: a list of numbers, a dict by name, or a schedule, `[(first_element, weights), …]`; they need not sum to
                one. None (default): equal.
            when_exhausted: "first" (default) ends with the first dataset that has no more when it is its turn; "all" goes on
                without it, until all have ended; "repeat" goes on with its next epoch.
            ramp: whether weights change linearly from one stage of a schedule to the next.

        Raises:
            TypeError, ValueError: datasets or weights are none, or do not fit one another.

        >>> from millrace import IterDataset, MapDataset
        >>> ones = MapDataset.source([1] * 10).to_iter_dataset()
        >>> twos = MapDataset.source([2] * 10).to_iter_dataset()
        >>> list(IterDataset.mix({"ones": ones, "twos": twos}, {"ones": 0.75, "twos": 0.25}))[:8]
        [1, 1, 2, 1, 1, 1, 2, 1]
        """
        listed, names = as_named("mix", datasets, IterDataset)
        return IterDataset._of(mixed([each._stream for each in listed], names, weights, when_exhausted, ramp))

    @staticmethod
    def zip(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]], *, strict: bool = True
    ) -> IterDataset[Any]:
        """An element of each stream, in a tuple, or in a dict where the streams are.

        Args:
            datasets: in a list, or in a dict by name.
            strict: True (default): that one ends before the others is an error, `JoinError`; False: it ends with the shortest.

        >>> from millrace import IterDataset, MapDataset
        >>> numbers = MapDataset.range(2).to_iter_dataset()
        >>> list(IterDataset.zip({"x": numbers, "y": numbers.map(lambda x: x * 10)}))
        [{'x': 0, 'y': 0}, {'x': 1, 'y': 10}]
        """
        listed, names = as_named("zip", datasets, IterDataset)
        return IterDataset._of(zipped([each._stream for each in listed], names, strict))

    @staticmethod
    def interleave(datasets: Sequence[IterDataset[Any]], cycle_length: int | None = None) -> IterDataset[Any]:
        """An element of each of the streams that are open, in turn; where one ends, the next one is opened in its place.

        Args:
            datasets: in a list.
            cycle_length: how many are open at a time; None (default): all.

        >>> from millrace import IterDataset, MapDataset
        >>> files = [MapDataset.source([letter] * 2).to_iter_dataset() for letter in "abc"]
        >>> "".join(IterDataset.interleave(files, cycle_length=2))
        'ababcc'
        """
        listed, _ = as_named("interleave", datasets, IterDataset)
        return IterDataset._of(interleaved([each._stream for each in listed], cycle_length))

    def limit(self, count: int) -> IterDataset[T]:
        """The first elements.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(9).to_iter_dataset().filter(lambda x: x % 2).limit(2))
        [1, 3]
        """
        return self._of(limited(self._stream, count))

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """All elements, so many times, each time the same; None (default): for ever.

        `MapDataset.repeat`, before `to_iter_dataset`, shuffles each epoch anew, and goes on with other shards.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().repeat(2))
        [0, 1, 2, 0, 1, 2]
        """
        return self._of(repeated(self._stream, num_epochs))

    def cache(self) -> IterDataset[T]:
        """The same elements; a `repeat` after it makes them once, keeps them in memory, and takes copies of them from there.

        All elements must fit into memory. What comes after it is made anew each time.

        >>> from millrace import MapDataset
        >>> made = []
        >>> dataset = MapDataset.range(3).to_iter_dataset().map(lambda x: made.append(x) or x)
        >>> list(dataset.cache().repeat(2)), made
        ([0, 1, 2, 0, 1, 2], [0, 1, 2])
        """
        return self._of(cached(self._stream))

    def window_shuffle(self, window_size: int, seed: int | None = None) -> IterDataset[T]:
        """Shuffles elements within windows: those of one come before those of the next.

        Args:
            window_size: elements of a window.
            seed: in `[0, 2^64)`; None (default): made of that of `seed()` before.

        >>> from millrace import MapDataset
        >>> shuffled = list(MapDataset.range(6).to_iter_dataset().window_shuffle(3, seed=1))
        >>> sorted(shuffled[:3]), sorted(shuffled[3:])
        ([0, 1, 2], [3, 4, 5])
        """
        return self._then(WindowShuffle(window_size, seed_of("window_shuffle", seed, self._stream.seeds, BELOW_2_64)))

    def seed(self, seed: int) -> IterDataset[T]:
        """The same elements; what is random after it, without a seed of its own, takes one made of this one, each another."""
        return self._of(dataclasses.replace(self._stream, seeds=((checked_seed(seed), 0),)))

    def shard(self, shard_options: ShardOptions) -> IterDataset[T]:
        """The part for this process: every shard_count-th record of each source, as `DataLoader(shard_options=…)` reads.

        >>> from millrace import MapDataset, ShardOptions
        >>> list(MapDataset.range(5).to_iter_dataset().map(lambda x: x * 10).shard(ShardOptions(1, 2)))
        [10, 30]
        """
        return self._of(sharded(self._stream, as_shard_options(shard_options)))

    def mp_prefetch(self, options: Any = None) -> IterDataset[T]:
        """The same stream, made in worker processes: all of it, wherever in the chain this stands.

        Args:
            options: number of processes, 0 for none; None (default): one for each CPU; or an object with `num_workers` and
                `per_worker_buffer_size`.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().mp_prefetch(1))
        [0, 1, 2]
        """
        if not hasattr(options, "num_workers"):
            return self.with_options(worker_count=options)
        return self.with_options(
            worker_count=options.num_workers, worker_buffer_size=getattr(options, "per_worker_buffer_size", 1)
        )

    prefetch = mp_prefetch

    def with_options(self, **options: Any) -> IterDataset[T]:
        """The same stream, made elsewhere or otherwise; arguments of `DataLoader`, which say what each does.

        Args:
            **options: `worker_count`, `worker_kind`, `worker_buffer_size`, `timeout`, `read_options`, `on_error`, `max_errors`.

        >>> from millrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().with_options(worker_count=2, worker_kind="thread"))
        [0, 1, 2]
        """
        return self._of(self._stream.with_options(**options))

    def apply(self, transformations: Any) -> IterDataset[Any]:
        """What a transform, or each of a list, makes of the stream: `map` for a `MapTransform` and so on."""
        dataset: IterDataset[Any] = self
        for transform in each_of(transformations):
            dataset = method_for(dataset, transform)()
        return dataset

    def pipe(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """`function(dataset, *arguments, **named)`."""
        return function(self, *arguments, **named)

    to_device = to_device

    def _packed(self, pack: Pack) -> IterDataset[Any]:
        return self._then(pack)

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return self._of(self._stream.on(Apply(self._stream.tree, (operation,)), 1))
