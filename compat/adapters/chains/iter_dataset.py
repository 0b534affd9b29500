"""Grain's IterDataset: ours, in Grain's order; its iterators have states that are dicts. And streams that classes make.

In: streams of ours, and what is to be done to them. Out: iterators.
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
from ....chains.nodes.node import Node, nearest_first
from ....chains.stream import Stream, cached, limited, merged, over_leaves, repeated, stream_of, zipped
from ....common.validation import whole_number
from ....loader.arguments import warn_of_no_effect
from ....loader.plan.compile import compiled
from ....loader.plan.joins import Apply
from ....loader.plan.mix_rules import MixRows
from ....loader.plan.pipeline import Pipeline
from ....operations import FlatMap, MapWithIndexTransform, Operation, RandomMapTransform
from ....operations.function import as_kind
from ....operations.trees import rows_of
from ....samplers.index_maps import Indices
from ..options import MultiprocessingOptions, as_read_options
from ..transforms import Batch
from .at_index import AtIndex, Below, RandomAtIndex, ShuffledWindows, applied, counted, indexed
from .iterators import DatasetIterator, EngineIterator, EngineRun
from .orders import Mix, whole_weights
from .seeds import seed_of, seeds_of
from .slicing import check_can_be_sliced
from .thresholds import WatchedFilter, options_of, watched

T = TypeVar("T")

DEFAULT_WORKERS = 10


if TYPE_CHECKING:
    _Base = OurIterDataset  # as its methods say
else:
    _Base = IterMethods  # without a length, as in Grain


class IterDataset(_Base[T]):
    """A stream of elements, in Grain's order; made by `MapDataset.to_iter_dataset()`, and by the methods of another stream.

    A class of your own, made from this one, defines `__iter__`, which gives a `DatasetIterator`.

    >>> from headrace.compat.grain import MapDataset
    >>> iterator = iter(MapDataset.range(10).shuffle(seed=1).to_iter_dataset().batch(5))
    >>> next(iterator).tolist()
    [5, 7, 6, 0, 4]
    """

    batch_class = Batch

    def __init__(self, parents: Any = ()) -> None:
        super().__init__(*(parents if isinstance(parents, Sequence) else (parents,)))

    @classmethod
    def of_stream(cls, stream: Stream) -> IterDataset[Any]:
        dataset = IterDataset[Any]()
        dataset.__dict__["chain_stream"] = stream
        return dataset

    @classmethod
    def of_node(
        cls, node: Node, read_options: Any, allow_nones: bool, shard_options: Any = None, growth: Any = None
    ) -> IterDataset[Any]:
        """The stream of a node's first epoch."""
        stream = stream_of(node, as_read_options(read_options), allow_nones, shard_options, growth=growth)
        seeds = nearest_first([node.seeds])
        return cls.of_stream(dataclasses.replace(stream, tree=indexed(stream.tree), seeds=seeds))

    @property
    def parents(self) -> tuple[Any, ...]:
        """The datasets that one of a class of yours is made from."""
        return self._parents

    def _made(self, stream: Stream) -> IterDataset[Any]:
        dataset = self.of_stream(stream)
        dataset.__dict__["_parents"] = (self,)
        return dataset

    @property
    def _is_own(self) -> bool:
        return type(self).__iter__ is not IterDataset.__iter__

    @cached_property
    def chain_stream(self) -> Stream:
        return dataclasses.replace(self._own_stream(), seeds=nearest_first(map(seeds_of, self._parents)))

    @cached_property
    def _pipeline(self) -> Pipeline:
        tree = watched(self.chain_stream.tree, options_of(self), self.chain_stream.execution.read_options)
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
        """A function of each element and Grain's generator of its index among those that arrive here.

        Args:
            transform: a function `(element, rng)`, or a `RandomMap`. The generator is valid during the call.
            seed: any number that is not negative; None (default): made of that of `seed()` before.

        Raises:
            SeedError: there is no seed.
        """
        kind = as_kind(RandomMapTransform, transform)
        own = seed_of("random_map", seed, self.chain_stream.seeds)
        return self._at_index(lambda unit: RandomAtIndex(kind, unit, own))

    def map_with_index(self, transform: Any) -> IterDataset[Any]:
        """A function of the index of each element among those that arrive here, and the element.

        >>> from headrace.compat.grain import MapDataset
        >>> odd = MapDataset.range(6).to_iter_dataset().filter(lambda x: x % 2)
        >>> list(odd.map_with_index(lambda index, x: (index, x)))
        [(0, 1), (1, 3), (2, 5)]
        """
        kind = as_kind(MapWithIndexTransform, transform)
        return self._at_index(lambda unit: AtIndex(kind, unit))

    def _at_index(self, operation: Callable[[int], AtIndex]) -> IterDataset[Any]:
        """An operation that needs to know how many elements came before."""
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
        """The same stream, made in worker processes: that of 0 workers, whatever their number.

        Args:
            options: `MultiprocessingOptions`; None (default): 10 workers.
            worker_init_fn: called in each process before anything of the dataset is unpickled.
            sequential_slice: does nothing: the order is the same.
        """
        wanted = MultiprocessingOptions(DEFAULT_WORKERS) if options is None else options
        in_workers = worker_init_fn if wanted.num_workers else None
        prefetched = self._fed_by(wanted, in_workers) or self._in_processes(wanted, in_workers)
        return self._made(dataclasses.replace(prefetched, seeds=nearest_first([self.chain_stream.seeds])))

    def _in_processes(self, options: Any, worker_init_fn: Callable[[int, int], None] | None) -> Stream:
        if not options.num_workers and self.chain_stream.execution.worker_kind == "thread":
            return self.chain_stream
        in_workers = super().mp_prefetch(options, worker_init_fn).chain_stream
        return in_workers.with_options(worker_kind="process")  # where it was made on a thread

    def _fed_by(self, options: Any, worker_init_fn: Callable[[int, int], None] | None) -> Stream | None:
        """The same stream, if it is one of a packing that workers can make the elements for: it is run through on a thread."""
        stream = self.chain_stream
        leaf, *others = compiled(stream.tree).leaves
        if others or not leaf.in_order or not options.num_workers or not hasattr(leaf.source.dataset, "fed_by"):
            return None
        fed = leaf.source.dataset.fed_by(options, worker_init_fn)
        if fed is None:
            return None
        source = leaf.source.fed_by(fed)
        tree = over_leaves(stream.tree, lambda leaf: dataclasses.replace(leaf, source=source))
        ahead = max(options.per_worker_buffer_size, 1)
        return dataclasses.replace(stream, tree=tree).with_options(
            worker_count=1, worker_kind="thread", worker_buffer_size=ahead
        )

    def prefetch(self, multiprocessing_options: Any) -> IterDataset[T]:  # type: ignore[override]
        """The older name of `mp_prefetch`."""
        return self.mp_prefetch(multiprocessing_options)

    @staticmethod
    def mix(  # type: ignore[override]
        datasets: Sequence[OurIterDataset[Any]] | Mapping[str, OurIterDataset[Any]], weights: Any = None
    ) -> IterDataset[Any]:
        """Elements of several streams, in Grain's order; it ends when the one to draw from has ended.

        Args:
            datasets: in a list, or in a dict by name.
            weights: positive numbers, or a dict of these; None (default): all equal.
        """
        return MixedIterDataset(datasets, weights)


