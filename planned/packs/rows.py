"""Rows of packed documents that are planned from lengths: a source of the rows, and their order.

In: positions, or indices of rows. Out: the rows, in which each document is one record of another
source. All documents of the rows of a call are read in one call, and each of them once; a document
that is divided among several rows may be read again in another call. The rows of a global batch are
divided among the shards so that their costs are about equal.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few
from ...operations import Pack
from ...operations.packing.pieces import end_to_end
from ...operations.packing.plan import PackPlan
from ...samplers import NoSharding, ShardOptions
from ...samplers.balance import Balance
from ...samplers.facts import OrderFacts
from ...samplers.one_epoch import OneEpoch
from ...samplers.protocol import VectorSampler
from ...sources.facts import SourceFacts, facts_of
from ...sources.provenance import TokenSpan, UsedRecord
from ..protocol import PlannedSource
from ..records import SampledRecords

Ints = NDArray[np.int64]

ROWS_SEED = 1 << 63
"""Added to the seed, so that random operations on rows draw other numbers than on documents."""


class PackedSource(PlannedSource):
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
        """The fingerprint of the source of the documents.

        The rows are identified by the fingerprint of their order.
        """
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
        """Return the positions, in the order of all epochs, of a row's documents, each once."""
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
        """Return the records in a row, each with its segment's number and its range of tokens."""
        pieces = self.plan.row(key)
        spans = enumerate(zip(pieces.documents.tolist(), pieces.spans), start=1)
        return [
            used._replace(segment=segment, tokens=tuple(starmap(TokenSpan, tokens)))
            for segment, (position, tokens) in spans
            for used in self.records.made_of(0, position)
        ]

    def of_epoch(self, order: PackedOrder, epoch: int) -> tuple[PackedSource, PackedOrder]:
        """Return a source of rows that have only documents of one epoch, and their order."""
        documents = OneEpoch(order.documents, epoch)
        records = SampledRecords(self.records.source, documents, self.records.operations)
        rows, of_epoch = packed(records, self.operation, documents, documents.facts.balance)
        identity = {**order.identity, "epoch": epoch}
        return rows, dataclasses.replace(
            of_epoch, identity=identity, shard_options=order.shard_options
        )


@dataclass(frozen=True, eq=False)
class PackedOrder(VectorSampler):
    """Sampler that gives all planned rows of packed documents, one after the other.

    Attributes:
        source: source of the rows.
        documents: order of the documents of all shards.
        balance: how rows are divided among shards, with the cost of each row.
        identity: plain values that identify the order; for an order of one epoch, with the number
            of that epoch.
        shard_options: shard of the run.
    """

    source: PackedSource
    documents: VectorSampler
    balance: Balance
    identity: dict[str, Any] = field(default_factory=dict)
    shard_options: ShardOptions = field(default_factory=NoSharding)

    @property
    def facts(self) -> OrderFacts:
        """Facts about the order for the loader."""
        return OrderFacts(block_size=4096, balance=self.balance)

    def __repr__(self) -> str:
        return f"PackedOrder({len(self.source)} rows, documents={self.documents!r})"

    def __len__(self) -> int:
        return self.of_equal_shards(len(self.source))

    @property
    def epoch_length(self) -> int:
        """Number of rows of all epochs.

        They count as one epoch, because a row may have documents of two epochs.
        """
        return len(self.source)

    @property
    def epoch_count(self) -> int:
        """Number of epochs of the documents."""
        return -(-len(self.documents) // max(self.documents.epoch_length, 1))

    @property
    def seed(self) -> int | None:
        """Seed of random operations on rows; None if the order of the documents has no seed."""
        return None if self.documents.seed is None else self.documents.seed + ROWS_SEED

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The plain values that identify the order."""
        return self.identity

    def record_keys(self, positions: Ints) -> Ints:
        """Return the indices of the rows at positions, which are the positions themselves."""
        return positions

    def epoch_at(self, position: int) -> int:
        """Return the epoch of the first document in the row at a position.

        After the end, the number of epochs.
        """
        if position >= len(self.source):
            return self.epoch_count
        return int(self.source.positions_in(position).min()) // self.documents.epoch_length

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the position of the first row with a record as it is read in an epoch.

        Return None if no row contains it.
        """
        length = self.documents.epoch_length
        positions = np.arange(
            epoch * length, min((epoch + 1) * length, len(self.documents)), dtype=np.int64
        )
        rows = (
            self.source.plan.row_of(one)
            for one in positions[self.source.records.keys(positions) == record_key].tolist()
        )
        return min((row for row in rows if row is not None), default=None)


def packed(
    records: SampledRecords, operation: Pack, documents: VectorSampler, balance: Balance
) -> tuple[PackedSource, PackedOrder]:
    """Return a source of packed rows, and their order.

    Args:
        records: the documents, by their position in the order of all epochs.
        operation: the `Pack`.
        documents: the order of the documents, without shards.
        balance: lengths of the documents, and how rows are divided among shards.
    """
    lengths = balance.lengths[records.keys(np.arange(len(documents), dtype=np.int64))]
    plan = operation.plan(lengths)
    rows = PackedSource(records, operation, plan)
    return rows, PackedOrder(rows, documents, balance.of_costs(plan.costs(balance.cost)))
