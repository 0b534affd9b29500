"""`IterDataset`: a stream made of a chain of methods, run by the engine of `DataLoader`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ..common.validation import whole_number
from ..loader.arguments import options_of_workers, warn_of_no_effect
from ..loader.device.description import to_device
from ..loader.device.hosts.across import across_hosts
from ..loader.iterator import DataLoaderIterator
from ..loader.loader_description import LoaderDescription
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
from .joined_streams import interleaved, mixed, zipped
from .stream import Exhausted, Stream, cached, limited, repeated, run_through, sharded, without

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
    """All methods of `IterDataset` except `__len__`.

    Streams with Grain's names (in `headrace.compat`), which have no length, derive from this class.
    """

    _asked_as = "IterDataset"

    if not TYPE_CHECKING:
        __add__ = NotHere(
            "streams are not added; join the MapDatasets, "
            "headrace.MapDataset.concatenate([dataset, dataset]), before to_iter_dataset()."
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
        """The only dataset that was passed to `__init__` of a user's class.

        Raises:
            ValueError: if no dataset was passed, or several.
        """
        (parent,) = self._parents
        return parent

    @cached_property
    def chain_stream(self) -> Stream:
        return self._own_stream()

    def _own_stream(self) -> Stream:
        """Return the stream of a user's own class, whose `__iter__` the engine calls.

        Raises:
            TypeError: if the class has no `__iter__`.
        """
        if not self._is_own:
            raise TypeError(
                f"{type(self).__name__} has no __iter__. Define it in the class, or call "
                "to_iter_dataset() of a MapDataset."
            )
        return run_through(self)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("chain_stream", "_pipeline") if self._is_own else ()
        return {name: value for name, value in vars(self).items() if name not in derived}

    @property
    def _is_own(self) -> bool:
        """True if this is a user's own class, which defines `__iter__`."""
        return type(self).__iter__ is not IterMethods.__iter__

    @cached_property
    def _pipeline(self) -> Pipeline:
        return not_empty(compiled(self.chain_stream.tree, self.chain_stream.skips_errors))

    @property
    def loader_description(self) -> LoaderDescription:  # for tools
        return LoaderDescription(
            self._pipeline, self.chain_stream.execution, self.chain_stream.max_errors
        )

    def __iter__(self) -> DataLoaderIterator:
        warn_of_no_effect(self.chain_stream.execution)
        return DataLoaderIterator(
            self._pipeline, self.chain_stream.execution, self.chain_stream.max_errors
        )

    def __repr__(self) -> str:
        leaves, operations = len(self._pipeline.leaves), len(self._pipeline.operations)
        return f"IterDataset({leaves} source{'s' * (leaves > 1)}, {operations} operations)"

    def _made(self, stream: Stream) -> IterDataset[Any]:
        """Return a dataset that runs `stream`. All dataset methods return such a dataset."""
        return self.of_stream(stream)

    def _then(self, operation: Operation) -> IterDataset[Any]:
        return self._made(self.chain_stream.on(Apply(self.chain_stream.tree, (operation,)), 1))

    def _seed_for(self, method: str, seed: int | None) -> int:
        return seed_of(method, seed, self.chain_stream.seeds, BELOW_2_64)

    @property
    def _operation_count(self) -> int:
        return self.chain_stream.operations

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[Any]:
        """Take the rows of all batches, and make batches of `batch_size` rows of them.

        `drop_remainder=True` drops a last batch that is not full.

        >>> from headrace import MapDataset
        >>> batches = MapDataset.range(5).batch(2).to_iter_dataset()
        >>> [batch.tolist() for batch in batches.rebatch(3)]
        [[0, 1, 2], [3, 4]]
        """
        return self.flat_map(rows_of).batch(batch_size, drop_remainder=drop_remainder)

    def omit(self, omit: OmitOfParts = ()) -> IterDataset[T]:
        """Omit some records of the source. The other records keep their order.

        The whole chain, also operations before `omit`, then works as if the source did not have
        these records, as in a `DataLoader` with `omit=`: batches are filled with the following
        records, and random maps draw their numbers by the new positions. A state of a stream that
        omitted nothing, or fewer records, can be restored.

        Args:
            omit: keys of records (an array, list or set), the path of a file of keys, or a function
                `(file, row)` that returns True for records to omit; for a mix of map datasets, a
                dict of these by name. Default: only records that the source reports as deleted.

        Raises:
            TypeError, RecordKeyError, SourceError: if `omit` is none of these, or names a record
                that the source lacks.
            ValueError: if the stream is not made of the records of one source, arranged by
                `shuffle` and `repeat` only, or of one mix of such map datasets.
            EmptyStreamError: if no record is left.

        >>> from headrace import MapDataset
        >>> stream = MapDataset.range(8).to_iter_dataset().map(lambda x: x * 10).batch(3)
        >>> [batch.tolist() for batch in stream.omit([1, 5])]
        [[0, 20, 30], [40, 60, 70]]
        """
        return self._made(without(self.chain_stream, omit))

    def limit(self, count: int) -> IterDataset[T]:
        """Keep only the first `count` elements.

        Raises:
            TypeError, ValueError: if `count` is not an int of at least 1.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(9).to_iter_dataset().filter(lambda x: x % 2).limit(2))
        [1, 3]
        """
        return self._made(limited(self.chain_stream, count))

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """Repeat all elements `num_epochs` times (at least 1), in the same order each time.

        None (default) repeats without end. To get another order in each epoch, call
        `MapDataset.repeat` before `to_iter_dataset` instead; such a stream can also resume on
        another number of shards.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().repeat(2))
        [0, 1, 2, 0, 1, 2]
        """
        return self._made(repeated(self.chain_stream, num_epochs))

    def cache(self) -> IterDataset[T]:
        """Keep the elements in memory, so that a `repeat` after it makes them only once.

        All elements must fit into memory; `repeat` copies them. Operations between `cache` and
        `repeat` run again in each epoch. The elements are kept only if the stream before `cache` is
        read to its end, so a `limit` between `cache` and `repeat` can prevent this.

        >>> from headrace import MapDataset
        >>> made = []
        >>> dataset = MapDataset.range(3).to_iter_dataset().map(lambda x: made.append(x) or x)
        >>> list(dataset.cache().repeat(2)), made
        ([0, 1, 2, 0, 1, 2], [0, 1, 2])
        """
        return self._made(cached(self.chain_stream))

    def seed(self, seed: int) -> IterDataset[T]:
        """Return this dataset with a seed in `[0, 2^64)`.

        Later random operations that are called without a seed derive their seed from it.
        """
        return self._made(dataclasses.replace(self.chain_stream, seeds=((checked_seed(seed), 0),)))

    def shard(self, shard_options: ShardOptions) -> IterDataset[T]:
        """Select the shard of this process: every shard_count-th record of each source.

        Raises:
            ValueError: if a shard was selected before.

        >>> from headrace import MapDataset, ShardOptions
        >>> stream = MapDataset.range(5).to_iter_dataset().map(lambda x: x * 10)
        >>> list(stream.shard(ShardOptions(1, 2)))
        [10, 30]
        """
        return self._made(sharded(self.chain_stream, as_shard_options(shard_options)))

    def mp_prefetch(
        self,
        options: int | Literal["auto", "cluster"] | Auto | WorkersLike | None = None,
        worker_init_fn: Callable[[int, int], Any] | None = None,
        sequential_slice: bool = False,
    ) -> IterDataset[T]:
        """Make the whole chain in worker processes, wherever in the chain this method is called.

        Args:
            options: number of processes, 0 for none; None (default): one for each CPU; "auto",
                "cluster" or `Auto`; or an object with `num_workers`, `per_worker_buffer_size` and
                `enable_profiling` (see `observe` of `DataLoader`).
            worker_init_fn: function that is called in each process before anything is unpickled,
                with the number of the process, from 0, and the number of processes. It must not
                change the elements. Default: none.
            sequential_slice: has no effect, because elements come in the order of the dataset for
                any number of workers. It exists for programs that use Grain.

        >>> from headrace import MapDataset
        >>> list(MapDataset.range(3).to_iter_dataset().mp_prefetch(1))
        [0, 1, 2]
        """
        now = self.chain_stream.execution
        if (now.worker_kind, now.worker_count) == ("thread", 1):  # as `prefetch` leaves it
            return self.with_options(worker_kind=None).mp_prefetch(options, worker_init_fn)
        return self.with_options(**options_of_workers(options), worker_init_fn=worker_init_fn)

    def prefetch(self, count: int = 2) -> IterDataset[T]:
        """Make the stream on a thread ahead of your loop, while a step of the loop runs.

        This makes the loop faster if its steps release the interpreter lock, as steps on an
        accelerator do. It needs no process and no pickle. A stream that already has workers keeps
        them; each worker then keeps `count` elements ready.

        Args:
            count: number of elements that are kept ready (default 2); if elements are small, more
                are kept ready. 0 changes nothing: without workers, each element is made when it is
                requested. TypeError if it is not an int; ValueError if it is negative.

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
        """Return this dataset with options for running the stream.

        Args:
            **options: `worker_count`, `worker_kind`, `worker_buffer_size`, `timeout`,
                `read_options`, `on_error`, `max_errors`, `observe`, `hang_seconds`, `seed_globals`,
                `ray_options`, `address`, which are arguments of `DataLoader`; and `worker_init_fn`,
                an argument of `mp_prefetch`. A wrong name raises TypeError.

        >>> from headrace import MapDataset
        >>> stream = MapDataset.range(3).to_iter_dataset()
        >>> list(stream.with_options(worker_count=2, worker_kind="thread"))
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
        """Mix several streams. At every step, the numbers of elements follow the weights.

        Filters and flat maps may come before the mix, because it counts the elements that they
        return.

        Args:
            datasets: a list of streams, or a dict by name. TypeError for other objects; ValueError
                if it is empty.
            weights: a list of numbers, a dict by name, or a schedule, `[(first_step, weights), …]`.
                They need not sum to one. None (default): equal weights.
            when_exhausted: "first" (default): end when a dataset that has run out is needed. "all":
                continue without it, until all have run out. "repeat": continue with its next epoch.
            max_epochs: number of epochs after which a dataset leaves the mix, whatever
                `when_exhausted` is: a dict by name, or a list (None in it: no limit). The other
                datasets then get its positions, by their weights. None (default): no limits.
            ramp: True changes weights linearly from one stage of a schedule to the next. Default
                False.
            records_per_step: elements of the mix in a step of the schedule. 1 (default) counts
                elements; the batch size, of one shard, counts batches.

        Raises:
            TypeError, ValueError: if datasets or weights have a wrong type or do not fit, or the
                shard options differ.

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
        return IterDataset.of_stream(
            mixed(streams, order, when_exhausted, epochs_of(max_epochs, labels))
        )

    @joins
    @staticmethod
    def zip(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        *,
        strict: bool = True,
    ) -> IterDataset[Any]:
        """Combine one element of each stream to a tuple, or to a dict if the streams are in a dict.

        Args:
            datasets: a list of streams, or a dict by name. TypeError for other objects; ValueError
                if it is empty, or if the shards of the streams differ.
            strict: True (default): raise `JoinError` if one stream ends before the others. False:
                end with the shortest stream.

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
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        cycle_length: int | None = None,
    ) -> IterDataset[Any]:
        """Take an element of each open stream in turn. When a stream ends, the next one is opened.

        Args:
            datasets: a list of streams, or a dict by name. TypeError for other objects; ValueError
                if it is empty, or if the shards of the streams differ.
            cycle_length: number of streams open at a time, at least 1. None (default): all.

        >>> from headrace import IterDataset, MapDataset
        >>> files = [MapDataset.source([letter] * 2).to_iter_dataset() for letter in "abc"]
        >>> "".join(IterDataset.interleave(files, cycle_length=2))
        'ababcc'
        """
        listed, names = as_named("interleave", datasets, IterMethods)
        return IterDataset.of_stream(
            interleaved([each.chain_stream for each in listed], names, cycle_length)
        )

    to_device = to_device
    across_hosts = across_hosts


class IterDataset(IterMethods[T]):
    """Stream of elements, made by `MapDataset.to_iter_dataset()` and by methods of streams.

    It is immutable: each method returns another stream.

    For a stream of your own, write a subclass with `__iter__`, whose iterators have `get_state` and
    `set_state`. It can be used anywhere in a chain. After `super().__init__(parent)`,
    `self._parent` is the dataset from which it is made. One worker at a time iterates over such a
    dataset, in order, and also runs the operations directly after it.

    Each `iter(dataset)` is an independent run from the start: a `DataLoaderIterator`, with
    `get_state`, `set_state`, `set_states`, `start_prefetch` and so on. The elements do not depend
    on the number of workers, and a state can be restored with any number of workers.

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
        """Return the number of elements of this shard, if it is known before anything is read.

        Raises:
            TypeError: if it is not known: if the stream is endless, or joined from several streams,
                or if the contents of elements decide about the number, as after a filter.
        """
        return number_of(self._pipeline, (0, 0), NONE_SKIPPED)
