"""All shards of a sampler that gives each an order of its own, as one sampler: what other shards go on with.

In: global positions of the first run. Out: the record keys that its shards would have read there.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .protocol import VectorSampler
from .sharding import ShardOptions


class OwnOrders:
    """Answers each position by the order of the shard that owned it.

    Args:
        sampler: gives each shard an order of its own.
        shard_options: any shard of the first run.

    Raises:
        ValueError: the sampler cannot be for so many shards.
    """

    def __init__(self, sampler: VectorSampler, shard_options: ShardOptions) -> None:
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
        for owner in np.unique(owners).tolist():
            chosen = owners == owner
            own = self._sampler.with_shard_options(dataclasses.replace(self.shard_options, shard_index=owner))
            keys[chosen] = own.record_keys(positions[chosen])
        return keys

    def seeds(self, positions: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        return self._sampler.seeds(positions)

    def with_shard_options(self, shard_options: ShardOptions) -> OwnOrders:
        return OwnOrders(self._sampler, shard_options)
