"""Convert positions (they count kept records) to places (they count omitted ones, too), and back.

Memory: the omitted keys, and their places in at most two epochs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.identity.values import digest_of
from ..protocol import ENDLESS, Int64s
from .stretches import OrderStretch, WholeOrder

_NARROW = 1 << 32
"""Keys (or places) take 4 bytes each if all of them are below this number, else 8 bytes each."""


class OmittedKeys:
    """Sorted keys of records that are never read.

    They take 4 bytes of memory per key, or 8 if a key is 2^32 or above.

    Args:
        keys: ints, 0 or more, in any order; keys may be repeated.

    >>> omitted = OmittedKeys([5, 2, 2])
    >>> omitted.keys.tolist(), omitted.below(5)
    ([2, 5], 1)
    """

    def __init__(self, keys: Any = ()) -> None:
        once = np.unique(np.asarray(keys if len(keys) else [], dtype=np.int64))
        self.keys: NDArray[Any] = (
            once.astype(np.uint32) if not len(once) or once[-1] < _NARROW else once
        )

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def digest(self) -> str:
        """A text that identifies the keys: their number and a digest; "" if no keys are omitted."""
        return f"{len(self.keys)} {digest_of(self.keys)}" if len(self.keys) else ""

    def below(self, records: int) -> int:
        """Return the number of omitted keys that are less than `records`."""
        if not len(self.keys) or records > int(self.keys[-1]):
            return len(self.keys)
        # Of one type: else NumPy copies the keys.
        return int(np.searchsorted(self.keys, self.keys.dtype.type(records)))


class _Piece(NamedTuple):
    """A piece of an order with omitted records: whole epochs of equal size, or a part of one epoch.

    A place counts all records, omitted ones too; a position counts kept records.

    Attributes:
        position: position of the piece's first kept record.
        place: place at which the piece begins.
        epoch: number of the piece's first epoch.
        full: number of places in each epoch, including omitted records.
        left: number of kept records in each epoch.
        stretch: the `OrderStretch` (places that are ordered in one way) that contains the piece.
        is_part: True if the piece is a part of one epoch.
    """

    position: int
    place: int
    epoch: int
    full: int
    left: int
    stretch: OrderStretch
    is_part: bool


class LivingPlaces:
    """A range of an order with omitted records: converts positions to places and back.

    A position counts kept records only; a place counts omitted records, too.

    Args:
        order: the order of all records.
        omitted: keys of the omitted records.
        position: position of the range's first kept record.
        place: place at which the range begins.
        stop: place at which the range ends, excluded.
    """

    def __init__(
        self, order: WholeOrder, omitted: OmittedKeys, position: int, place: int, stop: int
    ) -> None:
        self.order, self.omitted = order, omitted
        self.position, self.place, self.stop = position, place, stop
        self._known: dict[tuple[int, int], NDArray[Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickling, without cached values."""
        made = ("_pieces", "_positions")
        kept = {name: value for name, value in vars(self).items() if name not in made}
        return {**kept, "_known": {}}

    @cached_property
    def _pieces(self) -> list[_Piece]:
        return list(self._made())

    @cached_property
    def _positions(self) -> Int64s:
        return np.array([piece.position for piece in self._pieces], dtype=np.int64)

    def _made(self) -> Iterator[_Piece]:
        position, place = self.position, self.place
        while place < self.stop:
            stretch, stop = self.order.at(place)
            epoch = stretch.epoch_of(place)
            is_part = not stretch.begins_epoch(place)
            end = stretch.end_of(epoch) if is_part else stop
            full = end - place if is_part else stretch.records
            left = full - (
                len(self._gaps_in(stretch, epoch, place, full))
                if is_part
                else self.omitted.below(stretch.records)
            )
            yield _Piece(position, place, epoch, full, left, stretch, is_part)
            position += left if is_part or stop == ENDLESS else (end - place) // full * left
            place = end

    def places(self, positions: Int64s) -> Int64s:
        """Convert positions to places, both `int64[n]`.

        A position counts kept records only; a place counts omitted records, too.
        """
        if not len(self.omitted):
            return positions + (self.place - self.position)
        if not len(positions):
            return positions
        first, last = np.searchsorted(
            self._positions, [positions.min(), positions.max()], side="right"
        ).tolist()
        if first == last:
            return self._places_in(self._pieces[first - 1], positions)
        places = np.empty_like(positions)
        numbers = np.searchsorted(self._positions, positions, side="right")
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            places[chosen] = self._places_in(self._pieces[number - 1], positions[chosen])
        return places

    def _places_in(self, piece: _Piece, positions: Int64s) -> Int64s:
        indices = positions - piece.position
        first, last = (
            int(indices.min()) // max(piece.left, 1),
            int(indices.max()) // max(piece.left, 1),
        )
        if first == last:
            indices -= first * piece.left
            return (
                indices
                + _added(self._gaps(piece, first), indices)
                + (first * piece.full + piece.place)
            )
        epochs = indices // piece.left
        places = indices - epochs * piece.left
        for epoch in (
            range(first, last + 1) if last - first < len(indices) else np.unique(epochs).tolist()
        ):
            chosen = np.flatnonzero(epochs == epoch)
            places[chosen] += _added(self._gaps(piece, epoch), places[chosen])
        return places + epochs * piece.full + piece.place

    def _gaps(self, piece: _Piece, number: int) -> NDArray[Any]:
        """Return the number of kept records before each record that is omitted in an epoch.

        Args:
            piece: a piece of the order: several whole epochs, or a part of one.
            number: number of the epoch within the piece, from 0.

        Returns:
            an array with one number for each omitted record, ascending.
        """
        known = self._known.get((piece.place, number))
        if known is None:
            begin = piece.place + number * piece.full
            known = self._gaps_in(piece.stretch, piece.epoch + number, begin, piece.full)
            kept = 1 if known.dtype.itemsize == 4 else 0
            # Replaced as a whole.
            self._known = dict(list(self._known.items())[-kept:] if kept else [])
            self._known[piece.place, number] = known
        return known

    def _gaps_in(self, stretch: OrderStretch, epoch: int, begin: int, count: int) -> NDArray[Any]:
        found = np.empty(
            self.omitted.below(stretch.records), dtype=np.uint32 if count < _NARROW else np.int64
        )
        done = 0
        for start in range(0, len(found), 1 << 16):
            keys = self.omitted.keys[start : min(start + (1 << 16), len(found))].astype(np.int64)
            places = stretch.places_of(keys, epoch) - begin
            here = places[(places >= 0) & (places < count)]
            found[done : done + len(here)] = here
            done += len(here)
        gaps = found[:done] if done == len(found) else found[:done].copy()
        gaps.sort()
        np.subtract(gaps, np.arange(done, dtype=gaps.dtype), out=gaps)
        return gaps

    def position_of(self, place: int) -> int | None:
        """Return the position of the record at a place, or None if this record is omitted.

        A position counts kept records only; a place counts omitted records, too.
        """
        if not len(self.omitted):
            return place - self.place + self.position
        piece = self._pieces[bisect_right(self._pieces, place, key=attrgetter("place")) - 1]
        number, within = divmod(place - piece.place, piece.full)
        gaps = self._gaps(piece, number)
        index = within - _count_before(gaps, within)
        is_left = index + int(_added(gaps, np.array([index], dtype=np.int64))[0]) == within
        return piece.position + number * piece.left + index if is_left else None

    def epoch_of(self, position: int) -> int:
        """Return the number of the epoch to which a position belongs."""
        if not len(self.omitted):
            place = position - self.position + self.place
            return self.order.at(place)[0].epoch_of(place)
        piece = self._pieces[int(np.searchsorted(self._positions, position, side="right")) - 1]
        return piece.epoch + (
            0 if piece.is_part else (position - piece.position) // max(piece.left, 1)
        )

    def epoch_start(self, epoch: int) -> int | None:
        """Return the position at which an epoch begins.

        Return None if it begins outside the range of this object.
        """
        for piece in self._pieces:
            place = piece.place + (epoch - piece.epoch) * piece.full
            if (
                epoch >= piece.epoch
                and not piece.is_part
                and place < min(self.order.at(piece.place)[1], self.stop)
            ):
                return piece.position + (epoch - piece.epoch) * piece.left
        return None


