"""The stream of a loader whose operations work on iterators of records: run through in order.

In: a source, a sampler, operations. Out: elements, and states that say from which record on, and what of it was delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....samplers import ShardOptions
from ..transforms import FlatMap
from .operations import Records, on_records
from .records import Record


class RecordStream:
    """Elements that operations on iterators make of a shard's records.

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
        self._indices_stay = not any(isinstance(each, FlatMap) for each in operations)

    def __iter__(self) -> RecordIterator:
        return RecordIterator(self._elements, self._place_after if self._indices_stay else None)

    def _elements(self, start: int) -> Records:
        records = self._records(start)
        steps: list[Callable[[Records], Records]] = list(map(on_records, self._operations))
        for step in steps:
            records = iter(step(records))
        return records

    def _records(self, start: int) -> Records:
        for local in range(start, self._length):
            metadata = self._sampler[self._shard.global_position(local)]
            yield Record(metadata, self._source[metadata.record_key])

    def _place_after(self, record: Record[Any]) -> int:
        return (record.metadata.index - self._shard.shard_index) // self._shard.shard_count + 1


class RecordIterator:
    """Its state is the record from which the operations began anew, and how many elements came since.

    Args:
        elements: gives records of the stream from a local position on.
        place_after: the local position after a record; None: only the beginning is known.
    """

    def __init__(self, elements: Callable[[int], Records], place_after: Callable[[Record[Any]], int] | None) -> None:
        self._elements_from, self._place_after = elements, place_after
        self._start = self._delivered = 0
        self._elements: Records | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._elements is None:
            self._elements = self._elements_from(self._start)
            for _ in range(self._delivered):
                next(self._elements)
        record = next(self._elements)
        if self._place_after is None:
            self._delivered += 1
        else:
            self._start = self._place_after(record)
        return record.data

    def get_state(self) -> dict[str, int]:
        """The state."""
        return {"start": self._start, "delivered": self._delivered}

    def set_state(self, state: dict[str, int]) -> None:
        """Go to where another one stood."""
        self._start, self._delivered, self._elements = state["start"], state["delivered"], None
