"""The order of records that changes on the way: more are appended, some are left out.

In: positions in the global order. Out: record keys. Positions go on without a gap, so that shards stay even.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError, EmptyStreamError
from ..block_shuffle import BlockShuffle
from ..protocol import ENDLESS, RecordMetadata, metadata_at
from ..sharding import NoSharding, ShardOptions, as_shard_options
from .history import PASSING, History, OrderChange
from .living import LivingPlaces, OmittedKeys
from .stretches import WholeOrder, rule_of

Positions = NDArray[np.int64]

MAX_BLOCK, MAX_EPOCHS = 16384, 32
"""Positions, and epochs, in a block of keys that are computed together."""


class ChangingSampler:
    """The order of another sampler, whose records may grow in number, and of which some never come.

    Until a position the former order holds, from there on another one. What is left of the epoch there keeps its order, but for
    keys that are left out from now on; records that join it are shuffled together with its rest (without a shuffle, and with
    `BlockShuffle`, they come after it). Later epochs have each living record once: the order of all records, without those that
    are left out.

    Memory: of omitted keys at most 16 bytes each. The fingerprint keeps a few integers for each change.

    Args:
        sampler: of all records that there are, an `IndexSampler` or another one with `resized(records)` and `places_of`.
        omitted: keys that never come.
        generation: of the source.

    Raises:
        EmptyStreamError: no record is left.
        ValueError: the sampler deals records by cost, or each of its shards has an order of its own.

    >>> import numpy as np
    >>> from headrace import IndexSampler
    >>> sampler = ChangingSampler(IndexSampler(5, num_epochs=2), OmittedKeys([1, 3]))
    >>> len(sampler), sampler.record_keys(np.arange(6)).tolist()
    (6, [0, 2, 4, 0, 2, 4])
    >>> sampler.changed_at(4, IndexSampler(7, num_epochs=2), joins=True).record_keys(np.arange(8)).tolist()
    [0, 2, 4, 0, 2, 4, 5, 6]
    """

    knows_later_epochs: ClassVar[bool] = True

    def __init__(self, sampler: Any, omitted: OmittedKeys | None = None, generation: int = 0) -> None:
        self.sampler = _checked(sampler)
        self.omitted = omitted if omitted is not None else OmittedKeys()
        self.shard_options = sampler.shard_options
        self.history = History(self._records, self.omitted.digest, generation)
        self._check_left()

    @classmethod
    def of(cls, sampler: Any, balance: Any = None) -> ChangingSampler:
        """Any sampler as one that changes.

        Raises:
            ValueError: it cannot be; or there is a balance, by which it is dealt.
        """
        if balance is not None:
            raise ValueError(_NO_BALANCE)
        return sampler if isinstance(sampler, cls) else cls(sampler)

    def _check_left(self) -> None:
        if self.omitted.below(self._records) == self._records:
            raise EmptyStreamError(f"omit= leaves out all {self._records} records of the source; leave out fewer.")

    @property
    def _records(self) -> int:
        return int(self.sampler.epoch_length)

    @property
    def repeats_records(self) -> bool:
        """True while nothing has changed: each epoch has the same records."""
        return not self.changes

    @property
    def num_records(self) -> int:
        """Records that the source must have."""
        return self._records

    @property
    def seed(self) -> int | None:
        """The seed of the other sampler."""
        seed: int | None = self.sampler.seed
        return seed

    @property
    def shuffle(self) -> bool | BlockShuffle:
        """The shuffle of the other sampler."""
        shuffle: bool | BlockShuffle = getattr(self.sampler, "shuffle", False)
        return shuffle

    @property
    def num_epochs(self) -> int | None:
        """The number of epochs; None: endless."""
        total = len(self.sampler.with_shard_options(NoSharding()))  # shards may leave out whole epochs at the end
        return None if total >= ENDLESS else -(-total // self._records)

    @property
    def generation(self) -> int:
        """The generation of the source since the last change."""
        return self.history.last.generation

    @property
    def changes(self) -> tuple[OrderChange, ...]:
        """The changes, ascending."""
        return self.history.changes

    def generation_at(self, position: int) -> int:
        """The generation that is read at a position."""
        number = bisect_right([change.position for change in self.changes], position)
        return self.changes[number - 1].generation if number else self.history.generation

    @cached_property
    def order(self) -> WholeOrder:
        """The order of all records."""
        order = WholeOrder.of(rule_of(self.sampler, self.history.records))
        for change, before in zip(self.changes, (self.history.records, *(each.records for each in self.changes))):
            if change.records > before or change.joins:  # or these wait since an earlier change
                order = order.followed_by(change.place, rule_of(self.sampler, change.records), change.joins)
        return order

    @cached_property
    def _layers(self) -> list[LivingPlaces | None]:
        """The places from each change on; None where other keys, which are not known, were left out."""
        begins = [(0, 0, self.history.omitted), *((each.position, each.place, each.omitted) for each in self.changes)]
        stops = [*(place for _, place, _ in begins[1:]), ENDLESS]
        known = {"": OmittedKeys(), self.omitted.digest: self.omitted}
        return [
            LivingPlaces(self.order, known[digest], position, place, stop) if digest in known else None
            for (position, place, digest), stop in zip(begins, stops)
        ]

    @cached_property
    def _begins(self) -> list[int]:
        return [0, *(change.position for change in self.changes)]

    def _layer(self, number: int) -> LivingPlaces:
        layer = self._layers[number]
        if layer is None:
            raise CheckpointError(
                f"position {self._begins[number]:,} and some after it belong to a time when omit= named other records than "
                "now. A state keeps a digest of these keys alone, so the records there are unknown. Restore with the former "
                "omit=, and add keys to it where all shards stand at the same step, between two windows, before the end."
            )
        return layer

    def _layer_at(self, position: int) -> LivingPlaces:
        return self._layer(bisect_right(self._begins, position) - 1)

    def places(self, positions: Positions) -> Positions:
        """The places in the order of all records at positions `int64[n]`."""
        if len(self._begins) == 1:
            return self._layer(0).places(positions)
        numbers = np.searchsorted(self._begins, positions, side="right") - 1
        distinct = np.unique(numbers).tolist()
        if len(distinct) == 1:
            return self._layer(distinct[0]).places(positions)
        places = np.empty_like(positions)
        for number in distinct:
            chosen = numbers == number
            places[chosen] = self._layer(number).places(positions[chosen])
        return places

    def place(self, position: int) -> int:
        """The place in the order of all records from which on nothing was read before a position.

        At the beginning of an epoch it is that of its first record, also if that is left out.
        """
        place = int(self.places(np.array([position], dtype=np.int64))[0])
        layer = self._layer_at(position)
        epoch = layer.epoch_of(position)
        return self.order.at(place)[0].epoch_begin(epoch) if self.begins_epoch(position) else place

    def record_keys(self, positions: Positions) -> Positions:
        """The records at many positions.

        Args:
            positions: `int64[n]`, global positions in `[0, len(self))`; not checked.
        """
        return self.order.keys(self.places(positions))

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """The position of a record in an epoch; None if it does not come in it."""
        stretch = self.order.of_epoch(epoch)
        if record_key >= stretch.records:
            return None
        place = int(stretch.places_of(np.array([record_key], dtype=np.int64), epoch)[0])
        number = bisect_right([0, *(change.place for change in self.changes)], place) - 1
        return self._layer(number).position_of(place)

    def epoch_at(self, position: int) -> int:
        """The epoch, from 0, of a position."""
        return self._layer_at(position).epoch_of(position)

    def epoch_start(self, epoch: int) -> int:
        """The position at which an epoch begins.

        Raises:
            CheckpointError: it is not known, as other keys were left out then.
        """
        for layer in self._layers:
            found = None if layer is None else layer.epoch_start(epoch)
            if found is not None:
                return found
        return self._layer(self._layers.index(None)).position

    def begins_epoch(self, position: int) -> bool:
        """True if an epoch begins at a position; known of any from the last change on."""
        layer = self._layer_at(position)
        return layer.epoch_start(layer.epoch_of(position)) == position

    @property
    def epoch_length(self) -> int:
        """Positions in an epoch of the records that there are now."""
        return self._records - self.omitted.below(self._records)

    @property
    def few_epochs(self) -> int:
        """Positions of so few epochs that they are computed fast, though each has places of its own that are left out."""
        return MAX_EPOCHS * self.epoch_length if len(self.omitted) else ENDLESS

    @property
    def block_size(self) -> int:
        """Positions worth asking for at a time."""
        return min(int(self.sampler.block_size), self.few_epochs)

    def __len__(self) -> int:
        """Number of positions of all shards together; `sys.maxsize` for an endless sampler."""
        epochs = self.num_epochs
        total = ENDLESS if epochs is None else self.epoch_start(epochs)
        shards = self.shard_options.shard_count
        return total // shards * shards if self.shard_options.drop_remainder and total < ENDLESS else total

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that decide the order: those of the other sampler, with the records at first, and the changes since."""
        return {**self.sampler.fingerprint, **self.history.to_values()}

    def seeds(self, positions: Positions) -> None:
        """No position has a seed of its own: `seed` serves all."""

    def with_shard_options(self, shard_options: ShardOptions) -> ChangingSampler:
        """The same order, read by another shard."""
        other = copy.copy(self)
        other.shard_options = as_shard_options(shard_options)
        return other

    def __getitem__(self, index: int) -> RecordMetadata:
        """The record at one global position.

        Raises:
            IndexError: `index` is outside `[0, len(self))`.
        """
        return metadata_at(self, index)

    def of_generation(self, generation: int) -> ChangingSampler:
        """The same order of a source of another generation."""
        return ChangingSampler(self.sampler, self.omitted, generation).with_shard_options(self.shard_options)

    def over(self, epochs: int | None) -> ChangingSampler:
        """The same order, which goes on with the next epochs, of a chain's order; None: for ever."""
        order = self.sampler.over(epochs)
        return ChangingSampler(order, self.omitted, self.generation).with_shard_options(self.shard_options)

    def without(self, keys: Positions) -> ChangingSampler:
        """The same order, of which these records never come either."""
        omitted = OmittedKeys(np.union1d(self.omitted.keys.astype(np.int64), keys))
        return ChangingSampler(self.sampler, omitted, self.generation).with_shard_options(self.shard_options)

    def omits(self, record_keys: Positions) -> NDArray[np.bool_]:
        """True for those of the records `int64[n]` that are left out."""
        found: NDArray[np.bool_] = np.isin(record_keys, self.omitted.keys)
        return found

    def with_history(self, history: History) -> ChangingSampler:
        """The same order with other changes before."""
        other = copy.copy(self)
        for name in ("order", "_layers", "_begins"):
            vars(other).pop(name, None)
        other.history = history
        return other

    def changed_at(
        self,
        position: int,
        sampler: Any = None,
        omitted: OmittedKeys | None = None,
        *,
        joins: bool = False,
        generation: int | None = None,
        place: int | None = None,
    ) -> ChangingSampler:
        """The order that is another one from a position on.

        Args:
            position: the first one of the changed order.
            sampler: of more records; None: of as many.
            omitted: keys that never come from there on; None: the same.
            joins: records that are new come in the epoch under way.
            generation: of the source; None: the same.
            place: of the position in the order of all records; None: it is computed, which takes the keys omitted until now.

        Raises:
            CheckpointError: there are fewer records than before; or the place is not known.
        """
        last = self.history.last
        other = copy.copy(self)
        other.sampler = self.sampler if sampler is None else _checked(sampler)
        other.omitted = self.omitted if omitted is None else omitted
        records = other._records
        if records < last.records:
            raise CheckpointError(
                f"the source has {records} records, and the run has seen {last.records}; records are left out by omit=, and "
                "those of before keep their keys."
            )
        other._check_left()
        generation = last.generation if generation is None else generation
        place = self.place(position) if place is None else place
        if (
            epochs := self.num_epochs
        ) is not None:  # shards that have read unevenly may be said to be beyond the last epoch
            place = min(place, self.order.of_epoch(epochs).epoch_begin(epochs))
        change = OrderChange(position, place, records, joins, other.omitted.digest, generation)
        return other.with_history(self.history.followed_by(change))

    def going_on(
        self, saved: Mapping[str, Any], position: int, place: int | None = None, joins: bool = False
    ) -> ChangingSampler:
        """The sampler that goes on from a run of one with fewer records, or from which others were left out.

        Args:
            saved: the fingerprint of that run's sampler; also one of a sampler that knew no changes.
            position: from which on nothing has been read.
            place: of it, in the order of all records, as `place(position)` of that run's sampler tells; None: it is computed.
                Only where other keys were left out than now, it must be given.
            joins: records that are new come in the epoch under way.

        Raises:
            CheckpointError: the fingerprint is damaged, or there are fewer records than before.
        """
        history = History.of(saved)
        last = history.last
        former = self.with_history(history)
        same = (last.records, last.omitted, last.generation) == (
            self._records,
            self.omitted.digest,
            self.history.generation,
        )
        if same:
            return former
        if position == 0 and not history.changes:
            return self
        return former.changed_at(
            position, self.sampler, self.omitted, joins=joins, generation=self.history.generation, place=place
        )


def lasting(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a sampler without what may change on the way."""
    return {name: value for name, value in fingerprint.items() if name not in PASSING}


_NO_BALANCE = (
    "records that are appended or left out do not go with balance=, which deals global batches by cost; leave it out."
)


def _checked(sampler: Any) -> Any:
    if getattr(sampler, "balance", None) is not None:
        raise ValueError(_NO_BALANCE)
    if not hasattr(sampler, "resized"):
        raise ValueError(
            f"{type(sampler).__name__} does not go with records that are appended or left out; pass an IndexSampler. "
            "A WeightedSampler leaves out records of weight 0."
        )
    sampler.resized(sampler.epoch_length)  # which refuses orders that cannot change
    return sampler
