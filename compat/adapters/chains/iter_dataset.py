"""Grain's `IterDataset`, and the streams that Grain makes by class (`LimitIterDataset`, …).

In: streams, and the operations to apply. Out: iterators whose states are dicts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ....chains.iter_dataset import IterDataset as OurIterDataset
from ....chains.iter_dataset import IterMethods
from ....chains.joined_streams import merged, zipped
from ....chains.map_dataset import MapDataset as OurMapDataset
from ....chains.nodes.node import Node, nearest_first
from ....chains.stream import Stream, cached, limited, repeated, stream_of
from ....chains.trees import over_leaves
from ....common.validation import whole_number
from ....loader.arguments import warn_of_no_effect
from ....loader.plan.compile import compiled
from ....loader.plan.mix_rules import MixRows
from ....loader.plan.pipeline import Pipeline
from ....operations import MapWithIndexTransform, Operation, RandomMapTransform
from ....operations.function import as_kind
from ....samplers.chain.index_maps import Indices
from ..options import DatasetOptions, MultiprocessingOptions, as_read_options
from ..transforms import Batch
from .at_index import AtIndex, RandomAtIndex, ShuffledWindows, applied, counted, indexed
from .iterators import DatasetIterator, EngineIterator, EngineRun
from .orders import Mix, whole_weights
from .seeds import seed_of, seeds_of
from .slicing import MadeOfParents, check_can_be_sliced
from .thresholds import WatchedFilter, watched

T = TypeVar("T")

DEFAULT_WORKERS = 10


if TYPE_CHECKING:
    _Base = OurIterDataset  # as its methods say
else:
    _Base = IterMethods  # without a length, as in Grain


class IterDataset(MadeOfParents, _Base[T]):
    """A stream in Grain's order, made by `MapDataset.to_iter_dataset()` or from another stream.

    A subclass of your own defines `__iter__`, which returns a `DatasetIterator`.

    >>> from headrace.compat.grain import MapDataset
    >>> iterator = iter(MapDataset.range(10).shuffle(seed=1).to_iter_dataset().batch(5))
    >>> next(iterator).tolist()
    [5, 7, 6, 0, 4]
    """

    batch_class = Batch
    dataset_options: DatasetOptions | None = None

    def __init__(self, parents: Any = ()) -> None:
        super().__init__(*(parents if isinstance(parents, Sequence) else (parents,)))

    @classmethod
    def of_stream(cls, stream: Stream) -> IterDataset[Any]:
        dataset = IterDataset[Any]()
        dataset.__dict__["chain_stream"] = stream
        return dataset

    @classmethod
    def of_node(
        cls,
        node: Node,
        read_options: Any,
        allow_nones: bool,
        shard_options: Any = None,
        growth: Any = None,
    ) -> IterDataset[Any]:
        """Make the stream over the first epoch of a `MapDataset` node.

        Options: see `MapDataset.to_iter_dataset`.
        """
        stream = stream_of(
            node, as_read_options(read_options), allow_nones, shard_options, growth=growth
        )
        seeds = nearest_first([node.seeds])
        return cls.of_stream(dataclasses.replace(stream, tree=indexed(stream.tree), seeds=seeds))

    def fed_by(
        self, options: Any, worker_init_fn: Callable[[int, int], None] | None
    ) -> IterDataset[Any] | None:
        """Return this dataset with its input made by workers; None if it is no packing."""
        return None

    def _made(self, stream: Stream) -> IterDataset[Any]:
        dataset = self.of_stream(stream)
        dataset.__dict__["_parents"] = (self,)
        return dataset

    @property
    def _is_own(self) -> bool:
        return type(self).__iter__ is not IterDataset.__iter__

    @cached_property
    def chain_stream(self) -> Stream:
        return dataclasses.replace(
            self._own_stream(), seeds=nearest_first(map(seeds_of, self._parents))
        )

    @property
    def merged_options(self) -> DatasetOptions | None:
        """The options of this stream, merged with those of the streams from which it is made.

        Its own options take precedence. None if no stream has any.
        """
        found = self.dataset_options
        for parent in self.parents:
            below = parent.merged_options if isinstance(parent, IterDataset) else None
            found = below if found is None else found.merge(below)
        return found

    @cached_property
    def _pipeline(self) -> Pipeline:
        tree = watched(
            self.chain_stream.tree, self.merged_options, self.chain_stream.execution.read_options
        )
        return compiled(tree, self.chain_stream.skips_errors)

    def __iter__(self) -> DatasetIterator[Any]:  # type: ignore[override]
        return EngineIterator(self._engine_run, self.chain_stream.tree)

    def _engine_run(self) -> EngineRun:
        warn_of_no_effect(self.chain_stream.execution)
        if self.chain_stream.execution.workers > 1:
            for leaf in filter(attrgetter("in_order"), self._pipeline.leaves):
                check_can_be_sliced(leaf.source.dataset)
        for operation in self._pipeline.operations:
            if isinstance(operation, WatchedFilter):
                operation.begin()
        return EngineRun(self._pipeline, self.chain_stream.execution, self.chain_stream.max_errors)

    def random_map(self, transform: Any, *, seed: int | None = None) -> IterDataset[Any]:
        """Call a function with each element and Grain's random generator for its index.

        Args:
            transform: a function `(element, rng)`, or a `RandomMap`. `rng` is valid only during the
                call.
            seed: an int, 0 or more; None (default): derived from the last `seed(…)` before this
                map.

        Raises:
            SeedError: if `seed` is None and no `seed(…)` comes before.
        """
        kind = as_kind(RandomMapTransform, transform)
        own = seed_of("random_map", seed, self.chain_stream.seeds)
        return self._at_index(lambda unit: RandomAtIndex(kind, unit, own))

    def map_with_index(self, transform: Any) -> IterDataset[Any]:
        """Call a function `(index, element)` or a `MapWithIndex`.

        The index counts the elements that reach this map.

        >>> from headrace.compat.grain import MapDataset
        >>> odd = MapDataset.range(6).to_iter_dataset().filter(lambda x: x % 2)
        >>> list(odd.map_with_index(lambda index, x: (index, x)))
        [(0, 1), (1, 3), (2, 5)]
        """
        kind = as_kind(MapWithIndexTransform, transform)
        return self._at_index(lambda unit: AtIndex(kind, unit))

    def _at_index(self, operation: Callable[[int], AtIndex]) -> IterDataset[Any]:
        """Add the operation `operation(unit)`.

        `unit` is the number of positions for each element (see `counted`).
        """
        stream, unit = counted(self.chain_stream)
        return self._made(applied(operation(unit), stream))

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return self._made(applied(operation, self.chain_stream))

    def mp_prefetch(
        self,
        options: Any = None,
        worker_init_fn: Callable[[int, int], None] | None = None,
        sequential_slice: bool = False,
    ) -> IterDataset[T]:
        """Make the elements in worker processes. Their order is the same for any number of workers.

        Args:
            options: `MultiprocessingOptions`; None (default): 10 workers.
            worker_init_fn: called in each process before the dataset is unpickled.
            sequential_slice: no effect, since the order is the same.
        """
        wanted = MultiprocessingOptions(DEFAULT_WORKERS) if options is None else options
        in_workers = worker_init_fn if wanted.num_workers else None
        prefetched = self._fed_by(wanted, in_workers) or self._in_processes(wanted, in_workers)
        return self._made(
            dataclasses.replace(prefetched, seeds=nearest_first([self.chain_stream.seeds]))
        )

    def _in_processes(
        self, options: Any, worker_init_fn: Callable[[int, int], None] | None
    ) -> Stream:
        if not options.num_workers and self.chain_stream.execution.worker_kind == "thread":
            return self.chain_stream
        in_workers = super().mp_prefetch(options, worker_init_fn).chain_stream
        return in_workers.with_options(worker_kind=None)  # where it was made on a thread

    def _fed_by(
        self, options: Any, worker_init_fn: Callable[[int, int], None] | None
    ) -> Stream | None:
        """Return this stream with its input made by workers.

        Return None if it is no packing, or if workers would not help.
        """
        stream = self.chain_stream
        leaf, *others = compiled(stream.tree).leaves
        if others or not leaf.in_order or not options.num_workers:
            return None
        dataset = leaf.source.dataset
        fed = dataset.fed_by(options, worker_init_fn) if isinstance(dataset, IterDataset) else None
        if fed is None:
            return None
        source = leaf.source.with_workers(fed)
        tree = over_leaves(stream.tree, lambda leaf: dataclasses.replace(leaf, source=source))
        ahead = max(options.per_worker_buffer_size, 1)
        return dataclasses.replace(stream, tree=tree).with_options(
            worker_count=1, worker_kind="thread", worker_buffer_size=ahead
        )

    def prefetch(self, multiprocessing_options: Any) -> IterDataset[T]:  # type: ignore[override]
        """Like `mp_prefetch`, of which it is the older name in Grain."""
        return self.mp_prefetch(multiprocessing_options)

    @staticmethod
    def mix(  # type: ignore[override]
        datasets: Sequence[OurIterDataset[Any]] | Mapping[str, OurIterDataset[Any]],
        weights: Any = None,
    ) -> IterDataset[Any]:
        """Mix several streams in Grain's order.

        The mix ends when it needs an element of a stream that has ended.

        Args:
            datasets: a list of streams, or a dict by name.
            weights: positive numbers (else ValueError) in a list, or in a dict by name; None
                (default): all equal.
        """
        return MixedIterDataset(datasets, weights)


class Named(IterDataset[T]):
    """Base of the classes that make a stream from other streams.

    `stream` is the plan that headrace's engine runs.
    """

    def __init__(self, parents: Any, stream: Stream) -> None:
        super().__init__(parents)
        self.__dict__["chain_stream"] = stream


def as_stream(dataset: Any) -> Any:
    """Convert a `MapDataset` to a stream; a stream is returned unchanged."""
    return dataset.to_iter_dataset() if isinstance(dataset, OurMapDataset) else dataset


@dataclass(frozen=True)
class MixOfRows:
    """Order of a mix of streams: Grain's order for the given weights.

    Attributes:
        names: names of the streams.
        weights: a whole number for each stream, from `whole_weights`.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]

    def places(self, positions: Indices) -> tuple[Indices, Indices]:
        return Mix((1,) * len(self.weights), self.weights).many(positions)

    def taken(self, rows: int) -> Sequence[int]:
        """Return an empty sequence, since Grain's order needs no number of rows for each input."""
        return ()

    def without(self, part: int, position: int) -> None:
        """Return None for any arguments: this mix ends as soon as one of its inputs ends."""

    def to_values(self) -> Any:
        return [list(self.names), list(self.weights)]


