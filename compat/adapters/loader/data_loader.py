"""Grain's `DataLoader`, with Grain's order and generators, and operations on iterators of records.

In: a source, a sampler, operations. Out: iterators whose states are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....common.identity.values import digest
from ....common.validation import warn
from ....errors import StructureError
from ....loader.data_loader import LoaderMethods
from ....loader.plan.build import dropped_records
from ....operations import Batch as OurBatch
from ....operations import Operation
from ....operations.protocol import fingerprint
from ....samplers import IndexSampler as OurIndexSampler
from ....samplers import NoSharding
from ....samplers.chain.order import ChainOrder
from ....samplers.own_sampler import as_vector_sampler
from ....samplers.protocol import ENDLESS
from ....sources import as_source, fingerprint_of
from ....sources.run_through import RunThroughSource
from ...grain_state import state_after
from ..options import MultiprocessingOptions, ReadOptions, as_read_options
from ..transforms import Batch, grain_method
from ..wording import NotedIterator, reword
from .operations import newer, with_one_generator
from .record_stream import RecordStream
from .records import IndexSampler, shard_of


class DataLoader(LoaderMethods):
    """Load the records of a source in a sampler's order and run operations on them.

    Warns if a random map has no generator, because the sampler has no seed, or if no batch can be
    filled.

    Args:
        data_source: the source of the records.
        sampler: decides which record is read at each position.
        operations: transforms, or functions that make an iterator of `Record`s from another one.
            With such functions, records are read in order by one worker.
        worker_count: number of worker processes; 0 (default) for none. The stream is the same for
            any number.
        worker_buffer_size: number of finished batches that each worker keeps ready.
        shard_options: the shard of this process; None (default): the sampler's.
        read_options: how records are read ahead.
        enable_profiling: True logs the table of `iterator.stats()` once a minute and at the end.

    >>> sampler = IndexSampler(5, shuffle=True, seed=1, num_epochs=1)
    >>> list(DataLoader(data_source=[10, 20, 30, 40, 50], sampler=sampler))
    [20, 30, 40, 10, 50]
    """

    _data_source: Any  # what was passed; some programs look at these
    _sampler: Any
    _operations: tuple[Any, ...]
    _shard_options: Any
    _read_options: Any

    def __init__(
        self,
        *,
        data_source: Any,
        sampler: Any,
        operations: Sequence[Any] = (),
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: Any = None,
        read_options: Any = None,
        enable_profiling: bool = False,
    ) -> None:
        vars(self).update(_data_source=data_source, _sampler=sampler, _operations=tuple(operations))
        vars(self).update(
            _shard_options=shard_of(sampler, shard_options), _read_options=read_options
        )
        changed = [newer(operation) for operation in operations]
        parts = {
            "data_source": data_source,
            "sampler": sampler,
            "shard_options": self._shard_options,
        }
        reading = as_read_options(read_options)
        if _on_records(changed, sampler):
            parts = _run_through(changed, reading, **parts)
            changed = []
        seeded = getattr(parts["sampler"], "seed", None) is not None
        if not seeded and any(grain_method(operation) == "random_map" for operation in changed):
            warn(
                "a random map gets None in place of a generator: the sampler has no seed; pass "
                "seed= to it."
            )
        super().__init__(
            **parts,
            operations=with_one_generator(changed, seeded),
            worker_count=worker_count,
            worker_buffer_size=max(worker_buffer_size, 1),
            read_options=reading,
            enable_profiling=enable_profiling,
        )
        if not self._description.pipeline.joins and (
            records := dropped_records(self._description.pipeline)
        ):
            warn(
                f"the stream is empty: {records} records are too few for a batch, and "
                "drop_remainder=True drops them. Pass a smaller batch_size=, or "
                "drop_remainder=False."
            )

    def __iter__(self) -> DataLoaderIterator:
        own = self._description
        return DataLoaderIterator(own.pipeline, own.execution, own.max_errors, own.skipped_steps)

    @property
    def _multiprocessing_options(self) -> MultiprocessingOptions:
        """Same as `multiprocessing_options`, under the name that Keras uses."""
        return self.multiprocessing_options

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """The number of workers, and of elements that each worker keeps ready."""
        execution = self._description.execution
        return MultiprocessingOptions(execution.workers, execution.worker_buffer_size)


class DataLoaderIterator(NotedIterator):
    """One pass over a loader's stream.

    Its states are bytes; it can also restore states of Grain's iterators.
    """

    def __next__(self) -> Any:
        """Return the next element; error messages have Grain's wording."""
        try:
            return super().__next__()
        except StructureError as error:
            reword(error)
            raise

    def set_state(self, state: bytes, strict: bool = True) -> None:
        """Resume from a state of this or another iterator, or of a Grain iterator.

        The Grain iterator must have had the same sampler.

        Args:
            state: the bytes that `get_state()` returned.
            strict: False also accepts a state of a pipeline with another source, sampler or other
                operations.

        Raises:
            CheckpointError: if `state` is not a state, or is one of another pipeline.
        """
        if isinstance(state, bytes) and (
            b'"last_seen_indices"' in state or b'"next_index_in_buffer"' in state
        ):
            state = state_after(state, self._pipeline).to_json()
        super().set_state(state, strict)