def _added(gaps: NDArray[Any], indices: Int64s) -> Int64s:
    """Return, for each index among the kept records, the number of omitted places before it.

    Args:
        gaps: for each omitted place, the number of kept records before it, ascending.
        indices: `int64[n]`, indices among the kept records.
    """
    if not len(indices) or not len(gaps):
        return np.zeros_like(indices)
    # Of another type, NumPy would copy all gaps.
    ends = np.array([indices.min(), indices.max()], dtype=gaps.dtype)
    low, high = np.searchsorted(gaps, ends, side="right").tolist()
    near = gaps[low:high].astype(np.int64)
    if len(near) * 2 > len(indices) or not (indices[1:] >= indices[:-1]).all():
        found: Int64s = np.searchsorted(near, indices, side="right") + low
        return found
    # Few gaps: each is looked for, in place of each index.
    begins = np.searchsorted(indices, near, side="left")
    counts: Int64s = np.cumsum(np.bincount(begins, minlength=len(indices))) + low
    return counts


def _count_before(gaps: NDArray[Any], place: int) -> int:
    """Return the number of omitted places before `place`.

    A place is an index that counts omitted records, too.

    Args:
        gaps: for each omitted place, the number of kept records before it, ascending; counted from
            the start of an epoch, or of a part of an epoch.
        place: a place, counted from the same start.
    """
    return bisect_left(range(len(gaps)), place, key=lambda number: int(gaps[number]) + number)
