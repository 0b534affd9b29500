"""`DataLoader`, the description of a stream: source, sampler, operations.

A `DataLoader` has no open file and no thread; `iter(loader)` makes an iterator that runs the
stream.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Never, NoReturn, Self

from ..common.validation import true_or_false
from ..migration_hints.remarks import Remarks
from ..samplers import GrowthOptions, ShardOptions
from ..sources.omission.keys import OmitOfParts
from .arguments import (
    LoaderOptions,
    needs_seed_for_globals,
    refuse,
    skips,
    warn_of_no_effect,
    warn_of_shared_blocks,
)
from .device.description import to_device
from .device.hosts.across import across_hosts
from .executors.protocol import Tuning
from .failures import OnError
from .iterator import DataLoaderIterator
from .loader_description import LoaderDescription
from .options import Auto, ExecutionOptions, ReadOptions
from .passes import Passes
from .plan.build import make_pipeline, with_batch_size
from .plan.pipeline import Pipeline
from .plan.steps import lookup as steps
from .plan.steps.skipped import ranges_of

if TYPE_CHECKING:
    from ..samplers.protocol import SamplerLike
    from ..sources.protocol import SourceLike
    from .epochs import Epochs


class LoaderMethods(Remarks):
    """All methods of `DataLoader` except `__len__`.

    Loaders under Grain's names (in `headrace.compat`), which have no length, derive from this
    class.
    """

    _description: LoaderDescription
    _asked_as = "DataLoader"
    _passes: Passes

    def __init__(
        self,
        *unnamed: Never,
        data_source: SourceLike | None = None,
        sampler: SamplerLike | None = None,
        operations: Sequence[Any] = (),
        worker_count: int | Literal["auto", "cluster"] | Auto | None = 0,
        worker_buffer_size: int = 1,
        shard_options: ShardOptions | None = None,
        read_options: ReadOptions | None = None,
        enable_profiling: bool = False,
        worker_kind: Literal["process", "thread", "ray"] | None = None,
        timeout: float | None = None,
        on_error: Literal["raise", "skip"] | OnError = "raise",
        max_errors: int | None = None,
        ray_options: Mapping[str, Any] | None = None,
        address: str | None = None,
        observe: bool | Literal["log"] = True,
        seed_globals: bool = False,
        hang_seconds: float | None = 60.0,
        growth: Literal["epoch", "now", "hand"] | GrowthOptions | None = None,
        omit: OmitOfParts | None = None,
        **unknown: Never,
    ) -> None:
        refuse(
            "DataLoader",
            unnamed,
            unknown,
            ["data_source", "sampler", "operations", *LoaderOptions.__annotations__],
        )
        if data_source is None or sampler is None:
            missing = "data_source" if data_source is None else "sampler"
            raise TypeError(
                f"DataLoader needs {missing}=. Write DataLoader(data_source=…, sampler=…, "
                "operations=[…])."
            )
        execution = ExecutionOptions(
            worker_count,
            worker_kind,
            worker_buffer_size,
            timeout,
            read_options,
            observe="log" if true_or_false("enable_profiling", enable_profiling) else observe,
            ray_options=ray_options,
            address=address,
            seed_globals=seed_globals,
            hang_seconds=hang_seconds,
        )
        pipeline = make_pipeline(
            data_source,
            sampler,
            operations,
            shard_options,
            skips(on_error, max_errors),
            growth,
            omit,
        )
        needs_seed_for_globals(execution, pipeline.leaf.sampler.seed)
        vars(self).update(
            _description=LoaderDescription(pipeline, execution, max_errors), _passes=Passes()
        )
        warn_of_no_effect(execution)
        for leaf in pipeline.leaves:
            warn_of_shared_blocks(leaf.source, leaf.facts.shuffle, leaf.shard.shard_count)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name} cannot be set: a DataLoader never changes. Make a new one with the values you "
            "want."
        )

    def __iter__(self) -> DataLoaderIterator:
        own = self._description
        return DataLoaderIterator(
            own.pipeline, own.execution, own.max_errors, own.skipped_steps, self._passes, own.tuning
        )

    @property
    def loader_description(self) -> LoaderDescription:  # for tools
        return self._description

    @property
    def _pipeline(self) -> Pipeline:
        return self._description.pipeline

    def _with(self, **changes: Any) -> Self:
        changes.setdefault("tuning", Tuning())
        other = copy.copy(self)
        vars(other).update(_description=replace(self._description, **changes), _passes=Passes())
        return other

    def with_batch_size(self, batch_size: int, *, batch: int | None = None) -> Self:
        """Return the same loader with another batch size.

        The new loader can also resume from states of the loader with the old batch size.

        Args:
            batch_size: number of elements in the `Batch`, at least 1.
            batch: number of the `Batch` to change, if there are several: 0 for the first, -1 for
                the last. None (default): there is only one.

        Raises:
            ValueError: if there is no `Batch`, no `Batch` with that number, or there are several
                and `batch` is None; or `batch_size` is below 1.
            TypeError: if `batch_size` or `batch` is not an integer.
            EmptyStreamError: if there are too few records for a batch.

        >>> from headrace import load
        >>> small = load(range(10), batch_size=2, num_epochs=1)
        >>> iterator = iter(small)
        >>> next(iterator).tolist()
        [0, 1]
        >>> large = iter(small.with_batch_size(4))
        >>> large.set_state(iterator.get_state())
        >>> [batch.tolist() for batch in large]
        [[2, 3, 4, 5], [6, 7, 8, 9]]
        """
        return self._with(pipeline=with_batch_size(self._pipeline, batch_size, batch))

    def records_at(self, step: int) -> Any:
        """Return the keys of the records in element number `step` (from 0) of this shard's stream.

        The result is an array `int64[records]`; for a mix, a dict of such arrays by part. No record
        is read.

        Raises:
            TypeError: if an operation or `on_error` decides which records are in an element; or
                `step` is not an int.
            ValueError: if `step` is negative.
            IndexError: if the stream ends before the step.

        >>> from headrace import load
        >>> load(range(10), batch_size=4, num_epochs=1).records_at(2).tolist()
        [8, 9]
        """
        return steps.records_at(self._pipeline, step)

    def find(self, record_key: int, epoch: int) -> steps.Place:
        """Return the place of a record in this shard's stream, `Place(step, row)`.

        Steps that `skip` leaves out are counted, too. No record is read. With `IndexSampler`, this
        takes the same time for any record. With other samplers, positions are searched one after
        another, and the first position that has the record is returned.

        Args:
            record_key: key of a record of the source.
            epoch: number of the epoch, from 0.

        Raises:
            TypeError: if an operation or `on_error` decides which records are in an element; an
                argument is not an int; or the loader mixes sources.
            ValueError: if a number is negative, or the source has no record with this key
                (LookupError with a `BudgetBatch`).
            LookupError: if another shard reads the record in this epoch, or no shard does, as after
                the last epoch.

        >>> from headrace import load
        >>> loader = load(range(10), batch_size=4, shuffle=True, seed=0)
        >>> step, row = loader.find(7, epoch=2)
        >>> int(loader.records_at(step)[row])
        7
        """
        return steps.find(self._pipeline, record_key, epoch)

    def skip(self, ranges: Sequence[tuple[int, int]]) -> Self:
        """Return the same loader without the steps `[start_step, stop_step)` of each range.

        Use it, for example, after a loss spike. All other steps keep their numbers. If `skip` is
        called again on the result, the ranges of both calls are skipped. The state stores the
        ranges, so that a resumed run skips them, too. Records of skipped steps are not read, unless
        a `Filter` or `FlatMap` decides which records a step has. All shards should skip the same
        steps.

        Raises:
            TypeError: if `ranges` are not pairs of integers.
            ValueError: if a range is empty or begins below 0.

        >>> from headrace import load
        >>> loader = load(range(10), batch_size=2, num_epochs=1).skip([(1, 3)])
        >>> [batch.tolist() for batch in loader]
        [[0, 1], [6, 7], [8, 9]]
        """
        return self._with(skipped_steps=self._description.skipped_steps.plus(ranges_of(ranges)))

    def epochs(self, count: int | None = None) -> Epochs[DataLoaderIterator]:
        """Return the epochs to loop over: `for epoch in loader.epochs(10): for batch in epoch:`.

        One state covers all epochs. With an `IndexSampler`, each epoch has every record once; with
        `shuffle`, each epoch has an order of its own. The last batch of an epoch may be short, or
        is dropped with `drop_remainder=True`. (`iter(loader)`, in contrast, fills the last batch of
        an epoch with records of the next.) Shards divide each epoch separately. For each epoch,
        worker processes are started again, and skipped records are counted from 0 for `max_errors`.

        Args:
            count: number of epochs. None (default): all epochs of the sampler.

        Raises:
            TypeError: if `count` is not an integer.
            ValueError: if `count` is below 1, or the sampler has fewer epochs. If steps are skipped
                (`skip`), because their numbers are those of `iter(loader)`. If appended records
                would be added during an epoch, as with `growth="now"`, or to a mix.
            EmptyStreamError: if an epoch has too few records for a batch.

        >>> from headrace import load
        >>> epochs = load(range(3), batch_size=2).epochs(2)
        >>> [[batch.tolist() for batch in epoch] for epoch in epochs]
        [[[0, 1], [2]], [[0, 1], [2]]]
        """
        from .epochs import Epochs, count_of_epochs

        return Epochs(self._in_epoch, count_of_epochs(self._pipeline, count), iter)

    def _in_epoch(self, number: int) -> Self:
        if self._description.skipped_steps:
            raise ValueError(
                "skip() counts the steps of iter(loader), not of epochs. Use either skip() or "
                "epochs()."
            )
        from .epochs import one_epoch

        return self._with(
            pipeline=one_epoch(self._pipeline, number), tuning=self._description.tuning
        )

    to_device = to_device
    across_hosts = across_hosts

    def __repr__(self) -> str:
        pipeline = self._pipeline
        return (
            f"DataLoader(data_source={pipeline.leaf.source!r}, sampler={pipeline.leaf.sampler!r}, "
            f"operations={list(pipeline.operations)!r}, "
            f"worker_count={self._description.execution.workers})"
        )


class DataLoader(LoaderMethods):
    """Records of a source, in a sampler's order, run through operations.

    The stream depends only on source, sampler and operations, not on `worker_count`, buffers,
    timing or restarts. A loader is immutable. Each `iter(loader)` is an independent run from the
    start. For one loop per epoch, use `loader.epochs(…)`: a second `for batch in loader` repeats
    the same elements. If these are one epoch in random order, the second loop causes a warning.

    Args:
        data_source: anything with `__len__` and `__getitem__(int)`, preferably also
            `__getitems__(keys)`. A list, an array or a dict of arrays becomes a `MemorySource`. For
            a mix, a dict or list of sources.
        sampler: order of the records: `IndexSampler`, `MixSampler`, or your own.
        operations: the operations in order: transforms, batches, and plain functions (which become
            maps). Default: none.
        worker_count: 0 (default): work in the calling thread, and read ahead on threads. Other
            numbers: work in this number of processes. None: one for each CPU. "auto", or
            `Auto(most=…)`: as many as make the stream faster, which is found while it runs.
            "cluster", with Ray: as many as the cluster has resources for, at any time.
        worker_buffer_size: number of finished batches that are kept ready for each worker (default
            1). If batches are small, up to 32 are kept ready in place of one, of at most 16 MB
            together.
        shard_options: the part of the stream for this process. None (default): the sampler's
            `shard_options`.
        read_options: how records are read ahead. None (default): `ReadOptions()`.
        enable_profiling: Grain's name for `observe="log"`. False (default) leaves it to `observe`.
        worker_kind: "process", "thread" for operations that release the GIL, or "ray" for actors in
            a Ray cluster, on this machine and others; arrays from actors are read-only. None
            (default): "process". In a Python without GIL, it is "thread" if all operations are
            `thread_safe`, and neither `timeout` nor `seed_globals` is used.
        timeout: maximum seconds of a task (a batch, or a span of records) in a worker process.
            After that, the worker is killed, and the task is tried again, three times in all. None
            (default): no limit. Work in your own process, or on threads, cannot be stopped; there,
            a timeout has no effect, and causes a warning.
        on_error: "raise" (default): raise an error. "skip": skip records that cannot be read, that
            make an operation fail, or that end or hang their worker process in each of three tries.
            If an operation after a `Batch` fails, the whole batch is skipped. Skipped records are
            logged and counted in `iterator.skipped_count`, and the next records take their places.
            Or a function `(error, keys)` that returns "raise" or "skip" for each failure. It gets
            the exception and a list of the keys of the records that would be skipped (for a mix,
            pairs of part and key). It runs in workers, and may be called more than once for a
            failure.
        max_errors: maximum number of skipped records, before `TooManyErrorsError`. None (default):
            any number.
        ray_options: resources of each actor, as arguments of Ray's `.options()`. Default: one CPU.
        address: address of the Ray cluster, "host:port" or "auto". None (default): the cluster that
            this process has joined, or that the environment variable RAY_ADDRESS names; otherwise a
            cluster is started on this machine.
        observe: True (default): time tasks and operations, for `iterator.stats()`; costs less than
            1 %. "log": also write the table of `stats()` to the log once a minute and at the end:
            logger "headrace", level INFO.
        seed_globals: True: seed the global random generators (NumPy's, Python's `random`, and
            torch's on the CPU if torch is loaded) before each call of an operation, by the
            sampler's seed, the position and the operation. Then operations that draw from them give
            the same results with any number of workers, at 15 µs a call. After each task the
            generators are restored. The sampler needs a seed. Not for threads, which share the
            generators. False (default): each worker process has its own states, and an operation
            that is seen to draw from them causes a warning. It is better to use the generator that
            `RandomMapTransform` passes.
        hang_seconds: seconds after which a warning about an unfinished task is logged, and again
            each time these seconds have passed (default 60; None: never). The warning names the
            operation, the record and the line of code that runs.
        growth: for sources, or parts of a mix, with `growing=True`: when appended records are added
            to the stream; see `GrowthOptions`. None (default): "epoch".
        omit: records to omit: an array, list or set of their keys; the path of a file of keys, one
            a line or `.npy`; or a function of a file name and a row (or an array of rows), which
            the loader calls when it is made. The other records keep their order. A run can resume
            from a state of a run that omitted fewer records. The random numbers of a record depend
            on its position among the records that are not omitted. None (default): only records
            that were deleted from the source.

    Raises:
        TypeError: if an argument has a wrong type, or a name of another library.
        ValueError: if an argument is out of range, or arguments do not fit together.
        SeedError: if the sampler has no seed, and there is a random operation without a seed of its
            own, or `seed_globals=True`.
        RecordKeyError, SourceError: if `omit` names a record that the source does not have; if its
            file cannot be read; or if it is a function, and the source does not know the files of
            its records.

    >>> from headrace import Batch, DataLoader, IndexSampler
    >>> loader = DataLoader(
    ...     data_source=range(10),
    ...     sampler=IndexSampler(10, num_epochs=1),
    ...     operations=[lambda number: number * number, Batch(4)],
    ... )
    >>> [batch.tolist() for batch in loader]
    [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    """

    def __len__(self) -> int:
        """Return the number of elements in this shard's whole stream, over all epochs.

        No record is read.

        Raises:
            TypeError: if the stream is endless, or the number of elements depends on an operation
                or on failing records.
        """
        return steps.number_of(self._pipeline, (0, 0), self._description.skipped_steps)
