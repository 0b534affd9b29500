"""The order of a chain of dataset methods (shuffle, slice, repeat, …) as a sampler.

In: positions of the global order. Out: record keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...common.identity.values import digest
from ..balance import Balance
from ..facts import OrderFacts
from ..index import IndexSampler
from ..permutation import MAX_SIZE, unpermute
from ..protocol import ENDLESS, Int64s, VectorSampler
from ..sharding import NoSharding, ShardOptions
from .index_maps import IndexMap, Repeat, Shuffle

MAX_BLOCK, MAX_EPOCHS = 16384, 32
"""Maximal numbers of positions and of epochs whose record keys are computed together."""


@dataclass(frozen=True)
class ChainOrder(VectorSampler):
    """A sampler whose order is given by index maps, applied one after another.

    An index map converts an index of a dataset to an index of the dataset from which it was made,
    e.g. by a shuffle. A position is an index of the last dataset of the chain. All shards together
    read all positions.

    Attributes:
        maps: the index maps, from the last dataset of the chain to the source.
        length: number of positions of all shards together.
        epoch_length: number of positions after which all records come again.
        records: number of records of the source; None for a source that accepts indices past its
            end.
        shard_options: the shard of this process.
        balance: a `Balance` that divides the records of each global batch among the shards by cost;
            None (default): shards read in turn.
    """

    maps: Sequence[IndexMap]
    length: int
    epoch_length: int
    records: int | None
    shard_options: ShardOptions = field(default_factory=NoSharding)
    balance: Balance | None = None

    # Random operations of a chain have seeds of their own.
    seed: None = field(default=None, init=False)

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(
            # Some maps do work for each epoch, so a block has few epochs.
            block_size=min(MAX_BLOCK, MAX_EPOCHS * max(self.epoch_length, 1)),
            records=self.epoch_length,
            balance=self.balance,
            has_later_epochs=True,
            can_change=True,
        )

    def __len__(self) -> int:
        return self.of_equal_shards(self.length)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order, as JSON values.

        If an `IndexSampler` has the same order, this is the fingerprint of the `IndexSampler`. Then
        a run of the chain can resume after records were appended.
        """
        if (by_epochs := self.by_epochs()) is not None:
            return by_epochs.fingerprint
        maps = [each.parameters for each in self.maps]
        selections = [selection for each in self.maps for selection in each.selections]
        later: dict[str, Any] = {"selections": digest(selections, 12)} if selections else {}
        if self.balance is not None:
            later["balance"] = self.balance.fingerprint
        return {
            "kind": "ChainOrder",
            "length": self.length,
            "maps": maps,
            "records": self.epoch_length,
            **later,
        }

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at global positions `int64[n]`."""
        for each in self.maps:
            positions = each.many(positions)
        return positions if self.records is None else positions % self.records

    def by_epochs(self) -> IndexSampler | None:
        """Return the same order as an `IndexSampler`, or None if no `IndexSampler` has this order.

        Unlike this sampler, an `IndexSampler` can be given another number of records. It has the
        same order only if the chain is at most one `repeat()` after at most one `shuffle()` of all
        records, and both give each epoch another order. The result is also None if this order has a
        balance, or if the number of records is unknown, 0 or too large.
        """
        epochs: int | None = 1
        seed: int | None = None
        maps = [*self.maps]
        if maps and isinstance(top := maps[0], Repeat) and top.reseeds:
            epochs, maps = top.epochs, maps[1:]
        if (
            maps
            and isinstance(top := maps[0], Shuffle)
            and top.reseeds
            and top.length == self.records
        ):
            seed, maps = top.seed, maps[1:]
        if maps or not self.records or self.records > MAX_SIZE or self.balance is not None:
            return None
        return IndexSampler(self.records, self.shard_options, seed is not None, epochs, seed)

    joining: ClassVar[bool] = False

    def resized(self, records: int) -> ChainOrder:
        """Return this order, after checking that records can be omitted from it.

        Args:
            records: number of records of the source.

        Raises:
            ValueError: if the order is not made by `shuffle()` and `repeat()` alone, or `records`
                is not the number of records for which the order was made.
        """
        whole = all(
            (isinstance(each, Repeat) and each.below == records)
            or (isinstance(each, Shuffle) and each.length == records)
            for each in self.maps
        )
        if not whole or records != self.records:
            raise ValueError(
                "records can be omitted only if no method other than shuffle() and repeat() has "
                "changed the order of the dataset. Call omit() before slices, splits and other "
                "methods that change the order."
            )
        return self

    def places_of(self, record_keys: Int64s, epoch: int) -> Int64s:
        """Return the index within an epoch, from 0, at which each record is read.

        The order must be made by `shuffle()` and `repeat()` alone; this is not checked.

        Args:
            record_keys: `int64[n]`, the records.
            epoch: number of the epoch, from 0.

        Returns:
            `int64[n]`.
        """
        epochs = []  # by map, from the top to the bottom
        for each in self.maps:
            epoch = epoch if not isinstance(each, Repeat) or each.reseeds else 0
            epochs.append(epoch)
        for each, own in zip(reversed(self.maps), reversed(epochs)):
            if isinstance(each, Shuffle):
                number = np.full(len(record_keys), own if each.reseeds else 0, dtype=np.int64)
                record_keys = unpermute(record_keys, number, each.length, each.seed)
        return record_keys

    def over(self, epochs: int | None) -> ChainOrder:
        """Return this order repeated `epochs` times; endless if `epochs` is None."""
        return dataclasses.replace(
            self, length=ENDLESS if epochs is None else self.length_over(epochs)
        )

    def length_over(self, epochs: int) -> int:
        """Return `epochs` times the number of positions of the order, at most `sys.maxsize`."""
        return min(self.length * epochs, ENDLESS)
