"""A leaf: where the records of a stage come from. A source, the order in which it is read, and this process's part of that.

In: local positions. Out: global positions and record keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import RecordKeyError
from ...samplers import NoSharding, ShardOptions
from ...samplers.protocol import ENDLESS, VectorSampler
from .lineage import ReshardHistory

if TYPE_CHECKING:
    from ...samplers.balance import Dealing
    from ...samplers.changing.growth import GrowthOptions
    from ...samplers.mix.sampler import MixSampler


@dataclass(frozen=True)
class Leaf:
    """A source read in an order."""

    source: Any  # record keys to records
    sampler: VectorSampler  # positions to record keys
    shard: ShardOptions  # which positions are this process's
    lineage: ReshardHistory = field(default_factory=ReshardHistory)  # what former runs left of the order
    epoch: int = 0  # the number of the first one
    name: str = ""  # where there are several leaves, for states and messages
    growth: GrowthOptions | None = None  # when records that are appended come in; None: never while it is read

    @property
    def in_order(self) -> bool:
        """The source can only be run through, from its beginning or from a state of its own."""
        return bool(getattr(self.source, "in_order", False))

    @property
    def endless(self) -> bool:
        return len(self.sampler) >= ENDLESS

    @property
    def plans_batches(self) -> bool:
        """The order depends on the number of shards, and keeps the history of the runs itself: that of planned batches."""
        return hasattr(self.sampler, "layers_after")

    @property
    def of_several(self) -> bool:
        """Each key is of something made of several records, as was planned from their lengths."""
        return hasattr(self.source, "records_of")

    @property
    def record_count(self) -> int:
        """The number of records, of those that rows are made of."""
        return int(getattr(self.source, "record_count", len(self.source)))

    @property
    def epochs(self) -> int | None:
        """The number of epochs; None: it never ends."""
        known = getattr(self.sampler, "epoch_count", None)
        if self.endless or known is not None:
            return known
        return -(-len(self.sampler) // self.epoch_length)

    @cached_property
    def total(self) -> int:
        if self.plans_batches:
            return self.shard.length(len(self.sampler))
        if self.lineage.within_shard:
            return self.lineage.length(self.shard.length(len(self.sampler)))
        return self.shard.length(self.lineage.length(len(self.sampler)))

    @cached_property
    def dealing(self) -> Dealing | None:
        """The order of a run whose shards get records of equal cost; None: it is that of the sampler."""
        blocks, balance = self.lineage.blocks, getattr(self.sampler, "balance", None)
        if blocks is None or blocks.shards == 1 or balance is None:
            return None
        whole = self.sampler.with_shard_options(NoSharding())  # its length depends on no `drop_remainder`
        from ...samplers.balance import Dealing

        return Dealing(balance, self.sampler.record_keys, len(whole), blocks)

    @property
    def block_size(self) -> int:
        """Local positions to ask for at a time, where there is a choice: those of a block that is dealt to the shards."""
        if self.dealing is None or self.lineage.blocks is None:
            return self.sampler.block_size
        return min(max(self.lineage.blocks.size // self.shard.shard_count, 1), self.sampler.block_size)

    @property
    def records_each(self) -> int:
        """Records of a key, on average: one, but for what is planned of several."""
        return int(getattr(self.source, "records_each", 1))

    def left_from(self, local: int) -> int:
        """Number of local positions from one on: none after the end."""
        return max(self.total - local, 0)

    @cached_property
    def epoch_length(self) -> int:
        """Global positions in an epoch; for an endless sampler of a user's, the records of the source."""
        return min(self.sampler.epoch_length, len(self.source)) if self.endless else self.sampler.epoch_length

    @property
    def epoch_stride(self) -> int:
        """Global positions from the beginning of an epoch to that of the next."""
        return int(getattr(self.sampler, "epoch_stride", self.epoch_length))

    def epoch_of(self, local: int) -> int:
        """The epoch, from 0, of the record at a local position."""
        at = getattr(self.sampler, "epoch_at", None)
        if self.plans_batches:
            return at(self.position(local)) if at is not None and self.left_from(local) else 0
        if at is not None:
            return self.epoch + int(at(self._place(local)))
        return self.epoch + (self._place(local) // self.epoch_stride if self.total else 0)

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Global positions `int64[stop - start]` at local ones."""
        return self.positions_of(np.arange(start, stop, dtype=np.int64))

    def positions_of(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Global positions `int64[n]` at any local ones."""
        places = self.places_of(local)
        return places if self.dealing is None else self.dealing.positions(places)

    def places(self, start: int, stop: int) -> NDArray[np.int64]:
        """Global positions `int64[stop - start]` at local ones, before they are dealt."""
        return self.places_of(np.arange(start, stop, dtype=np.int64))

    def places_of(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Global positions `int64[n]` before they are dealt: later local ones have higher ones, but after another run."""
        if self.plans_batches:
            first: int = self.sampler.first_position  # type: ignore[attr-defined]
            return self.shard.global_positions(local) + first
        if self.lineage.within_shard:
            return self.shard.global_positions(self.lineage.positions(local))
        return self.lineage.positions(self.shard.global_positions(local))

    def _place(self, local: int) -> int:
        return int(self.places(local, local + 1)[0])

    def position(self, local: int) -> int:
        return int(self.positions(local, local + 1)[0])

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The record keys `int64[n]` at global positions.

        Raises:
            RecordKeyError: the sampler gave one that the source does not have.
        """
        keys = self.sampler.record_keys(positions)
        count = len(self.source)
        if len(keys) and not (keys.min() >= 0 and keys.max() < count):
            wrong = keys[(keys < 0) | (keys >= count)][0]
            raise RecordKeyError(
                f"the sampler gave record key {wrong}, outside [0, {count}), the keys of the source; "
                "make the sampler for len(source) records."
            )
        return keys

    @property
    def has_parts(self) -> bool:
        from ...sources.mixed.source import MixedSource  # workers without a mix start sooner

        return isinstance(self.source, MixedSource)

    def by_part(self, keys: NDArray[np.int64]) -> Any:
        """Record keys as users see them: of a mix, by part; of what is planned, those of its records."""
        if self.of_several:
            return self.source.records_of(keys)
        return self.source.by_part(keys) if self.has_parts else keys

    def told(self, key: int) -> str:
        """A record key as messages say it."""
        return self.source.told(key) if self.has_parts or self.of_several else str(key)

    def part_epochs(self, local: int) -> dict[str, int]:
        """The epoch of each part of a mix at a local position. Raises AttributeError: this is no mix."""
        mix = self._mix("part_epochs is for mixes, loaders with a MixSampler; here, iterator.epoch tells the epoch.")
        return mix.part_epochs(self._place(local)) if self.total else dict.fromkeys(mix.names, 0)

    def part_records(self, local: int) -> dict[str, int]:
        """The number of records of each part of a mix before a local position, in all shards.

        Raises:
            AttributeError: this is no mix.
        """
        mix = self._mix(
            "part_records is for mixes, loaders with a MixSampler; here, iterator.stats() tells the records."
        )
        return mix.part_records(self.before(local))

    def before(self, local: int) -> int:
        """The number of records before a local position, in all shards."""
        return self._place(local - 1) + 1 if local > 0 else 0

    def _mix(self, refusal: str) -> MixSampler:
        from ...samplers.mix.sampler import MixSampler  # likewise

        if not isinstance(self.sampler, MixSampler):
            raise AttributeError(refusal)
        return self.sampler
