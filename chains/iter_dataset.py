"""IterDataset: a chain that is run from its beginning to its end, by the engine of `DataLoader`.

In: the stream of a `MapDataset`, and what is to be done to it. Out: iterators with states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ..common.validation import whole_number
from ..loader.arguments import warn_of_no_effect
from ..loader.data_loader import LoaderDescription
from ..loader.device.description import to_device
from ..loader.iterator import DataLoaderIterator
from ..loader.options import Auto, WorkersLike
from ..loader.plan.build import not_empty
from ..loader.plan.compile import compiled
from ..loader.plan.joins import Apply
from ..loader.plan.pipeline import Pipeline
from ..loader.plan.steps.lookup import number_of
from ..loader.plan.steps.skipped import NONE_SKIPPED
from ..migration_hints.decorators import explains_arguments
from ..migration_hints.remarks import NotHere, Remarks
from ..operations import Operation
from ..operations.batch import BatchMethods
from ..operations.budget_batch import BudgetBatchMethods
from ..operations.pack import PackMethods
from ..operations.several import WindowShuffleMethods
from ..operations.transforms import TransformMethods
from ..operations.trees import rows_of
from ..samplers import ShardOptions
from ..samplers.mix.order import MixOrder
from ..samplers.mix.weights import MaxEpochs, Schedule, Weights, epochs_of
from ..samplers.sharding import as_shard_options
from ..sources.omission.keys import OmitOfParts
from .arguments import BELOW_2_64, as_named, checked_seed, joins, seed_of
from .stream import (
    Exhausted,
    Stream,
    cached,
    interleaved,
    limited,
    mixed,
    repeated,
    run_through,
    sharded,
    without,
    zipped,
)

T = TypeVar("T")


@explains_arguments
class IterMethods(
    TransformMethods["IterDataset[Any]"],
    BatchMethods["IterDataset[Any]"],
    BudgetBatchMethods["IterDataset[Any]"],
    PackMethods["IterDataset[Any]"],
    WindowShuffleMethods["IterDataset[Any]"],
    Remarks,
    Generic[T],
):
    """All methods of streams but `__len__`: streams under Grain's names have no length."""

    _asked_as = "IterDataset"

    if not TYPE_CHECKING:
        __add__ = NotHere(
            "streams are not added; join the MapDatasets, headrace.MapDataset.concatenate([dataset, dataset]), before "
            "to_iter_dataset()."
        )

    def __init__(self, *parents: Any) -> None:
        self._parents = parents

    @classmethod
    def of_stream(cls, stream: Stream) -> IterDataset[Any]:
        dataset = IterDataset[Any]()
        dataset.__dict__["chain_stream"] = stream
        return dataset

    @property
    def _parent(self) -> Any:
        """The dataset that this one, of a class of yours, is made from."""
        (parent,) = self._parents
        return parent

    @cached_property
    def chain_stream(self) -> Stream:
        return self._own_stream()

    def _own_stream(self) -> Stream:
        """The stream of a class of the user's, which the engine runs through."""
        if not self._is_own:
            raise TypeError(
                f"{type(self).__name__} has no __iter__; define it, or take MapDataset.….to_iter_dataset()."
            )
        return run_through(self)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("chain_stream", "_pipeline") if self._is_own else ()
        return {name: value for name, value in vars(self).items() if name not in derived}

    @property
    def _is_own(self) -> bool:
        """It is of a class of the user's, which defines `__iter__`."""
        return type(self).__iter__ is not IterMethods.__iter__

    @cached_property
    def _pipeline(self) -> Pipeline:
        return not_empty(compiled(self.chain_stream.tree, self.chain_stream.skips_errors))

    @property
    def loader_description(self) -> LoaderDescription:  # for tools
        return LoaderDescription(self._pipeline, self.chain_stream.execution, self.chain_stream.max_errors)

    def __iter__(self) -> DataLoaderIterator:
        warn_of_no_effect(self.chain_stream.execution)
        return DataLoaderIterator(self._pipeline, self.chain_stream.execution, self.chain_stream.max_errors)

    def __repr__(self) -> str:
        leaves, operations = len(self._pipeline.leaves), len(self._pipeline.operations)
        return f"IterDataset({leaves} source{'s' * (leaves > 1)}, {operations} operations)"

    def _made(self, stream: Stream) -> IterDataset[Any]:
        """The dataset of a stream that one of the methods made."""
        return self.of_stream(stream)

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return self._made(self.chain_stream.on(Apply(self.chain_stream.tree, (operation,)), 1))

    def _seed_for(self, method: str, seed: int | None) -> int:
        return seed_of(method, seed, self.chain_stream.seeds, BELOW_2_64)

    @property
    def _operation_count(self) -> int:
        return self.chain_stream.operations

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[Any]:
        """Batches of another size, of the same rows in the same order.

        >>> from headrace import MapDataset
        >>> batches = MapDataset.range(5).batch(2).to_iter_dataset()
        >>> [batch.tolist() for batch in batches.rebatch(3)]
        [[0, 1, 2], [3, 4]]
        """
        return self.flat_map(rows_of).batch(batch_size, drop_remainder=drop_remainder)

    def omit(self, omit: OmitOfParts = ()) -> IterDataset[T]:
        """The elements without those of some records of the source; all others keep their order.

        All before it in the chain gets what is left, as from a `DataLoader` with `omit=`: batches are filled with the records
        after those that are left out, and random maps draw by the positions of now. States of the stream from which nothing, or
        less, was left out go on.

        Args:
            omit: as of `MapDataset.omit`; of a mix of map datasets, a dict of these by the name of the dataset. Default: only
                those that the source says are gone.

        Raises:
            TypeError, RecordKeyError, SourceError: it is none of these, or names a record that the source does not have.
            ValueError: the stream is not of the records of one source, which `shuffle` and `repeat` alone have arranged.
            EmptyStreamError: no record is left.

        >>> from headrace import MapDataset
        >>> stream = MapDataset.range(8).to_iter_dataset().map(lambda x: x * 10).batch(3)
        >>> [batch.tolist() for batch in stream.omit([1, 5])]
        [[0, 20, 30], [40, 60, 70]]
        """
        return self._made(without(self.chain_stream, omit))

    def limit(self, count: int) -> IterDataset[T]:
        """The first elements.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(9).to_iter_dataset().filter(lambda x: x % 2).limit(2))
        [1, 3]
        """
        return self._made(limited(self.chain_stream, count))

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """All elements, so many times, each time the same; None (default): for ever.

        `MapDataset.repeat`, before `to_iter_dataset`, shuffles each epoch anew, and goes on with other shards.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().repeat(2))
        [0, 1, 2, 0, 1, 2]
        """
        return self._made(repeated(self.chain_stream, num_epochs))

    def cache(self) -> IterDataset[T]:
        """The same elements; a `repeat` after it makes them once, keeps them in memory, and takes copies of them from there.

        All elements must fit into memory. What comes after it is made anew each time.

        >>> from headrace import MapDataset
        >>> made = []
        >>> dataset = MapDataset.range(3).to_iter_dataset().map(lambda x: made.append(x) or x)
        >>> list(dataset.cache().repeat(2)), made
        ([0, 1, 2, 0, 1, 2], [0, 1, 2])
        """
        return self._made(cached(self.chain_stream))

    def seed(self, seed: int) -> IterDataset[T]:
        """The same elements; what is random after it, without a seed of its own, takes one made of this one, each another."""
        return self._made(dataclasses.replace(self.chain_stream, seeds=((checked_seed(seed), 0),)))

    def shard(self, shard_options: ShardOptions) -> IterDataset[T]:
        """The part for this process: every shard_count-th record of each source, as `DataLoader(shard_options=…)` reads.

        >>> from headrace import MapDataset, ShardOptions
        >>> list(MapDataset.range(5).to_iter_dataset().map(lambda x: x * 10).shard(ShardOptions(1, 2)))
        [10, 30]
        """
        return self._made(sharded(self.chain_stream, as_shard_options(shard_options)))

    def mp_prefetch(
        self,
        options: int | Literal["auto", "cluster"] | Auto | WorkersLike | None = None,
        worker_init_fn: Callable[[int, int], Any] | None = None,
        sequential_slice: bool = False,
    ) -> IterDataset[T]:
        """The same stream, made in worker processes: all of it, wherever in the chain this stands.

        Args:
            options: number of processes, 0 for none; None (default): one for each CPU; or an object with `num_workers`,
                `per_worker_buffer_size` and `enable_profiling` (see `observe` of `DataLoader`).
            worker_init_fn: called in each process before anything is unpickled, with its number, from 0, and their count.
                Opens a connection for example. It must not change what comes. Default: none.
            sequential_slice: accepted, and does nothing: elements come in the order of the dataset, whoever makes them.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().mp_prefetch(1))
        [0, 1, 2]
        """
        if options is None or isinstance(options, (int, str, Auto)) or not hasattr(options, "num_workers"):
            return self.with_options(worker_count=options, worker_init_fn=worker_init_fn)
        return self.with_options(
            worker_count=options.num_workers,
            worker_buffer_size=getattr(options, "per_worker_buffer_size", 1),
            worker_init_fn=worker_init_fn,
            observe="log" if getattr(options, "enable_profiling", False) else True,
        )

    def prefetch(self, count: int = 2) -> IterDataset[T]:
        """The same stream, made on a thread ahead of your loop, while a step of the loop runs.

        This pays where a step leaves the interpreter to others, as one on an accelerator does. It needs no other process and
        no pickle. A stream that has workers already keeps them, and they hold `count` elements ready each.

        Args:
            count: elements that may be ready at a time (default 2); 0 makes each when it is asked for.

        Raises:
            TypeError, ValueError: `count` is no int, or is negative.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().prefetch(2))
        [0, 1, 2]
        """
        remedy = "a number of elements; for worker processes, mp_prefetch(2)"
        if whole_number("prefetch: count", count, 0, None, remedy) == 0:
            return self._made(self.chain_stream)
        if self.chain_stream.execution.worker_count != 0:
            return self.with_options(worker_buffer_size=count)
        return self.with_options(worker_count=1, worker_kind="thread", worker_buffer_size=count)

    def with_options(self, **options: Any) -> IterDataset[T]:
        """The same stream, made elsewhere or otherwise; arguments of `DataLoader`, which say what each does.

        Args:
            **options: `worker_count`, `worker_kind`, `worker_buffer_size`, `timeout`, `read_options`, `on_error`, `max_errors`,
                `observe`, `hang_seconds`, `seed_globals` (by position and operation); and `worker_init_fn`, see `mp_prefetch`.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().with_options(worker_count=2, worker_kind="thread"))
        [0, 1, 2]
        """
        return self._made(self.chain_stream.with_options(**options))

    @joins
    @staticmethod
    def mix(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        weights: Weights | Schedule | None = None,
        *,
        when_exhausted: Exhausted = "first",
        max_epochs: MaxEpochs | None = None,
        ramp: bool = False,
        records_per_step: int = 1,
    ) -> IterDataset[Any]:
        """Elements of several streams, in proportion to their weights, at every step.

        Filters and flat maps may come before it: what is counted are the elements that come out of them.

        Args:
            datasets: in a list, or in a dict by name.
            weights: a list of numbers, a dict by name, or a schedule, `[(first_step, weights), …]`; they need not sum to
                one. None (default): equal.
            when_exhausted: "first" (default) ends with the first dataset that has no more when it is its turn; "all" goes on
                without it, until all have ended; "repeat" goes on with its next epoch.
            max_epochs: a dict by name, or a list with None, of numbers of epochs after which a dataset leaves the mix, whatever
                `when_exhausted` says of the others, which share its place in proportion to their weights. None (default): none.
            ramp: whether weights change linearly from one stage of a schedule to the next.
            records_per_step: elements of the mix in a step of the schedule. 1 (default) counts elements; the batch size, of
                one shard, counts batches.

        Raises:
            TypeError, ValueError: datasets or weights are none, or do not fit one another.

        >>> from headrace import IterDataset, MapDataset
        >>> ones = MapDataset.source([1] * 10).to_iter_dataset()
        >>> twos = MapDataset.source([2] * 10).to_iter_dataset()
        >>> list(IterDataset.mix({"ones": ones, "twos": twos}, {"ones": 0.75, "twos": 0.25}))[:8]
        [1, 1, 2, 1, 1, 1, 2, 1]
        """
        listed, names = as_named("mix", datasets, IterMethods)
        streams = [each.chain_stream for each in listed]
        labels = names or list(map(str, range(len(listed))))
        order = MixOrder.of(weights, labels, ramp, records_per_step)
        return IterDataset.of_stream(mixed(streams, order, when_exhausted, epochs_of(max_epochs, labels)))

    @joins
    @staticmethod
    def zip(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]], *, strict: bool = True
    ) -> IterDataset[Any]:
        """An element of each stream, in a tuple, or in a dict where the streams are.

        Args:
            datasets: in a list, or in a dict by name.
            strict: True (default): that one ends before the others is an error, `JoinError`; False: it ends with the shortest.

        >>> from headrace import IterDataset, MapDataset
        >>> numbers = MapDataset.range(2).to_iter_dataset()
        >>> list(IterDataset.zip({"x": numbers, "y": numbers.map(lambda x: x * 10)}))
        [{'x': 0, 'y': 0}, {'x': 1, 'y': 10}]
        """
        listed, names = as_named("zip", datasets, IterMethods)
        return IterDataset.of_stream(zipped([each.chain_stream for each in listed], names, strict))

    @joins
    @staticmethod
    def interleave(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]], cycle_length: int | None = None
    ) -> IterDataset[Any]:
        """An element of each of the streams that are open, in turn; where one ends, the next one is opened in its place.

        Args:
            datasets: in a list, or in a dict by name.
            cycle_length: how many are open at a time; None (default): all.

        >>> from headrace import IterDataset, MapDataset
        >>> files = [MapDataset.source([letter] * 2).to_iter_dataset() for letter in "abc"]
        >>> "".join(IterDataset.interleave(files, cycle_length=2))
        'ababcc'
        """
        listed, names = as_named("interleave", datasets, IterMethods)
        return IterDataset.of_stream(interleaved([each.chain_stream for each in listed], names, cycle_length))

    to_device = to_device


