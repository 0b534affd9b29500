"""Grain's ElasticIterator: batches of a dataset, which any number of shards share.

In: a dataset with random access. Out: this shard's part of each global batch; a state that is the same for all shards.
"""

from __future__ import annotations

from typing import Any

from ....common.messages import a_kind_of
from .iter_dataset import IterDataset
from .iterators import DatasetIterator
from .map_dataset import MapDataset

_STREAMS = (
    "Streams of headrace.MapDataset go on with other shards, filters or not: shard(…), iterator.set_states(states)."
)


class ElasticIterator(IterDataset[Any]):
    """An iterator of one shard; goes on with another number of shards, and with another batch size.

    Args:
        ds: neither in batches nor sharded; without filters.
        global_batch_size: of all shards together.
        shard_options: the part for this process.
        read_options: how records are read ahead.
        multiprocessing_options: worker processes; None (default): none.

    Raises:
        TypeError: it is no `MapDataset`.
        ValueError: a filter comes before, or the shards cannot share a batch evenly.

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
        if not isinstance(ds, MapDataset):
            raise TypeError(f"ElasticIterator takes a MapDataset, not {a_kind_of(ds)}. {_STREAMS}")
        if ds.root_node.left_out_by == "filter":
            raise ValueError(f"ElasticIterator does not support `filter`: elements then have no index. {_STREAMS}")
        if global_batch_size % shard_options.shard_count:
            raise ValueError(
                f"global_batch_size={global_batch_size} is not divisible by {shard_options.shard_count} shards; use a multiple."
            )
        self._iterator = _ElasticIterator(ds, global_batch_size, shard_options, read_options, multiprocessing_options)

    def __iter__(self) -> Any:
        return self._iterator

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """The state of all shards."""
        return self._iterator.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to where the shards of this or another run stood."""
        self._iterator.set_state(state)

    def close(self) -> None:
        """Stop all work."""
        self._iterator.close()


class _ElasticIterator(DatasetIterator[Any]):
    """The elements of a shard from a global index on, in batches."""

    def __init__(self, dataset: Any, batch_size: int, shard: Any, read_options: Any, workers: Any) -> None:
        super().__init__()
        self._dataset, self._batch_size, self._shard = dataset, batch_size, shard
        self._read_options, self._workers = read_options, workers
        self._next_index = 0
        self._batches: Any = None

    def __next__(self) -> Any:
        self._batches = self._batches or self._begin()
        batch = next(self._batches)
        self._next_index += self._batch_size
        return batch

    def _begin(self) -> Any:
        first, count = self._next_index + self._shard.shard_index, self._shard.shard_count
        batches = self._dataset[first::count].batch(self._batch_size // count, drop_remainder=True)
        stream = batches.to_iter_dataset(self._read_options)
        return iter(stream if self._workers is None else stream.mp_prefetch(self._workers))

    def get_state(self) -> dict[str, Any]:
        return {"global_next_index": self._next_index}

    def set_state(self, state: dict[str, Any]) -> None:
        self.close()
        self._next_index = state["global_next_index"]

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()
