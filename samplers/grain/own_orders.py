"""Let a run resume on other shards, if each shard has an order of its own (`algorithm="grain"`).

A run that began on N shards can resume on another number of shards: `OwnOrders` makes one sampler
of the N orders. In: global positions of the first run, where shard s has the positions s, s + N, s
+ 2N, …. Out: the record keys that the first run's shards have at these positions.

A loader reads equally many records of each shard, as Grain's loader does. If `drop_remainder` is
True in the sampler's own shard options, the sampler divides the records among the shards into equal
parts.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np

from ...common.distinct import distinct
from ..facts import OrderFacts
from ..protocol import Int64s, VectorSampler, Words
from ..sharding import ShardOptions


def has_own_orders(sampler: VectorSampler) -> bool:
    """Return True if each shard of this sampler has an order of its own.

    In other samplers, all shards read parts of one common order.
    """
    return sampler.facts.shards == "own"


def read_equally(sampler: VectorSampler, shard: ShardOptions) -> ShardOptions:
    """Return the shard options with which a loader reads a sampler.

    If the sampler gives each of several shards its own order, this is `shard` with
    `drop_remainder=True`, so that all shards get equally many records; otherwise `shard` unchanged.
    """
    equal = has_own_orders(sampler) and shard.shard_count > 1
    return dataclasses.replace(shard, drop_remainder=True) if equal else shard


def order_of(sampler: VectorSampler, shard: ShardOptions, order_shards: int) -> VectorSampler:
    """Return the order that a run uses, if its first run had `order_shards` shards.

    If all shards read parts of one common order, return `sampler`. Otherwise, the result depends on
    `order_shards`:

    * 0: the order of the shard `shard`.
    * 1: the order of the sampler without shards.
    * N > 1: the N orders of a first run on N shards, as one sampler (`OwnOrders`).

    Args:
        sampler: the user's sampler, before it is limited to a shard.
        shard: the shard of the current run. The sampler's `drop_remainder` is used, not the one of
            `shard`.
        order_shards: number of shards of the first run; 0 for the order of `shard`.

    Raises:
        ValueError: if `order_shards` is not 0, although all shards read parts of one common order;
            or a shard would have no records.
    """
    if not has_own_orders(sampler):
        if order_shards:
            raise ValueError(
                f"this sampler has one order for all shards, but order_shards={order_shards}. Pass "
                "order_shards=0."
            )
        return sampler
    equal_parts = sampler.shard_options.drop_remainder
    if order_shards == 0:
        return sampler.with_shard_options(
            ShardOptions(shard.shard_index, shard.shard_count, equal_parts)
        )
    first = ShardOptions(0, order_shards, equal_parts)
    return sampler.with_shard_options(first) if order_shards == 1 else OwnOrders(sampler, first)


class OwnOrders(VectorSampler):
    """The separate orders of all shards of an earlier run, as one sampler.

    If the earlier run had N shards, position p of this sampler is position p of the shard p % N.

    Args:
        sampler: a sampler that gives each shard an order of its own.
        shard_options: any shard of the earlier run.

    Raises:
        ValueError: if a shard would have no records.
    """

    shard_options: ShardOptions
    seed: int | None
    epoch_length: int
    fingerprint: dict[str, Any]

    def __init__(self, sampler: VectorSampler, shard_options: ShardOptions) -> None:
        sampler.with_shard_options(
            dataclasses.replace(shard_options, shard_index=shard_options.shard_count - 1)
        )
        self._sampler = sampler.with_shard_options(shard_options)
        self.shard_options = shard_options
        self.seed = sampler.seed
        self.epoch_length = sampler.epoch_length
        self.fingerprint = sampler.fingerprint

    @property
    def facts(self) -> OrderFacts:
        return OrderFacts(block_size=self._sampler.facts.block_size)

    def __len__(self) -> int:
        return len(self._sampler)

    def record_keys(self, positions: Int64s) -> Int64s:
        keys = np.empty(len(positions), dtype=np.int64)
        owners = positions % self.shard_options.shard_count
        for owner in distinct(owners):
            chosen = owners == owner
            own = self._sampler.with_shard_options(
                dataclasses.replace(self.shard_options, shard_index=owner)
            )
            keys[chosen] = own.record_keys(positions[chosen])
        return keys

    def seeds(self, positions: Int64s) -> Words | None:
        return self._sampler.seeds(positions)

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        return type(self)(self._sampler, shard_options)
