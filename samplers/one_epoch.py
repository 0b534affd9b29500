"""One epoch of a sampler as a sampler of its own, for loops that read one epoch at a time.

In: positions counted from the start of the epoch. Out: the record keys of the whole sampler there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .protocol import VectorSampler
from .sharding import ShardOptions


class OneEpoch:
    """A sampler over one epoch of another sampler.

    Shards divide the epoch instead of the whole order. So each shard begins and ends with the
    epoch.

    Args:
        sampler: the sampler of all epochs.
        epoch: number of the epoch, from 0.
        length: number of positions in an epoch, of all shards together.
    """

    def __init__(self, sampler: VectorSampler, epoch: int, length: int) -> None:
        self.sampler = sampler
        self.epoch = epoch
        self._first = epoch * int(getattr(sampler, "epoch_stride", length))
        self.epoch_length = length
        self.shard_options = sampler.shard_options
        self.block_size = sampler.block_size
        self.algorithm = getattr(sampler, "algorithm", "")
        self.balance = getattr(sampler, "balance", None)
        self.seed = None if sampler.seed is None else sampler.seed + (epoch << 32)  # a seed has 32 bits
        self.fingerprint: dict[str, Any] = {**sampler.fingerprint, "epoch": epoch}

    def __len__(self) -> int:
        return self.epoch_length

    def __repr__(self) -> str:
        return f"{self.sampler!r} in epoch {self.epoch}"

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.sampler.record_keys(positions + self._first)

    def seeds(self, positions: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        return self.sampler.seeds(positions + self._first)

    def with_shard_options(self, shard_options: ShardOptions) -> OneEpoch:
        return OneEpoch(self.sampler.with_shard_options(shard_options), self.epoch, self.epoch_length)
