"""The order of rows that are planned from the lengths of documents, as a sampler: position → number of the row.

In: positions of a run. Out: rows, which come in their order; a balance deals those of a global batch to the shards.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....samplers import NoSharding, ShardOptions
from ....samplers.balance import Balance
from ....samplers.protocol import VectorSampler
from .source import PackedSource

Ints = NDArray[np.int64]

ROWS_SEED = 1 << 63
"""Parts the random operations on rows from those on documents."""


@dataclass(frozen=True, eq=False)
class PackedOrder:
    """All rows, one after the other.

    Attributes:
        source: of the rows.
        documents: the order of the documents, of all shards.
        balance: with the costs of rows.
        identity: plain values that decide it; those of all epochs, and which one it is of.
        shard_options: of the run.
    """

    source: PackedSource
    documents: VectorSampler
    balance: Balance
    identity: dict[str, Any] = field(default_factory=dict)
    shard_options: ShardOptions = field(default_factory=NoSharding)

    block_size = 4096

    def __repr__(self) -> str:
        return f"PackedOrder({len(self.source)} rows, documents={self.documents!r})"

    def __len__(self) -> int:
        rows, shards = len(self.source), self.shard_options.shard_count
        return rows // shards * shards if self.shard_options.drop_remainder else rows

    @property
    def epoch_length(self) -> int:
        """Rows of all epochs: a row may hold documents of two."""
        return len(self.source)

    @property
    def epoch_count(self) -> int:
        """Epochs of the documents."""
        return -(-len(self.documents) // max(self.documents.epoch_length, 1))

    @property
    def seed(self) -> int | None:
        """The seed of random operations on rows."""
        return None if self.documents.seed is None else self.documents.seed + ROWS_SEED

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the order."""
        return self.identity

    def record_keys(self, positions: Ints) -> Ints:
        """The rows at positions."""
        return positions

    def seeds(self, positions: Ints) -> None:
        """No position has a seed of its own."""

    def with_shard_options(self, shard_options: ShardOptions) -> PackedOrder:
        """The same order, read by another shard."""
        return dataclasses.replace(self, shard_options=shard_options)

    def epoch_at(self, position: int) -> int:
        """The epoch of the first document of the row at a position; after the end, the number of epochs."""
        if position >= len(self.source):
            return self.epoch_count
        return int(self.source.positions_in(position).min()) // self.documents.epoch_length

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """The position of the first row with a document of an epoch; None: it is in none."""
        length = self.documents.epoch_length
        positions = np.arange(epoch * length, min((epoch + 1) * length, len(self.documents)), dtype=np.int64)
        rows = (
            self.source.plan.row_of(one)
            for one in positions[self.source.records.keys(positions) == record_key].tolist()
        )
        return min((row for row in rows if row is not None), default=None)
