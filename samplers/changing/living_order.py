"""Convert positions of an order whose records change to places, and find the epochs.

In: positions in the global order. Out: places, which also count omitted records.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import CheckpointError
from ..protocol import ENDLESS, Int64s, VectorSampler
from .history import RecordsHistory
from .living import LivingPlaces, OmittedKeys
from .stretches import WholeOrder


class LivingOrder(VectorSampler):
    """Base of `ChangingSampler`: positions, places and epochs of an order whose records change.

    A position counts kept records only; a place counts omitted records, too.

    Attributes:
        sampler: order of all records.
        omitted: keys that are omitted after the last change.
        history: the changes of the records.
    """

    sampler: Any
    omitted: OmittedKeys
    history: RecordsHistory

    @cached_property
    def order(self) -> WholeOrder:
        """The order of all records, also of appended ones, as if no record was omitted.

        Raises:
            ValueError: if the underlying sampler cannot change.
        """
        order = WholeOrder.of(self.sampler.resized(self.history.records))
        changes = self.history.changes
        for change, before in zip(
            changes, (self.history.records, *(each.records for each in changes))
        ):
            if change.records > before or change.joins:  # or these wait since an earlier change
                order = order.followed_by(
                    change.place, self.sampler.resized(change.records), change.joins
                )
        return order

    @cached_property
    def _layers(self) -> list[LivingPlaces | None]:
        """Converters from positions to places: one for the start of the order, one for each change.

        A position counts kept records only; a place counts omitted records, too. An entry is None
        if the keys omitted at that time are unknown: a checkpoint has only a digest of them. They
        are known if no key was omitted, or the same keys as after the last change.
        """
        begins = [
            (0, 0, self.history.omitted),
            *((each.position, each.place, each.omitted) for each in self.history.changes),
        ]
        stops = [*(place for _, place, _ in begins[1:]), ENDLESS]
        known = {"": OmittedKeys(), self.omitted.digest: self.omitted}
        return [
            LivingPlaces(self.order, known[digest], position, place, stop)
            if digest in known
            else None
            for (position, place, digest), stop in zip(begins, stops)
        ]

    @cached_property
    def _begins(self) -> list[int]:
        return [0, *(change.position for change in self.history.changes)]

    def _layer(self, number: int) -> LivingPlaces:
        layer = self._layers[number]
        if layer is None:
            raise CheckpointError(
                f"positions from {self._begins[number]:,} on were read with another omit= than "
                "now, and the state does not contain the keys that were omitted then. Restore "
                "with the omit= of that run. To add keys to omit=, use states that all shards "
                "saved at the same step, before the end, and not while a Pack, window_shuffle or "
                "the like held records back."
            )
        return layer

    def _layer_at(self, position: int) -> LivingPlaces:
        return self._layer(bisect_right(self._begins, position) - 1)

    def places(self, positions: Int64s) -> Int64s:
        """Convert positions to places, both `int64[n]`.

        A position counts kept records only; a place counts omitted records, too.

        Raises:
            CheckpointError: if the keys that were omitted at one of the positions are unknown.
        """
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
        """Convert a position to a place. A place is an index that counts omitted records, too.

        At the start of an epoch, the result is the place of the epoch's first record, even if this
        record is omitted.
        """
        place = int(self.places(np.array([position], dtype=np.int64))[0])
        layer = self._layer_at(position)
        epoch = layer.epoch_of(position)
        return self.order.at(place)[0].epoch_begin(epoch) if self.begins_epoch(position) else place

    def epoch_at(self, position: int) -> int:
        """Return the number, from 0, of the epoch to which a position belongs."""
        return self._layer_at(position).epoch_of(position)

    def epoch_start(self, epoch: int) -> int:
        """Return the position at which an epoch begins.

        Raises:
            CheckpointError: if the keys that were omitted at that time are unknown.
        """
        for layer in self._layers:
            found = None if layer is None else layer.epoch_start(epoch)
            if found is not None:
                return found
        return self._layer(self._layers.index(None)).position

    def begins_epoch(self, position: int) -> bool:
        """Return True if an epoch begins at a position."""
        layer = self._layer_at(position)
        return layer.epoch_start(layer.epoch_of(position)) == position
