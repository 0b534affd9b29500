"""Grain's ElasticIterator: batches of a dataset, which any number of shards share.

In: a dataset with random access, or a stream of an interleave. Out: this shard's part of each global batch; a state that is the
same for all shards, or one for each dataset of the interleave.
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
    "Streams of headrace.MapDataset go on with other shards, filters or not: shard(…), iterator.set_states(states)."
)


class ElasticIterator(IterDataset[Any]):
    """An iterator of one shard; goes on with another number of shards, and with another batch size.

    A stream is an interleave and what is done to its elements (Grain after 0.2.18): each shard has some of the interleaved
    datasets, `get_shard_states()` gives the place in each of them, and `set_shard_states(…)` takes those of all shards. Shards
    of a stream end at steps of their own, and the order of elements is another one after a change.

    Args:
        ds: neither in batches nor sharded; without filters, unless it is a stream.
        global_batch_size: of all shards together.
        shard_options: the part for this process.
        read_options: how records are read ahead.
        multiprocessing_options: worker processes; None (default): none. Not for a stream.

    Raises:
        TypeError: it is no dataset.
        ValueError: a filter comes before, or the shards cannot share a batch evenly; a stream is of no interleave.
        NotImplementedError: worker processes for a stream.

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
            raise TypeError(f"ElasticIterator takes a MapDataset or an IterDataset, not {a_kind_of(ds)}.")
        if global_batch_size % shard_options.shard_count:
            raise ValueError(
                f"global_batch_size={global_batch_size} is not divisible by {shard_options.shard_count} shards; use a multiple."
            )
        self._iterator: Any
        if isinstance(ds, IterDataset):
            if multiprocessing_options is not None:
                raise NotImplementedError(
                    "ElasticIterator of a stream has no workers; leave out multiprocessing_options."
                )
            self._iterator = ElasticStreamIterator(ds, global_batch_size // shard_options.shard_count, shard_options)
            return
        if ds.root_node.left_out_by == "filter":
            raise ValueError(
                f"ElasticIterator does not support `filter` transformation. Elements have no index then. {_STREAMS}"
            )
        begin = partial(_batches, ds, global_batch_size, shard_options, read_options, multiprocessing_options)
        self._iterator = Resumed(begin, {"global_next_index": 0})

    def __iter__(self) -> Any:
        return self._iterator

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """The state of all shards; of this shard, if it is one of a stream."""
        state: dict[str, Any] = self._iterator.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to where the shards of this or another run stood."""
        self._iterator.set_state(state)

    def set_states(self, states: Sequence[Any]) -> None:
        """Go on where the shards of another run stood, as Orbax's handler asks for: states as dicts, or as JSON.

        Raises:
            CheckpointError: a state is missing; or they are of shards that were not at the same step, and it is no stream.
        """
        read = [json.loads(state) if isinstance(state, bytes) else state for state in states]
        if isinstance(self._iterator, ElasticStreamIterator):
            self._iterator.set_states(read)
            return
        if not read or any(state != read[0] for state in read):
            raise CheckpointError(
                f"the {len(read)} states are not of one step; pass those that the shards had at the same step."
            )
        self.set_state(read[0])

    def start_prefetch(self) -> None:
        """Have the work begin now, if there is a stream."""
        self._iterator.start_prefetch()

    def get_shard_states(self) -> dict[int, Any]:
        """The place in each dataset of this shard's, by its number in the interleave.

        Raises:
            NotImplementedError: it is no stream; `get_state()` is the state of all shards.
        """
        states: dict[int, Any] = self._of_stream("get_shard_states").get_shard_states()
        return states

    def set_shard_states(self, shard_states: Mapping[Any, Any]) -> None:
        """Go on where other shards stood.

        Args:
            shard_states: what `get_shard_states()` of all of them gave, in one dict.

        Raises:
            CheckpointError: a state is missing.
            NotImplementedError: it is no stream; `set_state(…)` takes the state of any shard.
        """
        self._of_stream("set_shard_states").set_shard_states(shard_states)

    def _of_stream(self, method: str) -> Any:
        if isinstance(self._iterator, ElasticStreamIterator):
            return self._iterator
        raise NotImplementedError(f"{method} is for streams; the state of any shard of a MapDataset is that of all.")

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