class Named(IterDataset[T]):
    """A stream that a class makes of others, by the engine."""

    def __init__(self, parents: Any, stream: Stream) -> None:
        super().__init__(parents)
        self.__dict__["chain_stream"] = stream


def as_stream(dataset: Any) -> Any:
    """A dataset of either kind as a stream."""
    return dataset.to_iter_dataset() if hasattr(dataset, "to_iter_dataset") else dataset


@dataclass(frozen=True)
class MixOfRows:
    """Grain's order of a mix, of rows."""

    names: tuple[str, ...]
    weights: tuple[int, ...]

    def places(self, positions: Indices) -> tuple[Indices, Indices]:
        return Mix((1,) * len(self.weights), self.weights).many(positions)

    def taken(self, rows: int) -> Sequence[int]:
        """Empty: a trace runs to its step."""
        return ()

    def without(self, part: int, position: int) -> None:
        """Such a mix ends with the first of its inputs."""

    def to_values(self) -> Any:
        return [list(self.names), list(self.weights)]


class MixedIterDataset(Named[Any]):
    """Elements of several streams in Grain's order; a state goes on with other weights, and with streams added or removed."""

    def __init__(self, parents: Sequence[Any] | Mapping[str, Any], proportions: Any = None) -> None:
        named = parents if isinstance(parents, Mapping) else {str(number): each for number, each in enumerate(parents)}
        names = tuple(sorted(named) if isinstance(parents, Mapping) else named)
        if isinstance(proportions, Mapping):
            proportions = [proportions[name] for name in names]
        streams = [as_stream(named[name]) for name in names]
        rule = MixRows(MixOfRows(names, whole_weights(proportions, len(names))))
        super().__init__(streams, merged([each.chain_stream for each in streams], names, rule))


class LimitIterDataset(Named[T]):
    """The first elements.

    >>> from headrace.compat.grain import MapDataset
    >>> list(LimitIterDataset(MapDataset.range(5).to_iter_dataset(), 2))
    [0, 1]
    """

    def __init__(self, parent: Any, count: int) -> None:
        super().__init__(parent, limited(parent.chain_stream, count))


class RepeatIterDataset(Named[T]):
    """All elements, so many times, each time the same; None (default): for ever."""

    def __init__(self, parent: Any, num_epochs: int | None = None) -> None:
        super().__init__(parent, repeated(parent.chain_stream, num_epochs))


