"""Stream of a loader whose operations work on iterators of records, which are read in order.

In: a source, a sampler, operations. Out: elements, and states. A state has the record at which the
operations begin, and the number of elements, made of records from there on, that were delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ....loader import ReadOptions as OurReadOptions
from ....loader.executors.thread_pool import Call, Pool
from ....samplers import ShardOptions
from ..chains.iterators import Resumed
from ..transforms import grain_method
from .operations import Records, on_records
from .records import Record


class RecordStream:
    """A stream of elements, which functions on iterators, or transforms, make of records.

    Its state has two numbers: the index of the record at which the functions start after a restore,
    and how many of the elements made from this record on were already delivered. These elements are
    made once more and dropped. A state that was made of a state of Grain also has the number of
    elements that each flat map had given.

    Args:
        source: a source of records.
        sampler: a sampler whose `__getitem__` returns metadata.
        length: number of positions of this shard.
        shard: the shard of this process.
        operations: transforms, and functions on iterators of records.
        reading: how many records are read ahead, and by how many threads.
    """

    def __init__(
        self,
        source: Any,
        sampler: Any,
        length: int,
        shard: ShardOptions,
        operations: Sequence[Any],
        reading: OurReadOptions,
    ) -> None:
        self._reading = reading
        self._source, self._length = source, length
        self.sampler, self.shard = sampler, shard
        self._operations = tuple(operations)
        self._indices_stay = not self.flat_maps

    def __iter__(self) -> Resumed[Any]:
        return Resumed(self._elements, self.state_at(0))

    def state_at(self, start: int, given: Sequence[int] = ()) -> dict[str, Any]:
        """Return the state in which the operations start at record `start` of the shard.

        Args:
            start: index of the record in the shard.
            given: for each flat map, the number of its elements that were delivered before.
        """
        return {"start": start, "delivered": 0, **({"given": list(given)} if any(given) else {})}

    @property
    def flat_maps(self) -> int:
        return sum(grain_method(each) == "flat_map" for each in self._operations)

    def _elements(self, state: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        start, delivered, before = state["start"], state["delivered"], state.get("given", [])
        given = iter(before)
        records = self._records(start)
        for operation in self._operations:
            records = iter(on_records(operation)(records))
            if grain_method(operation) == "flat_map":
                records = islice(records, next(given, 0), None)
        for _ in range(delivered):
            next(records)
        for record in records:
            if self._indices_stay:
                start = (
                    record.metadata.index - self.shard.shard_index
                ) // self.shard.shard_count + 1
            else:
                delivered += 1
            yield record.data, self.state_at(start, before) | {"delivered": delivered}

    def _records(self, start: int) -> Records:
        found = (
            self.sampler[self.shard.global_position(local)] for local in range(start, self._length)
        )
        ahead = min(self._reading.num_threads, self._reading.prefetch_buffer_size)
        if not ahead:
            yield from (Record(metadata, self._source[metadata.record_key]) for metadata in found)
            return
        pool, calls = Pool(ahead, "headrace-read"), deque[tuple[Any, Call[Any]]]()
        try:
            for metadata in found:
                calls.append((metadata, pool.submit(self._source.__getitem__, metadata.record_key)))
                if len(calls) > ahead:
                    yield _arrived(*calls.popleft())
            while calls:
                yield _arrived(*calls.popleft())
        finally:
            pool.close()


def _arrived(metadata: Any, call: Call[Any]) -> Record[Any]:
    return Record(metadata, call.result())
