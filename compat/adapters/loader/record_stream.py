"""The stream of a loader whose operations work on iterators of records: run through in order.

In: a source, a sampler, operations. Out: elements, and states that say from which record on, and what of it was delivered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....samplers import ShardOptions
from ..chains.iterators import Resumed
from ..transforms import grain_method
from .operations import Records, on_records
from .records import Record


class RecordStream:
    """Elements that operations on iterators make of a shard's records.

    A state is the record from which the operations began anew, and how many elements came since.

    Args:
        source: of records.
        sampler: has `__getitem__`, which gives metadata.
        length: number of positions of this shard.
        shard: which positions those are.
        operations: transforms, and functions of iterators of records.
    """

    def __init__(self, source: Any, sampler: Any, length: int, shard: ShardOptions, operations: Sequence[Any]) -> None:
        self._source, self._sampler, self._length, self._shard = source, sampler, length, shard
        self._operations = tuple(operations)
        self._indices_stay = not any(grain_method(each) == "flat_map" for each in operations)

    def __iter__(self) -> Resumed[Any]:
        return Resumed(self._elements, {"start": 0, "delivered": 0})

    def _elements(self, state: dict[str, int]) -> Iterator[tuple[Any, dict[str, int]]]:
        start, delivered = state["start"], state["delivered"]
        records = self._records(start)
        for operation in self._operations:
            records = iter(on_records(operation)(records))
        for _ in range(delivered):
            next(records)
        for record in records:
            if self._indices_stay:
                start = (record.metadata.index - self._shard.shard_index) // self._shard.shard_count + 1
            else:
                delivered += 1
            yield record.data, {"start": start, "delivered": delivered}

    def _records(self, start: int) -> Records:
        for local in range(start, self._length):
            metadata = self._sampler[self._shard.global_position(local)]
            yield Record(metadata, self._source[metadata.record_key])