class CacheIterDataset(Named[T]):
    """The same elements; a `RepeatIterDataset` after it makes them once."""

    def __init__(self, parent: Any) -> None:
        super().__init__(parent, cached(parent.chain_stream))


class WindowShuffleIterDataset(Named[Any]):
    """Windows of consecutive elements, each in Grain's random order."""

    def __init__(self, parent: Any, *, window_size: int, seed: int) -> None:
        window = whole_number("window_size", window_size, 1, None, "a positive int")
        stream, unit = counted(parent.chain_stream, one_to_one=False)
        super().__init__(parent, applied(ShuffledWindows(window, seed, unit), stream))


class ZipIterDataset(Named[tuple[Any, ...]]):
    """An element of each stream, together.

    Args:
        parents: the streams.
        strict: True (default): that one ends before the others is a ValueError; False: it ends with the shortest.
    """

    def __init__(self, parents: Sequence[Any], *, strict: bool = True) -> None:
        if not parents:
            raise ValueError("At least one parent must be provided. Pass ZipIterDataset a list of streams.")
        streams = list(map(as_stream, parents))
        super().__init__(streams, zipped([each.chain_stream for each in streams], None, strict))


class TakenApart(FlatMap):
    """Several elements of each, of which Grain's state tells how many were delivered.

    Args:
        function: gives them.
        told_as: the name in the state.
    """

    def __init__(self, function: Any, told_as: str) -> None:
        super().__init__(function)
        self.told_as = told_as

    def below(self, state: dict[str, Any]) -> Below:
        return Below(state["parent"], given=state[self.told_as])


def _taken_apart(parent: Any, function: Any, told_as: str) -> Stream:
    """Several elements of each of a stream; a state tells from which one on, so that none may be left out."""
    return applied(TakenApart(function, told_as), counted(parent.chain_stream)[0])


class RebatchIterDataset(Named[Any]):
    """Batches of another size, of the same rows in the same order.

    >>> from headrace.compat.grain import MapDataset
    >>> batches = RebatchIterDataset(MapDataset.range(5).batch(2).to_iter_dataset(), 3)
    >>> [batch.tolist() for batch in batches]
    [[0, 1, 2], [3, 4]]
    """

    def __init__(self, parent: Any, batch_size: int, drop_remainder: bool = False) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1, None, "a positive int")
        rows = _taken_apart(parent, rows_of, "batch_idx")
        tree = Apply(rows.tree, (Batch(self.batch_size, drop_remainder),))
        super().__init__(parent, dataclasses.replace(rows, tree=tree))


class FlatMapIterDataset(Named[Any]):
    """Several elements of each."""

    def __init__(self, parent: Any, transform: Any) -> None:
        super().__init__(parent, _taken_apart(parent, as_kind(FlatMap, transform).function, "next_index_in_buffer"))


def _same(dataset: Any) -> Stream:
    stream: Stream = dataset.chain_stream
    return stream.on(stream.tree)


class ThreadPrefetchIterDataset(Named[T]):
    """The same stream, made on a thread ahead of the user; where other workers make it, they do so already."""

    def __init__(self, parent: Any, *, prefetch_buffer_size: int) -> None:
        if prefetch_buffer_size < 0:
            raise ValueError(
                f"`prefetch_buffer_size` must be greater than or equal to 0, but got {prefetch_buffer_size}; 0 is for none."
            )
        stream = _same(parent)
        if prefetch_buffer_size and stream.execution.worker_count == 0 and not stream.execution.seed_globals:
            stream = stream.with_options(worker_count=1, worker_kind="thread", worker_buffer_size=prefetch_buffer_size)
        super().__init__(parent, stream)


class WithOptionsIterDataset(Named[T]):
    """The same stream, whose filters warn or raise as the options say; the other options do nothing here."""

    def __init__(self, parent: Any, options: Any) -> None:
        self.options = self.dataset_options = options
        super().__init__(parent, _same(parent))


def multithread_prefetch(ds: Any, num_threads: int, buffer_size: int, sequential_slice: bool = False) -> Any:
    """The same stream, made on threads.

    Args:
        ds: a stream.
        num_threads: 0 for none.
        buffer_size: finished elements held ready for each.
        sequential_slice: does nothing: the order is the same.
    """
    threads = whole_number("num_threads", num_threads, 0, None, "a number of threads, 0 for none")
    if threads > 1:
        check_can_be_sliced(ds)
    return ds.with_options(worker_count=threads, worker_kind="thread", worker_buffer_size=max(buffer_size, 1))


def apply_transformations(ds: Any, transformations: Any) -> Any:
    """Apply a transform, or each of a list, to a dataset: `ds.apply(transformations)`."""
    return ds.apply(transformations)
