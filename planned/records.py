"""Records of a source by epoch and place (index in the epoch), for planned batches and rows.

In: epochs and places. Out: records, after one-to-one operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..operations import Operation
from ..operations.runner import Runner
from ..samplers.protocol import VectorSampler
from ..sources import DataSource, fingerprint_of, reader_of
from ..sources.facts import facts_of, used_records
from ..sources.provenance import UsedRecord

Ints = NDArray[np.int64]

# The lengths of so many records take 2 GiB, and planning takes some minutes.
MOST_PLANNED = 1 << 28
"""Largest number of records, in all epochs, for which batches or rows are planned."""


class PlacedRecords(Protocol):
    """Interface of an object that reads records by epoch and place (index in the epoch).

    Attributes:
        reads_ahead: number of concurrent reads that make the source faster, as in `SourceFacts`.
    """

    reads_ahead: bool | int

    @property
    def fingerprint(self) -> dict[str, Any]: ...

    def records(self, epochs: Ints, places: Ints) -> Sequence[Any]:
        """Read n records in one call.

        Args:
            epochs: epoch of each record, `int64[n]`.
            places: place of each record (index in its epoch), `int64[n]`.
        """

    def keys(self, places: Ints) -> Ints:
        """Return the keys `int64[n]` of the records at n places (indices in the epoch).

        They are the keys that the user knows.
        """

    def name_of(self, place: int) -> str:
        """Return a name, for messages, of the record at a place (index) of the first epoch."""

    def place_of(self, key: int, count: int) -> int | None:
        """Return the place (index in the epoch) of the record with this key.

        Return None if no place below `count` has it.
        """

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]: ...


class SampledRecords:
    """Records of a source in the order of a sampler, after operations with one result per record.

    Args:
        source: source of the records.
        sampler: unsharded order. Places are indices in its first epoch; for packed rows, in all of
            its epochs.
        operations: operations before the batches.
    """

    def __init__(
        self, source: DataSource[Any], sampler: VectorSampler, operations: Sequence[Operation]
    ) -> None:
        self.source, self.operations = source, operations
        self._sampler = sampler
        self.reads_ahead = facts_of(source).reads_ahead
        self._run = Runner(operations)

    def __repr__(self) -> str:
        return repr(self.source)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the source."""
        return fingerprint_of(self.source)

    def keys(self, places: Ints) -> Ints:
        return self._sampler.record_keys(places)

    def name_of(self, place: int) -> str:
        return f"record {self.keys(np.array([place]))[0]}"

    def place_of(self, key: int, count: int) -> int | None:
        facts = self._sampler.facts
        if facts.same_records:
            place = self._sampler.position_of(key, 0) if key < (facts.records or 0) else None
            return place if place is not None and place < count else None
        found = np.flatnonzero(self.keys(np.arange(count, dtype=np.int64)) == key)
        return int(found[0]) if len(found) else None

    def made_of(self, epoch: int, place: int) -> Sequence[UsedRecord]:
        return used_records(self.source, int(self.keys(np.array([place]))[0]))

    def records(self, epochs: Ints, places: Ints) -> Sequence[Any]:
        """Read n records in one call, and run the operations on them.

        The random numbers of operations depend on the position in all epochs. If an operation
        fails, its exception has a note with the operation and the record key.

        Args:
            epochs: epoch of each record, `int64[n]`.
            places: place of each record (index in its epoch), `int64[n]`.
        """
        keys = self.keys(places)
        records = reader_of(self.source)(keys)
        if not self.operations:
            return records
        positions = epochs * self._sampler.epoch_length + places
        seeds = self._sampler.seeds(places)
        of_each = [self._sampler.seed or 0] * len(places) if seeds is None else seeds.tolist()
        each = zip(records, positions.tolist(), of_each, keys.tolist())
        return [
            self._run((record,), position, 0, seed, key)[0] for record, position, seed, key in each
        ]
