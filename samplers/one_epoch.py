"""One epoch of a sampler as a sampler of its own, for loops that read one epoch at a time.

In: positions counted from the start of the epoch. Out: record keys.
"""

from __future__ import annotations

from typing import Any, Self

from .facts import OrderFacts
from .history import Changes
from .protocol import Int64s, VectorSampler, Words
from .sharding import ShardOptions


class OneEpoch(VectorSampler):
    """One epoch of another sampler, as a sampler.

    Shards divide this epoch instead of the whole order, so each shard begins and ends with the
    epoch.

    Args:
        sampler: the sampler of all epochs.
        epoch: number of the epoch, from 0.
    """

    shard_options: ShardOptions
    seed: int | None
    epoch_length: int
    fingerprint: dict[str, Any]

    def __init__(self, sampler: VectorSampler, epoch: int) -> None:
        self.sampler = sampler
        self.epoch = epoch
        self._first = epoch * sampler.epoch_stride
        self.epoch_length = sampler.epoch_length
        self.shard_options = sampler.shard_options
        # A seed has 32 bits.
        self.seed = None if sampler.seed is None else sampler.seed + (epoch << 32)
        self.fingerprint = {**sampler.fingerprint, "epoch": epoch}

    def __len__(self) -> int:
        return self.epoch_length

    @property
    def facts(self) -> OrderFacts:
        facts = self.sampler.facts
        return OrderFacts(block_size=facts.block_size, balance=facts.balance, shards=facts.shards)

    @property
    def changes(self) -> Changes:
        return self.sampler.changes

    @property
    def whole(self) -> VectorSampler:
        return self.sampler

    def with_whole(self, whole: VectorSampler) -> OneEpoch:
        return OneEpoch(whole, self.epoch)

    def __repr__(self) -> str:
        return f"{self.sampler!r} in epoch {self.epoch}"

    def record_keys(self, positions: Int64s) -> Int64s:
        return self.sampler.record_keys(positions + self._first)

    def seeds(self, positions: Int64s) -> Words | None:
        return self.sampler.seeds(positions + self._first)

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        return type(self)(self.sampler.with_shard_options(shard_options), self.epoch)
