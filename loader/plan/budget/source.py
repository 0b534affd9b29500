"""A source whose records are batches that were planned from lengths, of records of another source.

In: keys of batches. Out: batches; all their records are read in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ....common.messages import first_few
from ....operations import BudgetBatch
from ....operations.budget.rows import check_lengths
from ....operations.protocol import Context, Operation
from ....samplers import IndexSampler
from ....samplers.protocol import ENDLESS, VectorSampler
from ....sources import DataSource, fingerprint_of, reader_of
from ....sources.provenance import UsedRecord, used_records
from .order import BudgetOrder

Ints = NDArray[np.int64]


class PlacedRecords(Protocol):
    """Records by epoch and place."""

    reads_ahead: Any
    reads_singly: bool

    @property
    def fingerprint(self) -> dict[str, Any]: ...

    def records(self, epochs: Ints, places: Ints) -> Sequence[Any]:
        """The records at places of epochs, in one call."""

    def keys(self, places: Ints) -> Ints:
        """Their keys, as users know them."""

    def place_of(self, key: int, count: int) -> int | None:
        """The place below `count` of the record with a key; None if it has none."""

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]: ...


class BudgetSource:
    """Batches by key.

    Args:
        input: the records.
        operation: how they are batched.
        order: of any shard; it tells the records of a key.
        lengths: of the records by place, as they were planned.
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    def __init__(self, input: PlacedRecords, operation: BudgetBatch, order: BudgetOrder, lengths: Ints) -> None:
        self._input, self._operation, self._order, self._lengths = input, operation, order, lengths
        self.reads_ahead = input.reads_ahead
        self.reads_singly = False

    def __len__(self) -> int:
        return ENDLESS

    def __repr__(self) -> str:
        return f"batches of {self._input!r}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The identity of the records: the order tells the batches."""
        return self._input.fingerprint

    @property
    def records_each(self) -> int:
        """Records of a batch, on average."""
        return max(-(-len(self._order.windows.places) // max(self._order.epoch_length, 1)), 1)

    def __getitem__(self, key: int) -> Any:
        return self.__getitems__(np.array([key], dtype=np.int64))[0]

    def __getitems__(self, keys: Ints) -> list[Any]:
        """The batches of many keys."""
        if not len(keys):
            return []
        batches = [self._order.places(key, at_least=1) for key in keys.tolist()]
        counts = self._order.parts(keys).records.tolist()
        places = np.concatenate([places for _, places, _ in batches])
        epochs = np.repeat([epoch for epoch, _, _ in batches], [len(places) for _, places, _ in batches])
        records = iter(self._input.records(epochs, places))
        return [
            self._batch([next(records) for _ in range(len(places))], places, count, shape)
            for (_, places, shape), count in zip(batches, counts)
        ]

    def _batch(self, records: list[Any], places: Ints, count: int, shape: int) -> Any:
        padding, shapes = self._operation.padding, self._order.windows.shapes

        def check(real: Ints) -> None:
            if (real > self._lengths[places[:count]]).any():
                check_lengths(real, self._lengths[places[:count]], self._input.keys(places[:count]).tolist())

        return padding.batch(records, count, shapes.rows[shape], shapes.lengths[shape], check)

    def records_of(self, keys: Ints) -> Ints:
        """The keys of the records in batches."""
        found = [self._input.keys(self._order.places(key)[1]) for key in keys.tolist()]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def place_of(self, record_key: int) -> int | None:
        """The place of a record in an epoch; None if it has none."""
        return self._input.place_of(record_key, len(self._lengths))

    def told(self, key: int) -> str:
        """The records of a batch, as messages say them."""
        return first_few(self.records_of(np.array([key], dtype=np.int64)).tolist()) or "none"

    def made_of(self, key: int) -> list[UsedRecord]:
        """The records of a batch, each in a row."""
        epoch, places, _ = self._order.places(key)
        rows = enumerate(places.tolist())
        return [used.placed(row=row) for row, place in rows for used in self._input.made_of(epoch, place)]


class SampledRecords:
    """Records of a source in the order of a sampler, run through operations that make one of each.

    Args:
        source: of the records.
        sampler: of the first epoch, unsharded.
        operations: before the batches.
    """

    def __init__(self, source: DataSource[Any], sampler: VectorSampler, operations: Sequence[Operation]) -> None:
        self._source, self._sampler, self._operations = source, sampler, operations
        self.reads_ahead = getattr(source, "reads_ahead", True)
        self.reads_singly = False
        self._idle: list[_Steps] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}

    def __repr__(self) -> str:
        return repr(self._source)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The source's."""
        return fingerprint_of(self._source)

    def keys(self, places: Ints) -> Ints:
        """The keys of the records at places."""
        return self._sampler.record_keys(places)

    def place_of(self, key: int, count: int) -> int | None:
        """The place of a record, by the sampler's own inverse where it has one."""
        if isinstance(self._sampler, IndexSampler):
            place = self._sampler.position_of(key, 0) if key < self._sampler.num_records else None
            return place if place is not None and place < count else None
        found = np.flatnonzero(self.keys(np.arange(count, dtype=np.int64)) == key)
        return int(found[0]) if len(found) else None

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]:
        return used_records(self._source, int(self.keys(np.array([place]))[0]))

    def records(self, epochs: Ints, places: Ints) -> Sequence[Any]:
        """The records, read in one call; operations draw by the position in all epochs."""
        keys = self.keys(places)
        records = reader_of(self._source)(keys)
        if not self._operations:
            return records
        try:
            steps = self._idle.pop()
        except IndexError:
            steps = _Steps(self._operations)
        positions = epochs * self._sampler.epoch_length + places
        seeds = self._sampler.seeds(places)
        of_each = [self._sampler.seed or 0] * len(places) if seeds is None else seeds.tolist()
        found = [steps.run(*each) for each in zip(records, of_each, positions.tolist(), keys.tolist())]
        self._idle.append(steps)  # one that failed is not used again
        return found


class _Steps:
    """The steps of operations, for one thread."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._found: list[Any] = []
        self._context = Context(most=1)
        step = self._found.append
        for number, operation in reversed(list(enumerate(operations))):
            step = operation.connect(step, self._context, number)
        self._step = step

    def run(self, record: Any, seed: int, position: int, key: int) -> Any:
        """The result for a record."""
        self._context.seed, self._context.position, self._context.row = seed, position, 0
        try:
            self._step(record)
        except Exception as error:
            number = self._context.fault.number if self._context.fault else 0
            error.add_note(f"headrace: operation {number}, {self._operations[number]!r}, failed on record key {key}.")
            raise
        return self._found.pop()
