"""Grain's `ElasticIterator`: batches of a dataset, for a number of shards that may change.

In: a dataset with random access, or a stream made by an interleave. Out: this shard's part of each
global batch. The state is the same for all shards of a dataset with random access; a stream has one
state for each interleaved dataset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ....common.messages import a_kind_of
from ....errors import CheckpointError
from .elastic_streams import ElasticStreamIterator
from .iter_dataset import IterDataset
from .iterators import Resumed
from .map_dataset import MapDataset

_STREAMS = (
    "Use a headrace.MapDataset: its streams can resume on other shards, also after filters, by "
    "shard(…) and iterator.set_states(states)."
)


class ElasticIterator(IterDataset[Any]):
    """An iterator over one shard's batches.

    A run can resume with another number of shards or another batch size.

    `ds` may be a stream made by an interleave (Grain after 0.2.18). Then each shard reads some of
    the interleaved datasets. `get_shard_states()` returns the states of this shard's datasets, and
    `set_shard_states(…)` takes the states of the datasets of all shards. The shards of a stream may
    end at different steps. After the number of shards changes, the order of elements differs.

    Args:
        ds: a dataset that is neither batched nor sharded. Only a stream may contain filters.
        global_batch_size: number of elements of one batch, over all shards.
        shard_options: the shard of this process.
        read_options: how records are read ahead.
        multiprocessing_options: worker processes; None (default) for no workers. Must be None for a
            stream.

    Raises:
        TypeError: if `ds` is not a dataset.
        ValueError: if a dataset with random access contains a filter, if the number of shards does
            not divide `global_batch_size`, or if a stream is not made by an interleave.
        NotImplementedError: if worker processes are asked for with a stream.

    >>> from headrace.compat.grain import MapDataset, sharding
    >>> iterator = ElasticIterator(MapDataset.range(8), 4, sharding.ShardOptions(1, 2))
    >>> next(iterator).tolist(), iterator.get_state()
    ([1, 3], {'global_next_index': 4})
    """

    def __init__(
        self,
        ds: Any,
        global_batch_size: int,
        shard_options: Any,
        *,
        read_options: Any = None,
        multiprocessing_options: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(ds, (MapDataset, IterDataset)):
            raise TypeError(
                f"ElasticIterator takes a MapDataset or an IterDataset, not {a_kind_of(ds)}. Pass "
                "one of these."
            )
        if global_batch_size % shard_options.shard_count:
            raise ValueError(
                f"global_batch_size={global_batch_size} is not divisible by "
                f"{shard_options.shard_count} shards. Pass a multiple of "
                f"{shard_options.shard_count}."
            )
        self._iterator: Any
        if isinstance(ds, IterDataset):
            if multiprocessing_options is not None:
                raise NotImplementedError(
                    "ElasticIterator of a stream has no workers. Leave out multiprocessing_options."
                )
            self._iterator = ElasticStreamIterator(
                ds, global_batch_size // shard_options.shard_count, shard_options
            )
            return
        if ds.root_node.left_out_by == "filter":
            raise ValueError(
                "ElasticIterator does not support `filter` transformation, because elements after "
                f"a filter have no index. {_STREAMS}"
            )
        begin = partial(
            _batches, ds, global_batch_size, shard_options, read_options, multiprocessing_options
        )
        self._iterator = Resumed(begin, {"global_next_index": 0})

    def __iter__(self) -> Any:
        return self._iterator

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """Return the state of this iterator.

        With random access, the state is the same for all shards; for a stream, it is the state of
        this shard alone.
        """
        state: dict[str, Any] = self._iterator.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state that `get_state` returned.

        Raises:
            CheckpointError: if `ds` is a stream, and the state is of another shard or dataset.
        """
        self._iterator.set_state(state)

    def set_states(self, states: Sequence[Any]) -> None:
        """Resume from the states of all shards of another run.

        Orbax's checkpoint handler calls this.

        Args:
            states: one state for each shard, as a dict or as JSON bytes.

        Raises:
            CheckpointError: if a state is missing, or if the states of a dataset with random access
                are not all equal.
        """
        read = [json.loads(state) if isinstance(state, bytes) else state for state in states]
        if isinstance(self._iterator, ElasticStreamIterator):
            self._iterator.set_states(read)
            return
        if not read:
            raise CheckpointError(
                "states= is empty. Pass a list with the state of each former shard."
            )
        if any(state != read[0] for state in read):
            raise CheckpointError(
                f"the {len(read)} states were not saved at the same step. Pass states that all "
                "shards saved at the same step."
            )
        self.set_state(read[0])

    def start_prefetch(self) -> None:
        """Start reading ahead now, if `ds` is a stream."""
        self._iterator.start_prefetch()

    def get_shard_states(self) -> dict[int, Any]:
        """Return the state of each of this shard's datasets, by its index in the interleave.

        Raises:
            NotImplementedError: if `ds` is not a stream; then use `get_state()`.
        """
        states: dict[int, Any] = self._of_stream("get_shard_states").get_shard_states()
        return states

    def set_shard_states(self, shard_states: Mapping[Any, Any]) -> None:
        """Resume a stream from the states of its datasets.

        Use it, for example, after the number of shards changed.

        Args:
            shard_states: the results of `get_shard_states()` of all shards of earlier runs, merged
                into one dict.

        Raises:
            CheckpointError: if the state of one of this shard's datasets is missing.
            NotImplementedError: if `ds` is not a stream; then use `set_state(…)`, with the state of
                any shard.
        """
        self._of_stream("set_shard_states").set_shard_states(shard_states)

    def _of_stream(self, method: str) -> Any:
        if isinstance(self._iterator, ElasticStreamIterator):
            return self._iterator
        raise NotImplementedError(
            f"{method} is only for streams. Use set_state: the state of any shard of a MapDataset "
            "can be restored on all shards."
        )

    def close(self) -> None:
        """Stop reading, and end the workers.

        With random access, a later `next(…)` continues. For a stream it raises ValueError, until a
        state is restored.
        """
        self._iterator.close()


def _batches(
    dataset: Any, size: int, shard: Any, read_options: Any, workers: Any, state: dict[str, int]
) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yield one shard's batches, each with the state after it: a dict with the next global index.

    Args:
        dataset: a dataset with random access.
        size: number of elements in a global batch, over all shards.
        shard: the shard of this process.
        read_options: how records are read ahead.
        workers: worker processes; None for none.
        state: the state from which to begin.
    """
    index, count = state["global_next_index"], shard.shard_count
    local = dataset[index + shard.shard_index :: count].batch(size // count, drop_remainder=True)
    stream = local.to_iter_dataset(read_options)
    batches = iter(stream if workers is None else stream.mp_prefetch(workers))
    try:
        for batch in batches:
            index += size
            yield batch, {"global_next_index": index}
    finally:
        batches.close()
