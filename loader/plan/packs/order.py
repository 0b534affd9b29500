"""The order of packed rows that are planned from the lengths of documents, as a sampler: position → index of the row.

In: positions of a run. Out: indices of rows, in order. The rows of a global batch are divided
among the shards so that their costs are about equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....samplers import NoSharding, ShardOptions
from ....samplers.balance import Balance
from ....samplers.protocol import OrderFacts, VectorSampler
from .source import PackedSource

Ints = NDArray[np.int64]

ROWS_SEED = 1 << 63
"""Added to the seed, so that random operations on rows draw other numbers than those on documents."""


@dataclass(frozen=True, eq=False)
class PackedOrder(VectorSampler):
    """Sampler that gives all planned rows of packed documents, one after the other.

    Attributes:
        source: source of the rows.
        documents: order of the documents of all shards.
        balance: how rows are divided among shards, with the cost of each row.
        identity: plain values that identify the order; for an order of one epoch, with the number of
            that epoch.
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
        """Number of rows of all epochs. They count as one epoch, because a row may have documents of two epochs."""
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
        """Return the epoch of the first document in the row at a position; after the end, the number of epochs."""
        if position >= len(self.source):
            return self.epoch_count
        return int(self.source.positions_in(position).min()) // self.documents.epoch_length

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the position of the first row with a record as it is read in an epoch; None if no row contains it."""
        length = self.documents.epoch_length
        positions = np.arange(epoch * length, min((epoch + 1) * length, len(self.documents)), dtype=np.int64)
        rows = (
            self.source.plan.row_of(one)
            for one in positions[self.source.records.keys(positions) == record_key].tolist()
        )
        return min((row for row in rows if row is not None), default=None)
