"""A source whose records are rows of packed documents that were planned from lengths, of records of another source.

In: numbers of rows. Out: rows; all their documents are read in one call, each once.
"""

from __future__ import annotations

import dataclasses
from itertools import starmap
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....common.messages import first_few
from ....operations import Pack
from ....operations.packing.pieces import end_to_end
from ....operations.packing.plan import PackPlan
from ....sources.mixed.source import MixedSource
from ....sources.provenance import TokenSpan, UsedRecord
from ..placed_records import SampledRecords

Ints = NDArray[np.int64]


class PackedSource:
    """Rows by number.

    Args:
        records: the documents, by their position in the order of all epochs.
        operation: how they are packed.
        plan: of the lengths of the documents at all positions.
    """

    array_keys: ClassVar[bool] = True
    reads_singly: ClassVar[bool] = False

    def __init__(self, records: SampledRecords, operation: Pack, plan: PackPlan) -> None:
        self.records, self.operation, self.plan = records, operation, plan
        self.reads_ahead = records.reads_ahead

    def __len__(self) -> int:
        return self.plan.rows

    def __repr__(self) -> str:
        return f"packed rows of {self.records!r}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The identity of the records: the order tells the rows."""
        return self.records.fingerprint

    @property
    def records_each(self) -> int:
        """Documents of a row, on average."""
        return max(-(-self.plan.documents // max(self.plan.rows, 1)), 1)

    @property
    def record_count(self) -> int:
        """The number of records of the source that documents are made of."""
        return len(self.records.source)

    def __getitem__(self, key: int) -> Any:
        return self.__getitems__(np.array([key], dtype=np.int64))[0]

    def __getitems__(self, keys: Ints) -> list[Any]:
        """The rows with these numbers."""
        if not len(keys):
            return []
        pieces = end_to_end([self.plan.row(row) for row in keys.tolist()])
        positions, which = np.unique(pieces.documents, return_inverse=True)
        documents = self.records.records(np.zeros_like(positions), positions)
        named = dataclasses.replace(pieces, documents=self.records.keys(pieces.documents))
        return self.operation.planned([documents[number] for number in which.tolist()], named)

    def positions_in(self, row: int) -> Ints:
        """The positions of the documents in a row, each once."""
        return np.array(list(dict.fromkeys(self.plan.row(row).documents.tolist())), np.int64)

    def records_of(self, keys: Ints) -> Any:
        """The keys of the records in rows; of a mix by part."""
        found = [self.records.keys(self.positions_in(row)) for row in keys.tolist()]
        together = np.concatenate(found) if found else np.empty(0, np.int64)
        source = self.records.source
        return source.by_part(together) if isinstance(source, MixedSource) else together

    def told(self, key: int) -> str:
        """The records in a row, as messages say them."""
        source, keys = self.records.source, self.records.keys(self.positions_in(key)).tolist()
        return first_few([source.told(one) if isinstance(source, MixedSource) else one for one in keys])

    def made_of(self, key: int) -> list[UsedRecord]:
        """The records in a row, with their segments."""
        pieces = self.plan.row(key)
        spans = enumerate(zip(pieces.documents.tolist(), pieces.spans), start=1)
        return [
            used.placed(segment=segment, tokens=tuple(starmap(TokenSpan, tokens)))
            for segment, (position, tokens) in spans
            for used in self.records.made_of(0, position)
        ]
