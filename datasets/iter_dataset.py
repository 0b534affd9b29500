"""IterDataset: a chain that is run from its beginning to its end, by the engine of `DataLoader`.

In: the stream of a `MapDataset`, and what is to be done to it. Out: iterators with states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from ..loader.arguments import skips, warn_of_no_effect
from ..loader.device.description import to_device
from ..loader.iterator import DataLoaderIterator
from ..loader.options import ExecutionOptions
from ..loader.plan.build import not_empty
from ..loader.plan.compile import compiled
from ..loader.plan.nodes import Apply, Read
from ..loader.plan.nodes import Node as Tree
from ..loader.plan.pipeline import Pipeline
from ..loader.plan.skipped_steps import NONE_SKIPPED
from ..loader.plan.steps import number_of
from ..operations import Batch, Filter, MapTransform, MapWithIndexTransform, Operation, RandomMapTransform
from ..operations.keyed import KeyedRandomMap
from ..samplers import NoSharding, ShardOptions
from ..samplers.sharding import as_shard_options
from ..wording import brief
from .arguments import BELOW_2_64, checked_seed, seed_of
from .nodes import Evaluated, Node, Seeds
from .rows import rows_of
from .transforms import as_kind, each_of, fan_out_of, method_for

T = TypeVar("T")


@dataclass(frozen=True)
class Stream:
    """What an `IterDataset` is made of.

    Attributes:
        tree: what the engine compiles.
        seeds: that were set below.
        operations: how many an element has gone through, those included that are evaluated inside sources.
        execution: where the work is done.
        skips_errors: a record that fails is left out.
        max_errors: how many may be.
    """

    tree: Tree
    seeds: Seeds
    operations: int
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    skips_errors: bool = False
    max_errors: int | None = None

    def on(self, tree: Tree, operations: int = 0) -> Stream:
        """The same with another tree, which has so many more operations on the way."""
        seeds = tuple((seed, depth + 1) for seed, depth in self.seeds)
        return dataclasses.replace(self, tree=tree, seeds=seeds, operations=self.operations + operations)


class IterDataset(Generic[T]):
    """A stream of elements; made by `MapDataset.to_iter_dataset()`, and by the methods of another stream. Immutable.

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

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

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
        leaves, operations = _counts(self._stream.tree)
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

    def seed(self, seed: int) -> IterDataset[T]:
        """The same elements; what is random after it, without a seed of its own, takes one made of this one, each another."""
        return IterDataset(dataclasses.replace(self._stream, seeds=((checked_seed(seed), 0),)))

    def shard(self, shard_options: ShardOptions) -> IterDataset[T]:
        """The part for this process: every shard_count-th record of each source, as `DataLoader(shard_options=…)` reads.

        >>> from millrace import MapDataset, ShardOptions
        >>> list(MapDataset.range(5).to_iter_dataset().map(lambda x: x * 10).shard(ShardOptions(1, 2)))
        [10, 30]
        """
        tree = _sharded(self._stream.tree, as_shard_options(shard_options))
        return IterDataset(dataclasses.replace(self._stream, tree=tree))

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
        return IterDataset(_with_options(self._stream, **options))

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

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return IterDataset(self._stream.on(Apply(self._stream.tree, (operation,)), 1))


class Present(Filter):
    """Keeps what a dataset with random access has not left out.

    >>> Present().filter(None)
    False
    """

    def filter(self, element: Any) -> bool:
        """Whether there is an element."""
        return element is not None


def stream_of(node: Node, read_options: Any, allow_nones: bool, shard_options: Any) -> IterDataset[Any]:
    """The stream of a node's first epoch; arguments of `MapDataset.to_iter_dataset`."""
    line = node.evaluated if allow_nones and node.may_be_none else node.line
    leaves_out = isinstance(line.source, Evaluated) and line.source.may_be_none and not (allow_nones or line.batches)
    shard = NoSharding() if shard_options is None else as_shard_options(shard_options)
    tree = line.tree(shard, (Present(),) if leaves_out else ())
    return IterDataset(Stream(tree, node.seeds, node.operations, ExecutionOptions(read_options=read_options)))


def _with_options(
    stream: Stream, on_error: Literal["raise", "skip"] | None = None, max_errors: int | None = None, **execution: Any
) -> Stream:
    known = [each.name for each in dataclasses.fields(ExecutionOptions)]
    for name in execution:
        if name not in known:
            raise TypeError(
                f"with_options has no argument {brief(name)}=; it has {', '.join(known)}, on_error, max_errors."
            )
    changed = dataclasses.replace(stream, execution=dataclasses.replace(stream.execution, **execution))
    if on_error is None and max_errors is None:
        return changed
    leaves_out = skips(on_error or "raise", max_errors)
    return dataclasses.replace(changed, skips_errors=leaves_out, max_errors=max_errors)


def _sharded(tree: Tree, shard: ShardOptions) -> Tree:
    if isinstance(tree, Apply):
        return dataclasses.replace(tree, input=_sharded(tree.input, shard))
    leaf = tree.leaf
    return Read(dataclasses.replace(leaf, sampler=leaf.sampler.with_shard_options(shard), shard=shard))


def _counts(tree: Tree) -> tuple[int, int]:
    """Sources and operations in a tree."""
    if isinstance(tree, Apply):
        leaves, operations = _counts(tree.input)
        return leaves, operations + len(tree.operations)
    return 1, 0
