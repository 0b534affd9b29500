"""The order of a source to which records are appended, or whose records are omitted, during a run.

In: positions in the global order. Out: record keys. Omitted records have no positions, so shards
stay equally long.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError, EmptyStreamError
from ..facts import OrderFacts
from ..history import Changes, SavedOrder
from ..protocol import ENDLESS, Int64s, VectorSampler
from ..sharding import NoSharding, ShardOptions
from .history import RecordsChange, RecordsHistory
from .living import OmittedKeys
from .living_order import LivingOrder

MAX_BLOCK, MAX_EPOCHS = 16384, 32
"""Maximal numbers of positions and of epochs whose record keys are computed together."""


class ChangingSampler(LivingOrder):
    """The order of another sampler, in which records may be added and omitted at certain positions.

    Before the position of a change, the earlier order is used. After the position, the rest of the
    epoch keeps its order, without newly omitted keys. New records that are read in this epoch are
    shuffled together with the rest; without a shuffle, and with `BlockShuffle`, they come after the
    rest. Later epochs contain each record once, except omitted ones, in the order of all records.

    Memory: at most 16 bytes per omitted key. The fingerprint has a few integers per change.

    Args:
        sampler: order of all records: an `IndexSampler`, or another sampler with `resized(records)`
            and `places_of`.
        omitted: keys that are never read.
        generation: number of the source's generation (version of its files), which grows when
            records are appended.

    Raises:
        EmptyStreamError: if all records are omitted.
        ValueError: if the sampler balances costs, or each of its shards has an order of its own.

    >>> import numpy as np
    >>> from headrace import IndexSampler
    >>> sampler = ChangingSampler(IndexSampler(5, num_epochs=2), OmittedKeys([1, 3]))
    >>> len(sampler), sampler.record_keys(np.arange(6)).tolist()
    (6, [0, 2, 4, 0, 2, 4])
    >>> changed = sampler.changed_at(4, IndexSampler(7, num_epochs=2), joins=True)
    >>> changed.record_keys(np.arange(8)).tolist()
    [0, 2, 4, 0, 2, 4, 5, 6]
    """

    shard_options: ShardOptions

    def __init__(
        self, sampler: Any, omitted: OmittedKeys | None = None, generation: int = 0
    ) -> None:
        self.sampler = _checked(sampler)
        self.omitted = omitted if omitted is not None else OmittedKeys()
        self.shard_options = sampler.shard_options
        self.history = RecordsHistory(self.num_records, self.omitted.digest, generation)
        self._check_left()

    def _check_left(self) -> None:
        if self.omitted.below(self.num_records) == self.num_records:
            raise EmptyStreamError(
                f"all {self.num_records} records of the source are omitted. Omit fewer records."
            )

    @property
    def facts(self) -> OrderFacts:
        facts = self.sampler.facts
        # Each epoch has other omitted places.
        few = MAX_EPOCHS * self.epoch_length if len(self.omitted) else ENDLESS
        return OrderFacts(
            block_size=min(facts.block_size, few),
            most_at_once=few,
            records=self.num_records,
            shuffle=facts.shuffle,
            same_records=not self.history.changes,
            has_later_epochs=True,
            can_change=True,
            keeps_history=True,
        )

    @property
    def num_records(self) -> int:
        """Number of records of the source, including omitted records."""
        return int(self.sampler.epoch_length)

    @property
    def seed(self) -> int | None:
        """The seed of the underlying sampler; None if it has none."""
        return self.sampler.seed  # type: ignore[no-any-return]

    @property
    def num_epochs(self) -> int | None:
        """Number of epochs, counting an incomplete last one; None for an endless order."""
        # Shards may leave out whole epochs at the end.
        total = len(self.sampler.with_shard_options(NoSharding()))
        return None if total >= ENDLESS else -(-total // self.num_records)

    @property
    def generation(self) -> int:
        """Number of the source's generation (version of its files) after the last change."""
        return self.history.last.generation

    @property
    def changes(self) -> Changes:
        """The changes of the order, sorted by position, as a checkpoint stores them."""
        return self.history.order_changes

    def generation_at(self, position: int) -> tuple[int, int] | None:
        if not self.history.changes and not self.generation:
            return None
        number = bisect_right(self._begins, position) - 1
        generation = (
            self.history.changes[number - 1].generation if number else self.history.generation
        )
        return generation, self._begins[number]

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at global positions `int64[n]`.

        The positions are in `[0, len(self))`, which is not checked.
        """
        return self.order.keys(self.places(positions))

    def position_of(self, record_key: int, epoch: int) -> int | None:
        """Return the position of a record in an epoch, or None.

        The result is None if the record is omitted in this epoch, or was appended after it.

        Raises:
            CheckpointError: if the keys that were omitted at this position are unknown.
        """
        stretch = self.order.of_epoch(epoch)
        if record_key >= stretch.records:
            return None
        place = int(stretch.places_of(np.array([record_key], dtype=np.int64), epoch)[0])
        number = bisect_right([0, *(change.place for change in self.history.changes)], place) - 1
        return self._layer(number).position_of(place)

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch: all records of the source except omitted ones."""
        return self.num_records - self.omitted.below(self.num_records)

    def __len__(self) -> int:
        """Return the number of positions of all shards together; `sys.maxsize` if endless.

        Raises:
            CheckpointError: if the number is unknown, because a checkpoint has only a digest of the
                keys that were omitted.
        """
        epochs = self.num_epochs
        return self.of_equal_shards(ENDLESS if epochs is None else self.epoch_start(epochs))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The values that determine the order before its first change, as JSON values.

        The changes themselves are in the attribute `changes`.
        """
        return {**self.sampler.fingerprint, **self.history.begin_values}

    def by_epochs(self) -> VectorSampler | None:
        """Return the order of all records, as a sampler whose number of records can change.

        Omitted records are included. Return None if there is no such sampler.
        """
        return self.sampler.by_epochs()  # type: ignore[no-any-return]

    def length_over(self, epochs: int) -> int:
        return self.epoch_start(epochs)

    def of_generation(self, generation: int, records: int | None = None) -> ChangingSampler:
        """Return this order for another generation of its source, without its changes.

        It is as if the keys that are omitted now had been omitted from the beginning.

        Args:
            generation: number of the generation (version of the source's files).
            records: number of records of the source; None: the same number as in this order.
        """
        whole = self.sampler if records is None else self.sampler.resized(records)
        return ChangingSampler(whole, self.omitted, generation).with_shard_options(
            self.shard_options
        )

    def over(self, epochs: int | None) -> ChangingSampler:
        """Return this order with `epochs` times as many epochs, and without its changes.

        It is as if the records after the last change had been there, or omitted, from the
        beginning. The result is endless if `epochs` is None.
        """
        order = self.sampler.over(epochs)
        return ChangingSampler(order, self.omitted, self.generation).with_shard_options(
            self.shard_options
        )

    @property
    def omitted_keys(self) -> NDArray[Any]:
        """Sorted keys of the omitted records."""
        return self.omitted.keys

    def without(self, keys: Mapping[str, Int64s]) -> ChangingSampler:
        """Return this order without the records whose keys are in `keys[""]`, and without changes.

        It is as if these records, and those already omitted, had been omitted from the beginning.
        (For a mix, `keys` has the keys of each part by name; for other orders, the name is "".)
        """
        omitted = OmittedKeys(np.union1d(self.omitted.keys.astype(np.int64), keys[""]))
        return ChangingSampler(self.sampler, omitted, self.generation).with_shard_options(
            self.shard_options
        )

    def omits(self, record_keys: Int64s) -> NDArray[np.bool_]:
        """Return `bool[n]`: for each of the keys `int64[n]`, True if the record is omitted."""
        found: NDArray[np.bool_] = np.isin(record_keys, self.omitted.keys)
        return found

    def with_history(self, history: RecordsHistory) -> ChangingSampler:
        """Return this order with the changes of its records (added or omitted) in `history`."""
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
        """Return this order with one more change: more records, or other omitted records.

        Args:
            position: first position of the changed order.
            sampler: order of more records; None: the number of records does not change.
            omitted: keys that are not read from `position` on; None: the same as before.
            joins: True if new records are added to the current epoch.
            generation: number of the source's generation (version of its files); None: the same as
                before.
            place: `position` if omitted records are counted, too; None: it is computed.

        Raises:
            CheckpointError: if there are fewer records than before, or the place cannot be
                computed.
            EmptyStreamError, ValueError: if all records are omitted, or the order of `sampler`
                cannot change.
        """
        last = self.history.last
        other = copy.copy(self)
        other.sampler = self.sampler if sampler is None else _checked(sampler)
        other.omitted = self.omitted if omitted is None else omitted
        records = other.num_records
        if records < last.records:
            raise CheckpointError(
                f"the source has {records} records, but the run has read a source of "
                f"{last.records}. Keep all records in the source, and leave some out with omit=."
            )
        other._check_left()
        generation = last.generation if generation is None else generation
        place = self.place(position) if place is None else place
        if (
            epochs := self.num_epochs
        ) is not None:  # shards that have read unevenly may be said to be beyond the last epoch
            place = min(place, self.order.of_epoch(epochs).epoch_begin(epochs))
        change = RecordsChange(position, place, records, joins, other.omitted.digest, generation)
        return other.with_history(self.history.followed_by(change))

    def with_records_from(
        self, saved: SavedOrder, position: int, place: int | None = None, joins: bool = False
    ) -> ChangingSampler:
        """Return the order that resumes a run whose source has other records, appended or omitted.

        Before `position`, the result is the order of the saved run. From `position` on, it has the
        records of this sampler.

        Args:
            saved: the order in the checkpoint, which may be one without changes.
            position: first position that no shard has read.
            place: `position` if omitted records are counted, too, from `place(position)` of the
                saved run's sampler; None: it is computed. It must be given if the saved run omitted
                other keys.
            joins: True if new records are added to the current epoch.

        Raises:
            CheckpointError: if `saved` is damaged, or there are fewer records than before.
        """
        history = RecordsHistory.of(saved)
        former = self.with_history(history)
        if not self.has_other_records(history):
            return former
        if position == 0 and not history.changes:
            return self
        return former.changed_at(
            position,
            self.sampler,
            self.omitted,
            joins=joins,
            generation=self.history.generation,
            place=place,
        )

    def has_other_records(self, history: RecordsHistory) -> bool:
        """Return True if this order has other records than a saved run had at its end."""
        last = history.last
        described = self.num_records, self.omitted.digest, self.history.generation
        return described != (last.records, last.omitted, last.generation)


def refuse_balance(order: VectorSampler) -> None:
    """Raise ValueError if an order has a `balance`.

    A balance does not work with records that are appended or omitted.
    """
    if order.facts.balance is not None:
        raise ValueError(
            "balance= cannot be combined with records that are appended or omitted, because it "
            "divides the records of whole global batches by cost. Leave balance= out."
        )


def _checked(sampler: Any) -> Any:
    refuse_balance(sampler)
    if not sampler.facts.can_change:
        sampler.without({})  # which says why
    sampler.resized(sampler.epoch_length)  # which refuses orders that cannot change
    return sampler
