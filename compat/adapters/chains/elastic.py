"""Grain's ElasticIterator: batches of a dataset, which any number of shards share.

In: a dataset with random access. Out: this shard's part of each global batch; a state that is the same for all shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....common.messages import a_kind_of
from .iter_dataset import IterDataset
from .iterators import Resumed
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
            raise ValueError(
                f"ElasticIterator does not support `filter` transformation. Elements have no index then. {_STREAMS}"
            )
        if global_batch_size % shard_options.shard_count:
            raise ValueError(
                f"global_batch_size={global_batch_size} is not divisible by {shard_options.shard_count} shards; use a multiple."
            )
        begin = partial(_batches, ds, global_batch_size, shard_options, read_options, multiprocessing_options)
        self._iterator: Resumed[Any] = Resumed(begin, {"global_next_index": 0})

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


def _batches(
    dataset: Any, size: int, shard: Any, read_options: Any, workers: Any, state: dict[str, int]
) -> Iterator[tuple[Any, dict[str, int]]]:
    """The elements of a shard from a global index on, in batches."""
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
