"""Grain's samplers, with Grain's order and generators, and records with metadata.

In: positions. Out: record keys, metadata.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

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
    """Index, record key and random generator of the record at one position.

    Attributes:
        index: the global position.
        record_key: index of the record in the source; None for an element made of records.
        rng: random generator of this position; None if the sampler has no seed.

    >>> RecordMetadata(index=3, record_key=7).remove_record_key()
    RecordMetadata(index=3, record_key=None, rng=None)
    """

    def remove_record_key(self) -> RecordMetadata:
        """Return the metadata with None as record key, for an element that was made of a record."""
        return self if self.record_key is None else dataclasses.replace(self, record_key=None)


@dataclass(slots=True)
class Record(Generic[T]):
    """An element and its metadata.

    Attributes:
        metadata: index, record key and random generator.
        data: the element.
    """

    metadata: RecordMetadata
    data: T


def with_key_removed(metadata: Any) -> Any:
    """Return Grain's `RecordMetadata` with None as the record key; `metadata` may be headrace's."""
    return RecordMetadata(metadata.index, None, metadata.rng)


class _Sampler(OurIndexSampler):
    """Base of the samplers: Grain's order and random generators.

    A shard may have no records: as in Grain, the constructor warns, and reading a record raises.
    """

    def for_source(self, records: int, part: str | None = None) -> Self:
        """Return this sampler.

        The source may have fewer records; then reading one that does not exist is an error.
        """
        return self

    def _check_part(self) -> None:
        if not self._grain_order().part()[1]:
            warn(f"{self._empty_shard()} Use fewer shards.")

    def _empty_shard(self) -> str:
        shard = self.shard_options
        return (
            f"shard {shard.shard_index} of {shard.shard_count} has none of the {self.num_records} "
            "records."
        )

    @property
    def epoch_stride(self) -> int:
        return super().epoch_stride or self.num_records

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self._grain_order().part()[1]:
            raise ZeroDivisionError(f"{self._empty_shard()} Use fewer shards.")
        return super().record_keys(positions)

    def __getitem__(self, index: int) -> RecordMetadata:
        found = super().__getitem__(index)
        rng = None if self.seed is None else Generator(Philox(key=self.seed + found.index))
        return RecordMetadata(found.index, found.record_key, rng)


class IndexSampler(_Sampler):
    """Every record once in each epoch, in Grain's order.

    Args:
        num_records: number of records of the source.
        shard_options: the shard of this process; None (default): all records.
        shuffle: True gives each epoch another random order; needs `seed`.
        num_epochs: number of epochs; None (default) for no end.
        seed: an int in `[0, 2^32)`.
        algorithm: no effect; the order is always Grain's.
        balance: must be None, since Grain has no balanced order.

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
        super().__init__(
            num_records, shard_options or NoSharding(), shuffle, num_epochs, seed, "grain", balance
        )

    def __repr__(self) -> str:
        """Return the text that Grain prints."""
        return (
            f"IndexSampler(num_records={self.num_records}, shard_options={self.shard_options!r}, "
            f"shuffle={self.shuffle}, num_epochs={self.num_epochs}, seed={self.seed})"
        )


class SequentialSampler(_Sampler, OurSequentialSampler):
    """Every record once, in the order of the source.

    Args:
        num_records: number of records of the source.
        shard_options: the shard of this process; default: all records.
        seed: an int in `[0, 2^32)`, for random operations.

    >>> [SequentialSampler(3)[position].record_key for position in range(3)]
    [0, 1, 2]
    """

    def __repr__(self) -> str:
        """Return the text that Grain prints."""
        return (
            f"SequentialSampler(num_records={self.num_records}, "
            f"shard_options={self.shard_options!r})"
        )


def shard_of(sampler: Any, shard_options: Any) -> ShardOptions | None:
    """Return the shard that a loader reads, from its argument or else from its sampler.

    The result is None if neither gives a shard. If the sampler has Grain's order, the shard keeps
    its own `drop_remainder`. Otherwise it is True, so that all shards get the same number of
    records, as in Grain.

    Args:
        sampler: the sampler.
        shard_options: the loader's argument; None: the sampler's.
    """
    if shard_options is None:
        shard_options = getattr(sampler, "shard_options", None) or getattr(
            sampler, "_shard_options", None
        )
    if shard_options is None:
        return None
    shard = ShardOptions(
        shard_options.shard_index, shard_options.shard_count, bool(shard_options.drop_remainder)
    )
    return (
        shard
        if isinstance(sampler, OurIndexSampler) and sampler.algorithm == "grain"
        else dataclasses.replace(shard, drop_remainder=True)
    )
