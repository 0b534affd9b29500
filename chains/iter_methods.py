"""What one does to a stream: the methods that each give another one.

In: a stream, and what is to be done to its elements. Out: a stream.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..loader.plan.nodes import Apply
from ..migration_hints.decorators import explains_arguments
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
from .arguments import BELOW_2_64, checked_seed, seed_of
from .iter_joins import cached, limited, repeated, sharded
from .rows import rows_of
from .stream import Stream
from .transforms import as_kind, each_of, fan_out_of, method_for

if TYPE_CHECKING:
    from .iter_dataset import IterDataset

T = TypeVar("T")


@explains_arguments
class IterMethods(Generic[T]):
    """Base of `IterDataset`, which has all but the methods."""

    @property
    @abstractmethod
    def _stream(self) -> Stream: ...

    @classmethod
    @abstractmethod
    def _of(cls, stream: Stream) -> IterDataset[Any]:
        """The dataset that the engine makes of a stream."""

    def map(self, transform: MapTransform | Callable[[T], Any]) -> IterDataset[Any]:
        """A function of each element.

        >>> from headrace import MapDataset
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

        >>> from headrace import MapDataset
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

        >>> from headrace import MapDataset
        >>> odd = MapDataset.range(6).to_iter_dataset().filter(lambda x: x % 2)
        >>> list(odd.map_with_index(lambda index, x: (index, x)))
        [(1, 1), (3, 3), (5, 5)]
        """
        return self._then(as_kind(MapWithIndexTransform, transform))

    def filter(self, transform: Filter | Callable[[T], bool]) -> IterDataset[T]:
        """The elements that a function is true of.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(5).to_iter_dataset().filter(lambda x: x % 2))
        [1, 3]
        """
        return self._then(as_kind(Filter, transform))

    def flat_map(self, transform: Any, max_fan_out: int | None = None) -> IterDataset[Any]:
        """The elements that a function gives for each, in a list or another iterable.

        Args:
            transform: the function, or a `FlatMap`.
            max_fan_out: most elements of one; more are an error. None (default): that of the `FlatMap`, or no limit.

        >>> from headrace import MapDataset
        >>> list(MapDataset.source(["to be", "or"]).to_iter_dataset().flat_map(str.split))
        ['to', 'be', 'or']
        """
        return self._then(fan_out_of(transform, max_fan_out))

    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: Callable[[Sequence[Any]], Any] | None = None
    ) -> IterDataset[Any]:
        """Consecutive elements as one, as `Batch` makes it.

        >>> from headrace import MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(5).to_iter_dataset().batch(2, drop_remainder=True)]
        [[0, 1], [2, 3]]
        """
        return self._then(Batch(batch_size, drop_remainder, batch_fn))

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[Any]:
        """Batches of another size, of the same rows in the same order.

        >>> from headrace import MapDataset
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
        >>> from headrace import MapDataset
        >>> documents = MapDataset.range(1, 4).to_iter_dataset().map(lambda x: np.full(x, x))
        >>> [row["tokens"].tolist() for row in documents.pack(3)]
        [[1, 2, 2], [3, 3, 3]]
        """
        return self._packed(Pack(length, strategy, window, **settings))

    def limit(self, count: int) -> IterDataset[T]:
        """The first elements.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(9).to_iter_dataset().filter(lambda x: x % 2).limit(2))
        [1, 3]
        """
        return self._of(limited(self._stream, count))

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """All elements, so many times, each time the same; None (default): for ever.

        `MapDataset.repeat`, before `to_iter_dataset`, shuffles each epoch anew, and goes on with other shards.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().repeat(2))
        [0, 1, 2, 0, 1, 2]
        """
        return self._of(repeated(self._stream, num_epochs))

    def cache(self) -> IterDataset[T]:
        """The same elements; a `repeat` after it makes them once, keeps them in memory, and takes copies of them from there.

        All elements must fit into memory. What comes after it is made anew each time.

        >>> from headrace import MapDataset
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

        >>> from headrace import MapDataset
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

        >>> from headrace import MapDataset, ShardOptions
        >>> list(MapDataset.range(5).to_iter_dataset().map(lambda x: x * 10).shard(ShardOptions(1, 2)))
        [10, 30]
        """
        return self._of(sharded(self._stream, as_shard_options(shard_options)))

    def mp_prefetch(
        self,
        options: Any = None,
        worker_init_fn: Callable[[int, int], Any] | None = None,
        sequential_slice: bool = False,
    ) -> IterDataset[T]:
        """The same stream, made in worker processes: all of it, wherever in the chain this stands.

        Args:
            options: number of processes, 0 for none; None (default): one for each CPU; or an object with `num_workers`,
                `per_worker_buffer_size` and `enable_profiling` (see `observe` of `DataLoader`).
            worker_init_fn: called in each process before its first task, with its number, from 0, and how many there are, to
                open a connection for example. It must not change what comes. Default: none.
            sequential_slice: accepted, and does nothing: elements come in the order of the dataset, whoever makes them.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().mp_prefetch(1))
        [0, 1, 2]
        """
        if not hasattr(options, "num_workers"):
            return self.with_options(worker_count=options, worker_init_fn=worker_init_fn)
        return self.with_options(
            worker_count=options.num_workers,
            worker_buffer_size=getattr(options, "per_worker_buffer_size", 1),
            worker_init_fn=worker_init_fn,
            observe="log" if getattr(options, "enable_profiling", False) else True,
        )

    prefetch = mp_prefetch

    def with_options(self, **options: Any) -> IterDataset[T]:
        """The same stream, made elsewhere or otherwise; arguments of `DataLoader`, which say what each does.

        Args:
            **options: `worker_count`, `worker_kind`, `worker_buffer_size`, `timeout`, `read_options`, `on_error`, `max_errors`,
                `observe`, `seed_globals` (by position and operation); and `worker_init_fn`, see `mp_prefetch`.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().with_options(worker_count=2, worker_kind="thread"))
        [0, 1, 2]
        """
        return self._of(self._stream.with_options(**options))

    def apply(self, transformations: Any) -> IterDataset[Any]:
        """What a transform, or each of a list, makes of the stream: `map` for a `MapTransform` and so on."""
        dataset: Any = self
        for transform in each_of(transformations):
            dataset = method_for(dataset, transform)()
        return dataset  # type: ignore[no-any-return]

    def pipe(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """`function(dataset, *arguments, **named)`."""
        return function(self, *arguments, **named)

    def _packed(self, pack: Pack) -> IterDataset[Any]:
        return self._then(pack)

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return self._of(self._stream.on(Apply(self._stream.tree, (operation,)), 1))
