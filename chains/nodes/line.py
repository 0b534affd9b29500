"""A line: the part of a chain that the engine of `DataLoader` runs itself.

It consists of a source, an order of the source's records, and operations on the records. Nodes that
do not fit are evaluated as a whole, as a source.

In: nodes, from the source upwards. Out: a source, an order and operations, as `Read` and `Apply` of the plan.

    source.shuffle().map(f).batch(8)             all of it: source, order [shuffle], operations [f, Batch(8)]
    source.map(f).filter(p).shuffle().repeat()   all of it: maps and filters do not depend on the order;
                                                 order [shuffle, repeat], operations [f, p]
    source.random_map(f).shuffle().map(g)        f depends on the index before the shuffle; so
                                                 source.random_map(f) is evaluated as a whole, as a source;
                                                 order [shuffle], operations [g]
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ...loader.plan.joins import Apply, Read
from ...loader.plan.leaf import Leaf
from ...loader.plan.stages import unit_of
from ...operations import Operation
from ...samplers import ShardOptions
from ...samplers.balance import Balance
from ...samplers.chain_order import ChainOrder
from ...samplers.index_maps import IndexMap, Repeat, Slice
from ...samplers.protocol import VectorSampler


@dataclass(frozen=True)
class Line:
    """A source, an order of its records, and operations on the records."""

    source: Any  # of records
    records: int | None  # number of them; None for a source that takes indices past its end
    length: int  # number of positions
    epoch_length: int  # positions until all records come again
    maps: tuple[IndexMap, ...] = ()  # from positions to record keys, from the top to the bottom
    operations: tuple[Operation, ...] = ()  # from the bottom to the top
    # the operations do not depend on positions, so that reordering what they gave is the same as reordering what they get
    moves_freely: bool = True
    keeps_positions: bool = True  # what they give stands at the positions of what they get
    batches: bool = False  # one of them is a batch
    may_be_none: bool = False  # records may be None, for what was left out
    # the order, where `maps` is all there is to it, by a sampler that knows more about it
    alone: VectorSampler | None = None

    def reordered(self, index_map: IndexMap) -> Line | None:
        """Return the line in another order; None if its operations depend on the order."""
        if index_map.keeps_indices:
            assert isinstance(index_map, Repeat), "no other map does so"
            return self._repeated(index_map.epochs)
        return self.under(index_map) if self.moves_freely else None

    def _repeated(self, epochs: int | None) -> Line | None:
        """Return the line repeated for several epochs.

        The result is None if a batch would cross the end of an epoch. But if batches drop their
        remainder, and no operation reads positions, the remainder is removed from the order, and
        the line is repeated.
        """
        rest = self.length % unit_of(self.operations)
        if rest and any(each.reads_position or (each.takes and not each.drops_remainder) for each in self.operations):
            return None
        whole = self.under(Slice(self.length, 0, 1, self.length - rest)) if rest else self
        return whole.under(Repeat(whole.length, epochs))

    def under(self, index_map: IndexMap) -> Line:
        """Return the line with another order of its records and the same operations."""
        return dataclasses.replace(
            self,
            length=index_map.length,
            epoch_length=index_map.epoch_length or self.epoch_length,
            maps=(index_map, *self.maps),
            alone=None,
        )

    def then(self, operation: Operation, moves_freely: bool, keeps_positions: bool = True) -> Line:
        """Return the line with one more operation.

        Args:
            operation: the operation.
            moves_freely: True if the operation gives the same elements in any order.
            keeps_positions: True if its results have the positions of its inputs.
        """
        return dataclasses.replace(
            self,
            operations=(*self.operations, operation),
            moves_freely=self.moves_freely and moves_freely,
            keeps_positions=self.keeps_positions and keeps_positions,
            batches=self.batches or operation.takes is not None,
        )

    def tree(self, shard: ShardOptions, first: tuple[Operation, ...], balance: Balance | None = None) -> Apply:
        """Return the line as nodes of the plan.

        `first` are operations that run before all others.
        """
        order = self.alone or self.order if balance is None else dataclasses.replace(self.order, balance=balance)
        return Apply(Read(Leaf(self.source, order.with_shard_options(shard), shard)), (*first, *self.operations))

    @property
    def order(self) -> ChainOrder:
        return ChainOrder(self.maps, self.length, self.epoch_length, self.records)
