"""The protocol of a user's own sampler, and the base class of the orders that the loader uses.

In: positions in the global order. Out: record keys.
"""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..common.generators.keyed_random import fresh_generator
from ..common.messages import short_repr
from .facts import OrderFacts
from .history import Changes, SavedOrder
from .sharding import ShardOptions

ENDLESS = sys.maxsize
"""`len()` of a sampler that never ends."""
Int64s = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass
class RecordMetadata:
    """Index, record key and random generator of the record at one position.

    Attributes:
        index: the global position.
        record_key: index of the row in the source.
        rng: generator of this position; None if the sampler has no seed.
    """

    index: int
    record_key: int | None = None
    rng: np.random.Generator | None = None

    def __repr__(self) -> str:
        """Return a text without the memory address that a generator's own repr contains."""
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng})"


@runtime_checkable
class Sampler(Protocol):
    """Protocol of a user's sampler: returns the key of the record at a position (`RecordMetadata`).

    After its last position it raises IndexError.

    `__len__` is optional and returns the number of positions (`sys.maxsize`: endless). The sampler
    is called in the user's process and in workers, from any thread; it must return the same result
    every time.
    """

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return the key of the record at a global position, as `RecordMetadata`.

        Raise IndexError after the last position.
        """
        ...


class SamplerLike(Protocol):
    """Type of any sampler, for type checkers.

    Its `__getitem__` may return another library's `RecordMetadata`.
    """

    def __getitem__(self, index: Any, /) -> Any: ...


class VectorSampler:
    """Base of all orders that the loader uses: each maps positions to record keys.

    Orders are immutable, and may be used from any thread and process. A kind of order defines
    `shard_options`, `seed`, `epoch_length`, `fingerprint`, `__len__` and `record_keys`. All other
    members have defaults, which are right for an order that never changes, or raise an error that
    names the kind of order.

    `as_vector_sampler` makes one of a user's own `Sampler`.
    """

    if TYPE_CHECKING:

        @property
        def shard_options(self) -> ShardOptions:
            """The shard of this process."""

        @property
        def seed(self) -> int | None:
            """Seed of the loader's random operations; None: it cannot have random operations."""

        @property
        def epoch_length(self) -> int:
            """Number of positions in an epoch."""

        @property
        def fingerprint(self) -> dict[str, Any]:
            """The JSON values that determine the order, without the shard and `changes`."""

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize`: endless."""
        raise NotImplementedError

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at global positions `int64[n]` in `[0, len(self))`."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return the record key (and random generator) at one global position.

        Raises:
            IndexError: if `index` is outside `[0, len(self))`.
        """
        index = operator.index(index)
        if not 0 <= index < len(self):
            raise IndexError(
                f"position {short_repr(index)} is outside of [0, {len(self)}), the positions of "
                f"{short_repr(self, 200)}. Pass one of these."
            )
        key = int(self.record_keys(np.array([index], dtype=np.int64))[0])
        rng = None if self.seed is None else fresh_generator(self.seed, index)
        return RecordMetadata(index, key, rng)

    @property
    def facts(self) -> OrderFacts:
        """Facts about this order that the loader must know in advance, such as its parts."""
        return OrderFacts()

    def seeds(self, positions: Int64s) -> Words | None:
        """Return the seed of random operations at each position, `uint64[n]`.

        Return None if `seed` is used at all of them.
        """
        return None

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        """Return this order for the shard `shard_options`."""
        other = copy.copy(self)
        vars(other)["shard_options"] = shard_options
        return other

    def of_equal_shards(self, total: int) -> int:
        """Return how many of `total` positions the shards read together.

        With `drop_remainder`, it is the largest multiple of the number of shards up to `total`,
        unless that is endless.
        """
        shards = self.shard_options.shard_count
        drops = self.shard_options.drop_remainder and total < ENDLESS
        return total // shards * shards if drops else total

    @property
    def epoch_count(self) -> int | None:
        """Number of epochs, counting an incomplete last one; None: the order is endless."""
        return None if len(self) >= ENDLESS else -(-len(self) // self.epoch_length)

    @property
    def epoch_stride(self) -> int:
        """Number of global positions between the starts of consecutive epochs of this shard.

        This default is `epoch_length`.
        """
        return self.epoch_length

    def epoch_at(self, position: int) -> int:
        """Return the number of the epoch, from 0, to which a position belongs."""
        return position // self.epoch_stride

    def length_over(self, epochs: int) -> int:
        """Return the number of positions in `epochs` epochs, even if the order has fewer."""
        return min(self.epoch_length * epochs, ENDLESS)

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the first position of a record in an epoch, or None if it is not in the epoch.

        This default implementation searches all positions of the epoch.
        """
        start, stop = epoch * self.epoch_length, min((epoch + 1) * self.epoch_length, len(self))
        block_size = self.facts.block_size
        for first in range(start, stop, block_size):
            positions = np.arange(first, min(first + block_size, stop), dtype=np.int64)
            found = np.flatnonzero(self.record_keys(positions) == record_key)
            if found.size:
                return int(positions[found[0]])
        return None

    def for_source(self, records: int, part: str | None = None) -> Self:
        """Return this order for a source, after checking that the source has enough records.

        Args:
            records: number of records of the source.
            part: name of the part of a mix that the source is; None if there is no mix.

        Raises:
            ValueError: if the order covers more records.
        """
        covered = self.facts.records
        if covered is not None and covered > records:
            of_part = "" if part is None else f"part {short_repr(part)}: "
            mixed = "MixSampler the source itself, or its length"
            remedy = mixed if of_part else "num_records=len(source)"
            raise ValueError(
                f"{of_part}the sampler covers {covered} records, but the source has {records}. "
                f"Pass {remedy}."
            )
        return self

    @property
    def changes(self) -> Changes:
        """The changes of the order since the first run, which a checkpoint stores."""
        return ()

    @property
    def ended(self) -> tuple[tuple[str, int], ...]:
        """For a mix, pairs (part name, position of its end) for parts that end before the mix."""
        return ()

    @property
    def saved(self) -> SavedOrder:
        """The order as a checkpoint describes it."""
        return SavedOrder(self.fingerprint, self.changes, self.ended)

    def differs_from(self, saved: SavedOrder) -> str:
        """Return a text if the program has other weights or parts of a mix than the run; else "".

        A run can resume with such differences. The records of an order are compared elsewhere.
        """
        return ""

    def resumed(self, saved: SavedOrder, position: int, changes: bool) -> VectorSampler:
        """Return the order that resumes a run.

        It is the order of the run before a position, and this one from there on.

        Args:
            saved: the order of that run.
            position: first position that no shard has read.
            changes: True if this order may have other weights or parts than the run's. If False, or
                if it has the same ones, the order of the run continues.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        return self

    def as_it_was(self, saved: SavedOrder, length: int) -> VectorSampler | None:
        """Return the order of a saved run, without the changes of the current program.

        Return None if the state does not contain what decided that order, but only a digest of it.

        Args:
            saved: the order of that run.
            length: number of positions of that run.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        return None

    @property
    def parts(self) -> Mapping[str, VectorSampler]:
        """The order of each part of a mix, by name.

        For an order that is not a mix: `{"": self}`.
        """
        return {"": self}

    def with_parts(self, parts: Mapping[str, VectorSampler]) -> VectorSampler:
        """Return this mix with the given orders in place of the orders of some parts.

        For an order that is not a mix, return `parts[""]` if there is one, else the order itself.

        Args:
            parts: the new orders, by part name, as in the property `parts`.
        """
        return parts.get("", self)

    def part_at(self, position: int) -> tuple[str, int]:
        """Return the name of the part that a mix reads at a position, and the position in the part.

        For an order that is not a mix: `("", position)`.
        """
        return "", position

    def part_epochs(self, position: int) -> dict[str, int]:
        """Return the current epoch (from 0) of each part of a mix, by name.

        It is the epoch of the part's last record up to a position. For an order that is not a mix:
        `{"": epoch}`.
        """
        return {"": self.epoch_at(position)}

    def part_records(self, position: int) -> dict[str, int]:
        """Return how many records of each part of a mix, by name, come before a position.

        For an order that is not a mix: `{"": position}`.
        """
        return {"": position}

    @property
    def omitted_keys(self) -> NDArray[Any]:
        """Sorted keys of records that the order omits."""
        return np.empty(0, np.int64)

    def without(self, keys: Mapping[str, Int64s]) -> VectorSampler:
        """Return this order without some records.

        Args:
            keys: for each part's name, the keys of the records to omit. An order without parts has
                the name "".

        Raises:
            ValueError: if records cannot be omitted from this order, or from the order of a part.
            EmptyStreamError: if no record is left.
        """
        raise ValueError(
            f"{short_repr(self)} cannot be used with a growing source or omit=. Pass an "
            "IndexSampler. To leave out records of a WeightedSampler, give them weight 0."
        )

    def by_epochs(self) -> VectorSampler | None:
        """Return an order with the same record at each position, to which records can be appended.

        Return None if there is no such order.
        """
        return None

    def over(self, epochs: int | None) -> VectorSampler | None:
        """Return this order repeated `epochs` times; endless for None.

        Return None if it cannot be repeated.
        """
        return None

    @property
    def whole(self) -> VectorSampler:
        """The order of all epochs, if this is the order of one epoch; else the order itself."""
        return self

    def with_whole(self, whole: VectorSampler) -> VectorSampler:
        """Return the same epoch of another order of all epochs; that order, if this is no epoch."""
        return whole

    def with_history(self, history: Any) -> VectorSampler | None:
        """Return this order with the changes in `history`; None if its records cannot change.

        `history` is a `RecordsHistory`: at which positions records were added or omitted.
        """
        return None

    def generation_at(self, position: int) -> tuple[int, int] | None:
        """Return the generation of the source at a position, and the position at which it began.

        A generation is a version of the source's files. It begins at 0 if there was no change
        before the position. Return None if the order never changed and its generation is 0.
        """
        return None

    def with_weights(self, weights: Any, position: int) -> VectorSampler:
        """Return this mix with other weights from a position on.

        Raises:
            TypeError: if the order is not a mix.
        """
        raise TypeError(f"{short_repr(self)} mixes no sources. Use a MixSampler.")

    def with_record_weights(self, weights: Any) -> VectorSampler:
        """Return this order with other weights of the records.

        Raises:
            TypeError: if the order has no weights.
        """
        raise TypeError(
            f"{short_repr(self)} has no weights that can change. Use a MixSampler or a "
            "WeightedSampler."
        )

    @property
    def weights_description(self) -> str:
        """Description of the records' weights, for messages; "" if the records have no weights."""
        return ""

    def former_weights(self, position: int) -> str | None:
        """Return the digest of the earlier weights that are used at a position.

        Return None if the current weights are used there.
        """
        return None
