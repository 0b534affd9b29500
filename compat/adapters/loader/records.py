"""Grain's samplers, ours in Grain's order with Grain's generators; and records with their metadata, for operations.

In: positions. Out: record keys, metadata.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from ....common.validation import warn
from ....samplers import IndexSampler as OurIndexSampler
from ....samplers import NoSharding, ShardOptions
from ....samplers import RecordMetadata as OurMetadata
from ....samplers import SequentialSampler as OurSequentialSampler

T = TypeVar("T")


class RecordMetadata(OurMetadata):
    """The record at one position: index, key and generator.

    >>> RecordMetadata(index=3, record_key=7).remove_record_key()
    RecordMetadata(index=3, record_key=None, rng=None)
    """

    def remove_record_key(self) -> RecordMetadata:
        """The same of an element that is no record of the source any more."""
        return self if self.record_key is None else dataclasses.replace(self, record_key=None)


@dataclass(slots=True)
class Record(Generic[T]):
    """An element with its metadata.

    Attributes:
        metadata: where it stands.
        data: the element.
    """

    metadata: RecordMetadata
    data: T


def with_key_removed(metadata: Any) -> Any:
    """The metadata of what an operation makes of a record; a sampler of the user's may give metadata of ours."""
    return RecordMetadata(metadata.index, None, metadata.rng)


class _Sampler(OurIndexSampler):
    """With generators as Grain makes them; a shard may have no records, and is an error when it is to read one, as in Grain."""

    may_exceed_source: ClassVar[bool] = True
    """A loader takes it with more records than the source has; one that is not there is an error when it is read."""

    def _check_part(self) -> None:
        if not self._grain_order().part()[1]:
            warn(self._told_empty())

    def _told_empty(self) -> str:
        shard = self.shard_options
        return f"shard {shard.shard_index} of {shard.shard_count} has none of the {self.num_records} records."

    @property
    def epoch_stride(self) -> int:
        return super().epoch_stride or self.num_records

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self._grain_order().part()[1]:
            raise ZeroDivisionError(f"{self._told_empty()} Use fewer shards.")
        return super().record_keys(positions)

    def __getitem__(self, index: int) -> RecordMetadata:
        found = super().__getitem__(index)
        rng = None if self.seed is None else Generator(Philox(key=self.seed + found.index))
        return RecordMetadata(found.index, found.record_key, rng)


class IndexSampler(_Sampler):
    """Every record once an epoch, in Grain's order.

    Args:
        num_records: of the source.
        shard_options: the part that this process reads; all by default.
        shuffle: whether each epoch is permuted anew.
        num_epochs: None (default) never ends.
        seed: int in `[0, 2^32)`.
        algorithm: that of Grain, in any case.
        balance: None, as Grain has no such order.

    >>> [IndexSampler(5, shuffle=True, seed=1)[position].record_key for position in range(5)]
    [1, 2, 3, 0, 4]
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions | None = None,
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
        algorithm: str = "grain",
        balance: Any = None,
    ) -> None:
        super().__init__(num_records, shard_options or NoSharding(), shuffle, num_epochs, seed, "grain", balance)

    def __repr__(self) -> str:
        """The text that Grain prints."""
        return (
            f"IndexSampler(num_records={self.num_records}, shard_options={self.shard_options!r}, shuffle={self.shuffle}, "
            f"num_epochs={self.num_epochs}, seed={self.seed})"
        )


class SequentialSampler(_Sampler, OurSequentialSampler):
    """Every record once, in the source's order.

    Args:
        num_records: of the source.
        shard_options: the part that this process reads; all by default.
        seed: int in `[0, 2^32)`, for random operations.

    >>> [SequentialSampler(3)[position].record_key for position in range(3)]
    [0, 1, 2]
    """

    def __repr__(self) -> str:
        """The text that Grain prints."""
        return f"SequentialSampler(num_records={self.num_records}, shard_options={self.shard_options!r})"


def shard_of(sampler: Any, shard_options: Any) -> ShardOptions | None:
    """The shard that a loader is to read: as in Grain, all shards are equally long."""
    if shard_options is None:
        shard_options = getattr(sampler, "shard_options", None) or getattr(sampler, "_shard_options", None)
    if shard_options is None:
        return None
    shard = ShardOptions(shard_options.shard_index, shard_options.shard_count, bool(shard_options.drop_remainder))
    return shard if getattr(sampler, "algorithm", "") == "grain" else dataclasses.replace(shard, drop_remainder=True)