class IterDataset(IterMethods[T]):
    """A stream of elements; made by `MapDataset.to_iter_dataset()`, and by the methods of another stream. Immutable.

    A class of your own, made from this one, defines `__iter__`, whose iterators have `get_state` and `set_state`; it can stand
    anywhere in a chain. `super().__init__(parent)` keeps the dataset that it is made from, as `self._parent`. Such a dataset is
    run through in order, in one worker.

    Each `iter(dataset)` is an independent run from the start: a `DataLoaderIterator`, with `get_state`, `set_state`,
    `set_states`, `start_prefetch` and all else. The stream does not depend on the number of workers; a state goes on with any.

    >>> import headrace
    >>> dataset = headrace.MapDataset.range(10).to_iter_dataset().filter(lambda x: x % 3).batch(2)
    >>> iterator = iter(dataset)
    >>> next(iterator).tolist()
    [1, 2]
    >>> again = iter(dataset.mp_prefetch(1))
    >>> again.set_state(iterator.get_state())
    >>> [batch.tolist() for batch in again]
    [[4, 5], [7, 8]]
    """

    def __len__(self) -> int:
        """Number of elements of this shard, known before anything is read.

        Raises:
            TypeError: it is endless, or an operation decides how many there are.
        """
        return number_of(self._pipeline, (0, 0), NONE_SKIPPED)
