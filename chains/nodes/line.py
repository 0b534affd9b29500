"""A line: a chain of dataset methods as the engine of `DataLoader` runs it.

A line consists of a source, an order of the source's records, and operations on the records. The
engine reads the records and runs the operations itself, without calling nodes. If the engine cannot
run a node in this way, the node becomes the source of the line, and the engine asks the node for
elements.

In: nodes, from the source upwards. Out: a source, an order and operations, as `Read` and `Apply` of
the plan.

    source.shuffle().map(f).batch(8)
        all of it: source, order [shuffle], operations [f, Batch(8)]
    source.map(f).filter(p).shuffle().repeat()
        all of it, because maps and filters do not depend on the order: order [shuffle, repeat],
        operations [f, p]
    source.random_map(f).shuffle().map(g)
        f depends on the index before the shuffle. So source.random_map(f) becomes the source of
        the line; order [shuffle], operations [g]
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
from ...samplers.chain.index_maps import IndexMap, Repeat, Slice
from ...samplers.chain.order import ChainOrder
from ...samplers.protocol import VectorSampler


@dataclass(frozen=True)
class Line:
    """A source, an order of its records, and operations on them; the engine runs it directly.

    Attributes:
        source: source of the records.
        records: number of records; None for a source that accepts indices past its end.
        length: number of positions of the order.
        epoch_length: number of positions in an epoch, after which all records are read again.
        maps: index maps that together convert a position to a record key; the one that is applied
            first comes first.
        operations: operations on the records, in the order in which they run.
        moves_freely: True if no operation depends on positions, so that the operations give the
            same results before and after a reordering.
        keeps_positions: True if each result has the position of the record from which it is made.
        batches: True if one of the operations takes several elements, as a batch does.
        may_be_none: True if a record may be None, because an element was dropped.
        alone: a sampler that gives the order in place of `maps`; None if `maps` give it.
    """

    source: Any
    records: int | None
    length: int
    epoch_length: int
    maps: tuple[IndexMap, ...] = ()
    operations: tuple[Operation, ...] = ()
    moves_freely: bool = True
    keeps_positions: bool = True
    batches: bool = False
    may_be_none: bool = False
    alone: VectorSampler | None = None

    def reordered(self, index_map: IndexMap) -> Line | None:
        """Return this `Line` (source, order, operations) with its results in another order.

        Return None if this is impossible: if an operation depends on positions, and the map changes
        positions. A `Repeat` that continues with the next epochs (`keeps_indices`) does not change
        positions; it is impossible only if a batch would cross the end of an epoch.

        Args:
            index_map: converts an index among the reordered results to an index among the results
                of this `Line`.
        """
        if index_map.keeps_indices:
            assert isinstance(index_map, Repeat), "no other map does so"
            return self._repeated(index_map.epochs)
        return self.under(index_map) if self.moves_freely else None

    def _repeated(self, epochs: int | None) -> Line | None:
        """Return this `Line` (source, order, operations) repeated for several epochs.

        If the last batch of an epoch is not full, there are two cases. If batches drop their
        remainder, and no operation uses positions, the records of the remainder are removed from
        the order. Otherwise the result is None, because a batch would cross the end of the epoch.

        Args:
            epochs: number of epochs; None for no end.
        """
        rest = self.length % unit_of(self.operations)
        if rest and any(
            each.reads_position or (each.takes and not each.drops_remainder)
            for each in self.operations
        ):
            return None
        whole = self.under(Slice(self.length, 0, 1, self.length - rest)) if rest else self
        return whole.under(Repeat(whole.length, epochs))

    def under(self, index_map: IndexMap) -> Line:
        """Return a `Line` with the same source and operations, whose records come in another order.

        Args:
            index_map: converts positions of the new `Line` to positions of this `Line`.
        """
        return dataclasses.replace(
            self,
            length=index_map.length,
            epoch_length=index_map.epoch_length or self.epoch_length,
            maps=(index_map, *self.maps),
            alone=None,
        )

    def then(self, operation: Operation, moves_freely: bool, keeps_positions: bool = True) -> Line:
        """Return this `Line` (source, order, operations) with one more operation.

        Args:
            operation: the operation, which runs last.
            moves_freely: True if the operation does not depend on positions.
            keeps_positions: True if the operation's results have the positions of its inputs.
        """
        return dataclasses.replace(
            self,
            operations=(*self.operations, operation),
            moves_freely=self.moves_freely and moves_freely,
            keeps_positions=self.keeps_positions and keeps_positions,
            batches=self.batches or operation.takes is not None,
        )

    def tree(
        self, shard: ShardOptions, first: tuple[Operation, ...], balance: Balance | None = None
    ) -> Apply:
        """Return the tree that the engine runs: read the source in its order, apply operations.

        Args:
            shard: the shard of this process.
            first: operations that run before the operations of this `Line`.
            balance: divides the records of each global batch among shards by cost; None: shards
                take records in turn.
        """
        order = (
            self.alone or self.order
            if balance is None
            else dataclasses.replace(self.order, balance=balance)
        )
        return Apply(
            Read(Leaf(self.source, order.with_shard_options(shard), shard)),
            (*first, *self.operations),
        )

    @property
    def order(self) -> ChainOrder:
        return ChainOrder(self.maps, self.length, self.epoch_length, self.records)
