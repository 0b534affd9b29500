"""A source whose elements are rows of packed documents, planned from their lengths.

The documents are the records of another source.

In: indices of rows. Out: the rows at these indices. All documents of the rows of a call are read in one call, and each
of them once; a document that is divided among several rows may be read again in another call.
"""

from __future__ import annotations

import dataclasses
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....common.messages import first_few
from ....operations import Pack
from ....operations.packing.pieces import end_to_end
from ....operations.packing.plan import PackPlan
from ....sources.facts import SourceFacts, facts_of
from ....sources.provenance import TokenSpan, UsedRecord
from ..budget.placed_records import SampledRecords

Ints = NDArray[np.int64]


class PackedSource:
    """Source that returns planned rows of packed documents; the key of a row is its index.

    Args:
        records: documents, by their position in the order of all epochs.
        operation: the `Pack`, which makes a row from documents.
        plan: plan of the rows, made from the lengths of the documents at all positions.
    """

    def __init__(self, records: SampledRecords, operation: Pack, plan: PackPlan) -> None:
        self.records, self.operation, self.plan = records, operation, plan

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            reads_ahead=self.records.reads_ahead,
            made_of=self.made_of,
            describe_key=self.describe_key,
            planned=True,
            records_of=self.records_of,
            records_each=self._records_each,
            record_count=len(self.records.source),
        )

    def __len__(self) -> int:
        return self.plan.rows

    def __repr__(self) -> str:
        return f"packed rows of {self.records!r}"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the source of the documents. The rows are identified by the fingerprint of their order."""
        return self.records.fingerprint

    def _records_each(self) -> int:
        """Return the mean number of documents in a row, at least 1."""
        return max(-(-self.plan.documents // max(self.plan.rows, 1)), 1)

    def __getitem__(self, key: int) -> Any:
        return self.__getitems__(np.array([key], dtype=np.int64))[0]

    def __getitems__(self, keys: Ints) -> list[Any]:
        """Return the rows with these indices."""
        if not len(keys):
            return []
        pieces = end_to_end([self.plan.row(row) for row in keys.tolist()])
        positions, which = np.unique(pieces.documents, return_inverse=True)
        documents = self.records.records(np.zeros_like(positions), positions)
        named = dataclasses.replace(pieces, documents=self.records.keys(pieces.documents))
        return self.operation.planned([documents[number] for number in which.tolist()], named)

    def positions_in(self, row: int) -> Ints:
        """Return the positions, in the order of all epochs, of the documents in a row, each document once."""
        return np.array(list(dict.fromkeys(self.plan.row(row).documents.tolist())), np.int64)

    def records_of(self, keys: Ints) -> Any:
        """Return the keys of the records in rows, one row after another; for a mix, by part."""
        found = [self.records.keys(self.positions_in(row)) for row in keys.tolist()]
        together = np.concatenate(found) if found else np.empty(0, np.int64)
        return facts_of(self.records.source).records_of(together)

    def describe_key(self, key: int) -> str:
        """Return the keys of the records in a row as text for messages."""
        describe = facts_of(self.records.source).describe_key
        return first_few(list(map(describe, self.records.keys(self.positions_in(key)).tolist())))

    def made_of(self, key: int) -> list[UsedRecord]:
        """Return the records in a row, each with the number of its segment and its range of tokens."""
        pieces = self.plan.row(key)
        spans = enumerate(zip(pieces.documents.tolist(), pieces.spans), start=1)
        return [
            used._replace(segment=segment, tokens=tuple(starmap(TokenSpan, tokens)))
            for segment, (position, tokens) in spans
            for used in self.records.made_of(0, position)
        ]
