"""The order of all records of a growing source, including omitted records.

In: places (indices in this order). Out: record keys and epochs; or, from keys, their places. Pure
arithmetic; memory is used for the changes only.

The order is a sequence of stretches (consecutive places, ordered in one way). In most, whole
epochs follow one another in a sampler's order. If records are added to an epoch after it has begun,
the rest of the epoch and the new records make a separate stretch:

    places of the epoch   0 … x │ x … n
    stretch of the rest         │ 0 … n - x + new

In this stretch, the order of the records depends on the sampler:

* without a shuffle: the rest in its order, then the new records
* with a shuffle: the rest and the new records, in a new random order
* with `BlockShuffle`: the rest in its order, then the new records, shuffled in blocks
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from ..block_shuffle import BlockOrder, BlockShuffle
from ..permutation import mix, permute, unpermute
from ..protocol import ENDLESS, Int64s


class EpochRule(Protocol):
    """Protocol of an order in which each epoch has the same number of records, each read once."""

    @property
    def epoch_length(self) -> int:
        """Number of records in an epoch."""
        ...

    @property
    def seed(self) -> int | None:
        """Seed of the order's shuffles; None: the order has no seed."""
        ...

    @property
    def joining(self) -> bool | BlockShuffle:
        """Order of records that are appended during an epoch and are still read in this epoch.

        True: shuffled together with the records of the epoch that are not yet read. False: after
        these records, in the order of the source. A `BlockShuffle`: after these records, shuffled
        in blocks.
        """

    def record_keys(self, positions: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at positions `int64[n]`, counted from epoch 0 on."""
        ...

    def places_of(self, keys: Int64s, epoch: int) -> Int64s:
        """Return the index within an epoch, from 0, at which each record is read.

        Args:
            keys: `int64[n]`, the records.
            epoch: number of the epoch.

        Returns:
            `int64[n]`.
        """


@dataclass(frozen=True)
class WholeEpochs:
    """A stretch of an order that consists of whole epochs, one after another.

    A stretch is consecutive places, ordered in one way. A place is an index in the order of all
    records, omitted ones included.

    Attributes:
        start: first place.
        epoch: number of the first epoch.
        rule: the order of each epoch.
    """

    start: int
    epoch: int
    rule: EpochRule

    @cached_property
    def records(self) -> int:
        """Number of records in an epoch of this stretch (consecutive places, ordered in one way).

        The records of the first epoch that were read before this stretch are counted, too.
        """
        return self.rule.epoch_length

    def epoch_of(self, place: int) -> int:
        return self.epoch + (place - self.start) // self.records

    def end_of(self, epoch: int) -> int:
        return self.epoch_begin(epoch + 1)

    def begins_epoch(self, place: int) -> bool:
        return (place - self.start) % self.records == 0

    def epoch_begin(self, epoch: int) -> int:
        """Return the place (index in the order of all records) at which an epoch begins."""
        return self.start + (epoch - self.epoch) * self.records

    def keys(self, places: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at places `int64[n]` of the order of all records."""
        shift = self.epoch * self.records - self.start
        return self.rule.record_keys(places + shift if shift else places)

    def places_of(self, keys: Int64s, epoch: int) -> Int64s:
        """Return the places at which an epoch reads some records.

        A place is an index in the order of all epochs. For records that were read before this
        stretch, the places are less than `start`.

        Args:
            keys: `int64[n]`, the records.
            epoch: number of the epoch.

        Returns:
            `int64[n]`.
        """
        return self.rule.places_of(keys, epoch) + self.epoch_begin(epoch)


@dataclass(frozen=True)
class JoinedRest:
    """A stretch of an order that is the rest of an epoch, with new records added to it.

    A stretch is consecutive places (indices in the order of all records), ordered in one way. It
    has the methods of `WholeEpochs`.

    Attributes:
        start: first place.
        epoch: number of the epoch.
        below: the earlier stretch of the epoch. The records that it had not yet read are read here.
        rule: the order of all records, including the new records.
    """

    start: int
    epoch: int
    below: OrderStretch
    rule: EpochRule

    @cached_property
    def records(self) -> int:
        return self.rule.epoch_length

    @cached_property
    def _left(self) -> int:
        return self.below.end_of(self.epoch) - self.start

    @cached_property
    def _size(self) -> int:
        return self._left + self.records - self.below.records

    def epoch_of(self, place: int) -> int:
        return self.epoch

    def end_of(self, epoch: int) -> int:
        return self.start + self._size

    def epoch_begin(self, epoch: int) -> int:
        return self.start

    def begins_epoch(self, place: int) -> bool:
        return False

    def keys(self, places: Int64s) -> Int64s:
        return WholeOrder(*self._below, self).keys(places)

    @property
    def _below(self) -> list[OrderStretch]:
        """The stretches of the same epoch that come before this one, in order.

        A stretch is consecutive places (indices in the order of all records), ordered in one way.
        """
        below: list[OrderStretch] = [self.below]
        while isinstance(below[-1], JoinedRest):  # a loop: there may be thousands
            below.append(below[-1].below)
        return below[::-1]

    def joined(self, places: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Separate places with new records from places with records of the earlier stretch `below`.

        Args:
            places: `int64[n]`, places in this stretch (places that are ordered in one way).

        Returns:
            `int64[n]`, the key at each place with a new record (without meaning at other places);
            the indices into `places` of the other places; and their places in `below`.
        """
        within = self._moved(places - self.start, permute, BlockOrder.record_keys)
        others = np.flatnonzero(within < self._left)
        return within + (self.below.records - self._left), others, within[others] + self.start

    def places_of(self, keys: Int64s, epoch: int) -> Int64s:
        first, *others = self._below
        places, known = np.empty_like(keys), keys < first.records
        places[known] = first.places_of(keys[known], epoch)
        for rest in (*others, self):
            assert isinstance(rest, JoinedRest), "only rests lie above others"
            new = (keys >= rest.below.records) & (keys < rest.records)
            within = np.where(new, keys - (rest.below.records - rest._left), places - rest.start)
            here = np.flatnonzero((keys < rest.records) & (within >= 0))
            places[new] = rest.start
            places[here] = rest._moved(within[here], unpermute, BlockOrder.places_of) + rest.start
        return places

    def _moved(
        self,
        within: Int64s,
        shuffle: Callable[[Int64s, Int64s, int, int], Int64s],
        by_blocks: Callable[[BlockOrder, Int64s, Int64s], Int64s],
    ) -> Int64s:
        joining = self.rule.joining
        epochs = np.full_like(within, self.epoch)
        if joining is True:
            return shuffle(within, epochs, self._size, self._key)
        if isinstance(joining, BlockShuffle):
            new = within >= self._left
            order = BlockOrder(joining, self._size - self._left, self._key & 0xFFFFFFFF)
            within = within.copy()
            within[new] = by_blocks(order, within[new] - self._left, epochs[new]) + self._left
        return within

    @property
    def _key(self) -> int:
        seed = mix(np.array([self.rule.seed or 0], dtype=np.uint64))
        return int(mix(seed ^ np.uint64(self.start) ^ np.uint64(1 << 63))[0])


OrderStretch: TypeAlias = WholeEpochs | JoinedRest
"""A stretch of an order: places from `start` on that one rule maps to records."""


class WholeOrder:
    """Order of all records of a growing source, as a sequence of stretches.

    A stretch is consecutive places (indices in this order) that are ordered in one way. If
    several stretches begin at the same place, the last of them gives the record at this place.

    Args:
        stretches: the stretches, sorted by their first places; the last one has no end.
    """

    def __init__(self, *stretches: OrderStretch) -> None:
        self.stretches = stretches
        self._starts = [stretch.start for stretch in stretches]

    @classmethod
    def of(cls, rule: EpochRule) -> WholeOrder:
        """Return the order of a source that has not grown; `rule` gives the order of each epoch."""
        return cls(WholeEpochs(0, 0, rule))

    def followed_by(self, place: int, rule: EpochRule, joins: bool) -> WholeOrder:
        """Return this order with more records from a place (an index in the order) on.

        Args:
            place: first place of the changed order.
            rule: the order of all records.
            joins: True if new records are added to the epoch of this place, which then becomes
                longer; at the end of an epoch, to the epoch that ends. False: they are read from
                the first epoch on that begins at this place or later.
        """
        kept = self.stretches[: bisect_right(self._starts, place)]
        last = kept[-1]
        epoch = last.epoch_of(place)
        at_begin = last.begins_epoch(place)
        if joins and at_begin and place:
            kept = self.stretches[: bisect_left(self._starts, place)]
            last, epoch = kept[-1], epoch - 1
        elif at_begin:
            return WholeOrder(*kept, WholeEpochs(place, epoch, rule))
        end = last.end_of(epoch)
        if joins and rule.epoch_length > last.records:
            rest = JoinedRest(place, epoch, last, rule)
            kept, end = (*kept, rest), rest.end_of(epoch)
        return WholeOrder(*kept, WholeEpochs(end, epoch + 1, rule))

    def at(self, place: int) -> tuple[OrderStretch, int]:
        """Return the stretch that contains a place, and the place at which the next stretch begins.

        A stretch is consecutive places that are ordered in one way. If no stretch follows, the
        second result is `sys.maxsize`.
        """
        number = bisect_right(self._starts, place)
        return self.stretches[number - 1], self._starts[number] if number < len(
            self._starts
        ) else ENDLESS

    def of_epoch(self, epoch: int) -> OrderStretch:
        """Return the last stretch (consecutive places, ordered in one way) of an epoch.

        This stretch can compute the places of all records of the epoch.
        """
        return self.stretches[
            bisect_right([stretch.epoch for stretch in self.stretches], epoch) - 1
        ]

    def keys(self, places: Int64s) -> Int64s:
        """Return the record keys `int64[n]` at places `int64[n]` of the order of all records."""
        if len(self.stretches) == 1:
            return self.stretches[0].keys(places)
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        if len(numbers) and numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            whole = self.stretches[int(numbers[0])]
            if not isinstance(whole, JoinedRest):
                return whole.keys(places)
        by_stretch = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[by_stretch], np.arange(len(self.stretches) + 1)).tolist()
        keys, waiting = np.empty_like(places), np.empty(0, dtype=np.int64)
        inside = waiting  # the places of those that wait, in the stretch that comes next
        for number in range(len(self.stretches) - 1, -1, -1):
            own, stretch = by_stretch[ends[number] : ends[number + 1]], self.stretches[number]
            chosen, there = np.append(own, waiting), np.append(places[own], inside)
            waiting = inside = chosen[:0]
            if not len(chosen):
                continue
            if isinstance(stretch, JoinedRest):  # each is the rest of the stretch before it
                keys[chosen], others, inside = stretch.joined(there)
                waiting = chosen[others]
            else:
                keys[chosen] = stretch.keys(there)
        return keys