def _on_records(operations: Sequence[Any], sampler: Any) -> bool:
    """Return True if the operations must run on an iterator of records.

    They must if one of them is a user's function on such iterators, if a random map comes after a
    batch, or if there is a random map and the sampler is a user's own.

    Args:
        operations: the operations of a loader.
        sampler: its sampler.
    """
    if not all(isinstance(operation, Operation) for operation in operations):
        return True
    random = [
        place
        for place, operation in enumerate(operations)
        if grain_method(operation) == "random_map"
    ]
    after_batch = any(
        isinstance(operation, OurBatch) for place in random[-1:] for operation in operations[:place]
    )
    return after_batch or bool(random and not isinstance(sampler, OurIndexSampler))


def _run_through(
    operations: Sequence[Any],
    reading: ReadOptions,
    data_source: Any,
    sampler: Any,
    shard_options: Any,
) -> dict[str, Any]:
    order, source, shard = (
        as_vector_sampler(sampler),
        as_source(data_source),
        shard_options or NoSharding(),
    )
    length = len(order) // shard.shard_count  # of every shard, as in Grain
    stream = RecordStream(source, sampler, length, shard, operations, reading)
    parents = [fingerprint_of(source), order.fingerprint, *map(fingerprint, operations)]
    return {
        "data_source": RunThroughSource(
            stream, parents=[digest(each, 12) for each in parents], endless=len(order) >= ENDLESS
        ),
        "sampler": ChainOrder((), ENDLESS, ENDLESS, None),
        "shard_options": None,
    }


def load(
    source: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: Any = None,
    transformations: Sequence[Any] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: Any = None,
) -> DataLoader:
    """Make a `DataLoader` over all records of a source, in Grain's order.

    Args:
        source: a source of records.
        num_epochs: number of epochs; None (default) for no end.
        shuffle: True permutes each epoch; needs `seed`.
        seed: an int in `[0, 2^32)`.
        shard_options: the shard of this process; None (default): all records.
        transformations: operations before the batch.
        batch_size: number of elements in a batch; None (default) gives single elements.
        drop_remainder: True omits a last batch that is not full.
        worker_count: number of worker processes.
        read_options: how records are read ahead.

    >>> [batch.tolist() for batch in load([1, 2, 3], batch_size=2, num_epochs=1)]
    [[1, 2], [3]]
    """
    sampler = IndexSampler(len(source), shard_options, shuffle, num_epochs, seed)
    batch: list[Callable[..., Any] | Operation] = (
        [] if batch_size is None else [Batch(batch_size, drop_remainder)]
    )
    return DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[*transformations, *batch],
        worker_count=worker_count,
        read_options=read_options,
    )
