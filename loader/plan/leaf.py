"""A leaf of a pipeline: a source, the order in which it is read, and the shard of this process.

In: local positions (of this shard). Out: global positions (counted over all shards) and record
keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import RecordKeyError
from ...samplers import NoSharding, ShardOptions
from ...samplers.facts import OrderFacts
from ...samplers.protocol import ENDLESS, Int64s, VectorSampler
from ...sources.facts import SourceFacts, facts_of
from .lineage import ReshardHistory

if TYPE_CHECKING:
    from ...samplers.balance import Dealing
    from ...samplers.changing.growth import GrowthOptions


@dataclass(frozen=True)
class Leaf:
    """A source, and the order in which this process reads it.

    Attributes:
        source: maps record keys to records.
        sampler: maps positions to record keys.
        shard: the share of the positions that this process reads.
        lineage: history of earlier runs on other numbers of shards. It says which positions are
            still to be read.
        epoch: number of the first epoch.
        name: name for states and messages, if the pipeline has several leaves; else "".
        growth: when records that are appended during a run are added to the order; None if they are
            not.
        end: local position at which the order ended in an earlier run, of which this leaf only
            finishes a batch or window; None for other leaves, and if the order was endless.
    """

    source: Any
    sampler: VectorSampler
    shard: ShardOptions
    lineage: ReshardHistory = field(default_factory=ReshardHistory)
    epoch: int = 0
    name: str = ""
    growth: GrowthOptions | None = None
    end: int | None = None

    @cached_property
    def facts(self) -> OrderFacts:
        """Facts about the order that the loader must know in advance, such as its parts."""
        return self.sampler.facts

    @cached_property
    def source_facts(self) -> SourceFacts:
        """Facts about the source, such as whether it has random access.

        Facts that the source does not state have defaults.
        """
        return facts_of(self.source)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickling, without cached facts, which are computed again."""
        return {name: value for name, value in vars(self).items() if name != "source_facts"}

    @property
    def in_order(self) -> bool:
        """True if the source has no random access.

        It is then read in order from its beginning or a saved state.
        """
        return self.source_facts.in_order

    @property
    def endless(self) -> bool:
        """True if the order in which the source is read does not end."""
        return len(self.sampler) >= ENDLESS

    @property
    def plans_batches(self) -> bool:
        """True if the order consists of batches planned from known lengths (`BudgetBatch`).

        Such an order depends on the number of shards, and keeps its own history of shards of
        earlier runs.
        """
        return self.facts.shards == "planned"

    @cached_property
    def total(self) -> int:
        if self.plans_batches:
            total = self.shard.length(len(self.sampler))
        elif self.lineage.within_shard:
            total = self.lineage.length(self.shard.length(len(self.sampler)))
        else:
            order = self.sampler
            dealt_for = order.shard_options.shard_count
            others = self.lineage.orders or dealt_for != self.shard.shard_count
            if others and not self.lineage.order_shards:
                # Earlier runs read parts of one common order, or this is a shard of such a run.
                order = order.with_shard_options(NoSharding())
            total = self.shard.length(self.lineage.length(len(order)))
        return total if self.end is None else min(total, self.end)

    @cached_property
    def dealing(self) -> Dealing | None:
        """Object that exchanges positions so that shards get records of equal cost.

        It is None if records are not balanced.
        """
        blocks, balance = self.lineage.blocks, self.facts.balance
        if blocks is None or blocks.shards == 1 or balance is None:
            return None
        # its length depends on no `drop_remainder`
        whole = self.sampler.with_shard_options(NoSharding())
        from ...samplers.balance import Dealing

        return Dealing(balance, self.sampler.record_keys, len(whole), blocks)

    @property
    def block_size(self) -> int:
        """Number of this shard's positions for which one call of `positions` is most efficient."""
        if self.dealing is None or self.lineage.blocks is None:
            return self.facts.block_size
        return min(
            max(self.lineage.blocks.size // self.shard.shard_count, 1), self.facts.block_size
        )

    def left_from(self, local: int) -> int:
        """Return the number of this shard's positions from position `local` on; 0 after the end."""
        return max(self.total - local, 0)

    def epoch_of(self, local: int) -> int:
        """Return the epoch, from 0, of the record at a position of this shard.

        It is 0 for planned batches after the end.
        """
        if self.plans_batches:
            return (
                self.epoch + self.sampler.epoch_at(self.position(local))
                if self.left_from(local)
                else 0
            )
        return self.epoch + (self.sampler.epoch_at(self._place(local)) if self.total else 0)

    def positions(self, start: int, stop: int) -> Int64s:
        """Return the global positions (over all shards) at local positions `[start, stop)`."""
        return self.positions_of(np.arange(start, stop, dtype=np.int64))

    def positions_of(self, local: Int64s) -> Int64s:
        """Return the global positions (over all shards) at n local positions, in any order."""
        places = self.places_of(local)
        return places if self.dealing is None else self.dealing.positions(places)

    def places_of(self, local: Int64s) -> Int64s:
        """Return the places `int64[n]` at n local positions of this shard.

        A place is a global position (counted over all shards) in the order before records are
        balanced by cost. A later local position has a higher place, except after a run on another
        number of shards.
        """
        if self.plans_batches:
            first: int = self.sampler.first_position  # type: ignore[attr-defined]
            return self.shard.global_positions(local) + first
        if self.lineage.within_shard:
            return self.shard.global_positions(self.lineage.positions(local))
        return self.lineage.positions(self.shard.global_positions(local))

    def _place(self, local: int) -> int:
        return int(self.places_of(np.array([local], dtype=np.int64))[0])

    def position(self, local: int) -> int:
        return int(self.positions(local, local + 1)[0])

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at n global positions (counted over all shards).

        Raises:
            RecordKeyError: the sampler returned a key that the source does not have.
        """
        keys = self.sampler.record_keys(positions)
        count = len(self.source)
        if len(keys) and not (keys.min() >= 0 and keys.max() < count):
            wrong = keys[(keys < 0) | (keys >= count)][0]
            raise RecordKeyError(
                f"the sampler returned record key {wrong}, outside of [0, {count}), the keys of "
                "the source. Make the sampler for len(source) records."
            )
        return keys

    @property
    def has_parts(self) -> bool:
        """True if the source is a mix of sources."""
        from ...sources.mixed.source import MixedSource  # workers without a mix start sooner

        return isinstance(self.source, MixedSource)

    def part_epochs(self, local: int) -> dict[str, int]:
        """Return the epoch of each part of a mix, by part name, at a position of this shard.

        All epochs are 0 if this shard has no records.

        Raises:
            AttributeError: the source is not a mix.
        """
        if not self.facts.parts:
            raise AttributeError(
                "part_epochs is for mixes, loaders with a MixSampler; here, iterator.epoch tells "
                "the epoch."
            )
        return (
            self.sampler.part_epochs(self._place(local))
            if self.total
            else dict.fromkeys(self.facts.parts, 0)
        )

    def part_records(self, local: int) -> dict[str, int]:
        """Return how many records each part of a mix has, by name, before a position of this shard.

        Records of all shards count, in the order of the stream, up to and including this shard's
        last record before the position.

        Raises:
            AttributeError: the source is not a mix.
        """
        if not self.facts.parts:
            raise AttributeError(
                "part_records exists only for a mix, such as a loader with a MixSampler. Use "
                "iterator.stats() for the number of records."
            )
        return self.sampler.part_records(self.before(local))

    def before(self, local: int) -> int:
        """Return how many records of all shards come before a local position of this shard.

        They are the records of the stream up to and including this shard's last record before the
        position.
        """
        return self._place(local - 1) + 1 if local > 0 else 0