class MixedIterDataset(Named[Any]):
    """A mix of streams in Grain's order.

    The streams are `parents` (a list, or a dict by name), with the positive weights `proportions`.

    A state can be restored with other weights, or with streams added or removed.
    """

    def __init__(self, parents: Sequence[Any] | Mapping[str, Any], proportions: Any = None) -> None:
        named = (
            parents
            if isinstance(parents, Mapping)
            else {str(number): each for number, each in enumerate(parents)}
        )
        names = tuple(sorted(named) if isinstance(parents, Mapping) else named)
        if isinstance(proportions, Mapping):
            proportions = [proportions[name] for name in names]
        streams = [as_stream(named[name]) for name in names]
        rule = MixRows(MixOfRows(names, whole_weights(proportions, len(names))))
        super().__init__(streams, merged([each.chain_stream for each in streams], names, rule))


class LimitIterDataset(Named[T]):
    """The first `count` elements of the stream `parent`; ValueError if `count` is not positive.

    >>> from headrace.compat.grain import MapDataset
    >>> list(LimitIterDataset(MapDataset.range(5).to_iter_dataset(), 2))
    [0, 1]
    """

    def __init__(self, parent: Any, count: int) -> None:
        super().__init__(parent, limited(parent.chain_stream, count))


class RepeatIterDataset(Named[T]):
    """A stream that repeats its parent's elements `num_epochs` times.

    None (default): without end.
    """

    def __init__(self, parent: Any, num_epochs: int | None = None) -> None:
        super().__init__(parent, repeated(parent.chain_stream, num_epochs))


