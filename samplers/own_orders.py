"""Samplers that give each shard an order of its own: their order for a shard, and those of all shards as one sampler.

In: global positions of the first run. Out: the record keys that its shards would have read there.

Their shard options say how the records are shared out: with `drop_remainder` the parts are equal. As Grain's loader does, ours
reads as many records of each shard either way.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.distinct import distinct
from .protocol import VectorSampler
from .sharding import ShardOptions


def has_own_orders(sampler: VectorSampler) -> bool:
    """True if each shard of this sampler has an order of its own, in place of a part of one order for all."""
    return getattr(sampler, "algorithm", "") == "grain"


def read_equally(sampler: VectorSampler, shard: ShardOptions) -> ShardOptions:
    """The shard, as a loader is to read it."""
    equal = has_own_orders(sampler) and shard.shard_count > 1
    return dataclasses.replace(shard, drop_remainder=True) if equal else shard


def order_of(sampler: VectorSampler, shard: ShardOptions, order_shards: int) -> VectorSampler:
    """The order of a run that began on `order_shards` shards.

    Args:
        sampler: as the user gave it, for whatever shard.
        shard: of the run; whether parts are equal, the sampler says.
        order_shards: 0 for the order of this very shard, 1 for the one order of an unsharded sampler, of which the shards
            read parts. Anything but 0 is only for samplers that have own orders.

    Raises:
        ValueError: the sampler cannot be for so many shards.
    """
    if not has_own_orders(sampler):
        if order_shards:
            raise ValueError(
                f"order_shards={order_shards}, but this sampler has one order for all shards, order_shards=0."
            )
        return sampler
    equal_parts = sampler.shard_options.drop_remainder
    if order_shards == 0:
        return sampler.with_shard_options(ShardOptions(shard.shard_index, shard.shard_count, equal_parts))
    first = ShardOptions(0, order_shards, equal_parts)
    return sampler.with_shard_options(first) if order_shards == 1 else OwnOrders(sampler, first)


class OwnOrders:
    """Answers each position by the order of the shard that owned it.

    Args:
        sampler: gives each shard an order of its own.
        shard_options: any shard of the first run.

    Raises:
        ValueError: the sampler cannot be for so many shards.
    """

    def __init__(self, sampler: VectorSampler, shard_options: ShardOptions) -> None:
        sampler.with_shard_options(dataclasses.replace(shard_options, shard_index=shard_options.shard_count - 1))
        self._sampler = sampler.with_shard_options(shard_options)
        self.shard_options = shard_options
        self.seed = sampler.seed
        self.epoch_length = sampler.epoch_length
        self.block_size = sampler.block_size
        self.fingerprint: dict[str, Any] = sampler.fingerprint

    def __len__(self) -> int:
        return len(self._sampler)

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = np.empty(len(positions), dtype=np.int64)
        owners = positions % self.shard_options.shard_count
        for owner in distinct(owners):
            chosen = owners == owner
            own = self._sampler.with_shard_options(dataclasses.replace(self.shard_options, shard_index=owner))
            keys[chosen] = own.record_keys(positions[chosen])
        return keys

    def seeds(self, positions: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        return self._sampler.seeds(positions)

    def with_shard_options(self, shard_options: ShardOptions) -> OwnOrders:
        return OwnOrders(self._sampler, shard_options)
