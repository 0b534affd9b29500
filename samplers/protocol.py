"""Protocol of a user's own sampler, and base class of the orders (samplers) that the loader uses.

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

    After its last position, the sampler raises IndexError. `__len__` is optional and returns the
    number of positions (`sys.maxsize`: endless). The sampler is called in the user's process and in
    workers, from any thread; it must return the same result every time.
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
    """Base of all orders (samplers) that the loader uses. An order maps positions to record keys.

    Orders are immutable, and may be used from any thread and process. A subclass defines
    `shard_options`, `seed`, `epoch_length`, `fingerprint`, `__len__` and `record_keys`. All other
    members have defaults. A default is right for an order that never changes, or it raises an error
    that names the subclass.

    `as_vector_sampler` converts a user's own `Sampler` to a `VectorSampler`.
    """

    if TYPE_CHECKING:

        @property
        def shard_options(self) -> ShardOptions:
            """The shard of this process."""

        @property
        def seed(self) -> int | None:
            """Seed of the loader's random operations; None: random operations are not possible."""

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
        """Facts about this order that the loader must know in advance, e.g. parts of a mix."""
        return OrderFacts()

    def seeds(self, positions: Int64s) -> Words | None:
        """Return the seed of random operations at each global position, `uint64[n]`.

        Return None if the attribute `seed` is used at all positions.
        """
        return None

    def with_shard_options(self, shard_options: ShardOptions) -> Self:
        """Return this order for the shard `shard_options`."""
        other = copy.copy(self)
        vars(other)["shard_options"] = shard_options
        return other

    def of_equal_shards(self, total: int) -> int:
        """Return how many of `total` positions the shards read together.

        With `drop_remainder`, this is the largest multiple of the number of shards that is at most
        `total`, unless `total` means endless. Otherwise it is `total`.
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
            part: name of the source in a mix; None if there is no mix.

        Raises:
            ValueError: if the order covers more than `records` records.
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
        """For each part that ends before the mix: (part name, position of its end). No mix: ()."""
        return ()

    @property
    def saved(self) -> SavedOrder:
        """The order as a checkpoint describes it."""
        return SavedOrder(self.fingerprint, self.changes, self.ended)

    def differs_from(self, saved: SavedOrder) -> str:
        """Return a text for messages if weights, or parts of a mix, differ from a saved order.

        Return "" if they do not differ, or this kind of order has none. A run can resume with such
        differences.
        """
        return ""

    def resumed(self, saved: SavedOrder, position: int, changes: bool) -> VectorSampler:
        """Return the order that a resumed run reads.

        Before `position`, it is the order of the saved run. From `position` on, it is this order.

        Args:
            saved: the order of the run that saved the checkpoint.
            position: first position that no shard has read.
            changes: True if this order may have other weights or parts than the saved order. If
                False, or if nothing differs, the saved order simply continues.

        Raises:
            CheckpointError: if `saved` is damaged.
        """
        return self

    def as_it_was(self, saved: SavedOrder, length: int) -> VectorSampler | None:
        """Return the order that a saved run had, even if the current program describes another.

        Return None if the checkpoint has only a digest of the values that decided the order.

        Args:
            saved: the order of the saved run.
            length: number of positions of the saved run.

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

        An order that is not a mix returns `parts[""]`, or itself if there is no key "".

        Args:
            parts: the new orders, by part name, as in the property `parts`.
        """
        return parts.get("", self)

    def part_at(self, position: int) -> tuple[str, int]:
        """Return which part a mix reads at a position, and the position in this part.

        For an order that is not a mix: `("", position)`.
        """
        return "", position

    def part_epochs(self, position: int) -> dict[str, int]:
        """Return a dict with the epoch (from 0) of each part of a mix, by part name.

        It is the epoch of the part's last record up to `position`. For an order that is not a mix:
        `{"": epoch}`.
        """
        return {"": self.epoch_at(position)}

    def part_records(self, position: int) -> dict[str, int]:
        """Return a dict with the number of records of each part before a position, by part name.

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
            keys: for each part of a mix, by name, the keys of the records to omit. An order that is
                not a mix has the name "".

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

        Return None if records cannot be appended to this kind of order.
        """
        return None

    def over(self, epochs: int | None) -> VectorSampler | None:
        """Return this order repeated `epochs` times, endlessly if `epochs` is None.

        Return None if this kind of order cannot be repeated.
        """
        return None

    @property
    def whole(self) -> VectorSampler:
        """The order of all epochs, if this order is one epoch of it; else this order itself."""
        return self

    def with_whole(self, whole: VectorSampler) -> VectorSampler:
        """Return the epoch of `whole` (an order of all epochs) that has this epoch's number.

        If this order is not one epoch of another order, return `whole` itself.
        """
        return whole

    def with_history(self, history: Any) -> VectorSampler | None:
        """Return this order with the changes of its records (a `RecordsHistory`) in `history`.

        Return None if the records of this kind of order cannot change.
        """
        return None

    def generation_at(self, position: int) -> tuple[int, int] | None:
        """Return the source's generation at a position, and the position at which it began.

        A generation is a version of the source's files. Without a change before `position`, it
        began at 0. Return None if the order never changed and its generation is 0.
        """
        return None

    def with_weights(self, weights: Any, position: int) -> VectorSampler:
        """Return this mix with other weights from `position` on.

        Raises:
            TypeError: if the order is not a mix.
        """
        raise TypeError(f"{short_repr(self)} mixes no sources. Use a MixSampler.")

    def with_record_weights(self, weights: Any) -> VectorSampler:
        """Return this order with other weights of the records.

        Raises:
            TypeError: if the records of this order have no weights.
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
        """Return the digest of the record weights used at a position, if they are earlier ones.

        Return None if the current weights are used at this position.
        """
        return None