class CacheIterDataset(Named[T]):
    """A stream with its parent's elements, which a `RepeatIterDataset` after it makes only once."""

    def __init__(self, parent: Any) -> None:
        super().__init__(parent, cached(parent.chain_stream))


class WindowShuffleIterDataset(Named[Any]):
    """A stream whose windows of `window_size` elements are shuffled, in Grain's order.

    Its seed is `seed`.
    """

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        stream, unit = counted(parent.chain_stream, one_to_one=False)
        super().__init__(parent, applied(ShuffledWindows(window, seed, unit), stream))


class ZipIterDataset(Named[tuple[Any, ...]]):
    """Tuples of one element of each stream.

    Args:
        parents: the streams.
        strict: True (default): raise ValueError if a stream ends before the others; False: end with
            the shortest.
    """

    def __init__(self, parents: Sequence[Any], *, strict: bool = True) -> None:
        if not parents:
            raise ValueError(
                "At least one parent must be provided. Pass ZipIterDataset a list of at least one "
                "stream."
            )
        streams = list(map(as_stream, parents))
        super().__init__(streams, zipped([each.chain_stream for each in streams], None, strict))


def same(dataset: Any) -> Stream:
    """Return the stream of a dataset, unchanged."""
    stream: Stream = dataset.chain_stream
    return stream.on(stream.tree)
