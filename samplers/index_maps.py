"""Index maps: at which index of a dataset the element stands that another dataset, made of it, has at an index.

In: indices of the dataset above, `int64[n]` or one int; an index past the end of a dataset is in its next epoch. Out: indices
of the dataset below. Pure arithmetic, O(1) memory; the scalar form is there because NumPy takes 0.1 ms for a single index.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..common.identity.values import digest_of
from .permutation import permute, permute_one, place_of
from .protocol import ENDLESS

Indices = NDArray[np.int64]


Change = Literal["shuffles", "cuts", "freezes"]
"""What a map does to later epochs: gives each another order; takes a part of each, at fixed places; repeats the first."""


class IndexMap(Protocol):
    """The indices of a dataset of reordered elements."""

    @property
    def length(self) -> int:
        """Number of elements in an epoch of the dataset above; `ENDLESS` for one that never ends."""

    @property
    def epoch_length(self) -> int | None:
        """Number of elements until all of them come again; None: that of the dataset below."""

    @property
    def keeps_indices(self) -> bool:
        """True if indices below are those above."""

    @property
    def change(self) -> Change | None:
        """Its change to the elements of later epochs, or None."""
        return None

    def many(self, indices: Indices) -> Indices:
        """The indices below of indices above."""

    def one(self, index: int) -> int:
        """The index below of one above."""


FEW = 24
"""So many indices are shuffled in less time one by one."""


def parameters_of(index_map: IndexMap) -> list[Any]:
    """The values that tell a map from others; its own `parameters`, if it has them."""
    if hasattr(index_map, "parameters"):
        return list(index_map.parameters)
    name = getattr(index_map, "fingerprint_name", type(index_map).__name__)
    return [name, *dataclasses.astuple(index_map)]  # type: ignore[call-overload]


@dataclass(frozen=True)
class Shuffle:
    """Each epoch in an order of its own.

    Attributes:
        length: of an epoch.
        seed: in `[0, 2^64)`.
        reseeds: False shuffles all epochs alike.
    """

    length: int
    seed: int
    reseeds: bool = True

    keeps_indices: ClassVar[bool] = False

    @property
    def epoch_length(self) -> int | None:
        return self.length

    @property
    def change(self) -> Change | None:
        return "shuffles" if self.reseeds else None

    def many(self, indices: Indices) -> Indices:
        if len(indices) <= FEW:
            return np.array(list(map(self.one, indices.tolist())), dtype=np.int64)
        epochs = indices // self.length
        starts = epochs * self.length
        return (
            permute(indices - starts, epochs if self.reseeds else np.zeros_like(epochs), self.length, self.seed)
            + starts
        )

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return permute_one(place, epoch if self.reseeds else 0, self.length, self.seed) + epoch * self.length


@dataclass(frozen=True)
class ShuffledWindows:
    """Each window of consecutive elements in an order of its own; the last one of an epoch may be smaller.

    Attributes:
        length: of an epoch.
        window: elements.
        seed: in `[0, 2^64)`.
    """

    length: int
    window: int
    seed: int

    fingerprint_name: ClassVar[str] = "WindowShuffle"  # as states know it
    keeps_indices: ClassVar[bool] = False
    change: ClassVar[Change] = "shuffles"

    @property
    def epoch_length(self) -> int | None:
        return self.length

    @property
    def _windows(self) -> int:
        return -(-self.length // self.window)

    def many(self, indices: Indices) -> Indices:
        if len(indices) <= FEW:
            return np.array(list(map(self.one, indices.tolist())), dtype=np.int64)
        epochs = indices // self.length
        starts = epochs * self.length
        windows = (indices - starts) // self.window
        starts += windows * self.window
        numbers, places = epochs * self._windows + windows, indices - starts
        result = np.empty_like(indices)
        last = windows == self._windows - 1
        for chosen, size in ((~last, self.window), (last, self.length - (self._windows - 1) * self.window)):
            if chosen.any():
                result[chosen] = permute(places[chosen], numbers[chosen], size, self.seed)
        return result + starts

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        window, place = divmod(place, self.window)
        start = window * self.window
        size = min(self.window, self.length - start)
        number = epoch * self._windows + window
        return permute_one(place, number, size, self.seed) + start + epoch * self.length


@dataclass(frozen=True)
class BlockPermutation:
    """Blocks of consecutive elements in another order each epoch; within a block the order stays. One block may be smaller.

    Attributes:
        length: of an epoch.
        block: elements.
        seed: in `[0, 2^64)`.
    """

    length: int
    block: int
    seed: int

    fingerprint_name: ClassVar[str] = "BlockShuffle"  # as states know it
    keeps_indices: ClassVar[bool] = False
    change: ClassVar[Change] = "shuffles"

    @property
    def epoch_length(self) -> int | None:
        return self.length

    @property
    def _blocks(self) -> int:
        return -(-self.length // self.block)

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        small, missing = self._small_blocks(epochs), self._blocks * self.block - self.length
        starts = epochs * self.length
        places: Indices = indices - starts
        places += np.where(places >= small + self.block - missing, missing, 0)  # as if the small block were whole
        blocks = places // self.block
        return permute(blocks, epochs, self._blocks, self.seed) * self.block + places - blocks * self.block + starts

    def _small_blocks(self, epochs: Indices) -> Indices:
        """The beginning of the smaller block in the order of each epoch."""
        distinct, which = np.unique(epochs, return_inverse=True)
        begins = np.array([self._small_block(epoch) for epoch in distinct.tolist()], dtype=np.int64)
        return np.take(begins, which)

    def _small_block(self, epoch: int) -> int:
        return place_of(self._blocks - 1, epoch, self._blocks, self.seed) * self.block

    def one(self, index: int) -> int:
        return int(self.many(np.array([index], dtype=np.int64))[0])


@dataclass(frozen=True)
class Repeat:
    """Several epochs, as one.

    Attributes:
        below: length of one of them.
        epochs: how many; None: endless.
        reseeds: False gives the first epoch again and again, whatever else the others are.
    """

    below: int
    epochs: int | None
    reseeds: bool = True

    @property
    def length(self) -> int:
        if self.epochs is None:
            return ENDLESS if self.below else 0
        return min(self.below * self.epochs, ENDLESS)

    @property
    def epoch_length(self) -> int | None:
        return None

    @property
    def keeps_indices(self) -> bool:
        return self.reseeds

    @property
    def change(self) -> Change | None:
        return None if self.reseeds else "freezes"

    def many(self, indices: Indices) -> Indices:
        return indices if self.reseeds else indices % self.below

    def one(self, index: int) -> int:
        return index if self.reseeds else index % self.below


@dataclass(frozen=True)
class Slice:
    """Every so manieth element, from one on.

    Attributes:
        below: length of an epoch below.
        start: first index below.
        step: distance of two, not 0.
        length: number of elements.
    """

    below: int
    start: int
    step: int
    length: int

    @classmethod
    def of(cls, part: slice, below: int, length: int | None = None) -> Slice:
        """A slice of Python's for a dataset of this length. Of an endless one, an endless rest is endless.

        Args:
            part: the slice.
            below: length of the dataset.
            length: the number that the slice takes for the length of an endless dataset; None (default): `below`.
        """
        length = below if length is None else length
        start, stop, step = part.indices(length)
        rest_is_endless = below >= ENDLESS and stop >= length and step > 0 and start < length // 2
        return cls(below, start, step, ENDLESS if rest_is_endless else len(range(start, stop, step)))

    keeps_indices: ClassVar[bool] = False

    @property
    def epoch_length(self) -> int | None:
        return self.length if self.length < ENDLESS else None

    @property
    def change(self) -> Change | None:
        """Every n-th element is the part of a shard, which may well change."""
        return "cuts" if abs(self.step) == 1 and self.length < self.below < ENDLESS else None

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        return self.start + (indices - epochs * self.length) * self.step + epochs * self._epoch_below

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return self.start + place * self.step + epoch * self._epoch_below

    @property
    def _epoch_below(self) -> int:
        """Indices below to the next epoch; what never ends has none, and the same comes again."""
        return self.below if self.below < ENDLESS else 0


@dataclass(frozen=True, eq=False)
class Selected:
    """Some elements of each epoch, at fixed places.

    Attributes:
        below: length of an epoch below.
        keys: `int64[length]`, their places in it.
    """

    below: int
    keys: Indices

    keeps_indices: ClassVar[bool] = False
    change: ClassVar[Change] = "cuts"

    @property
    def length(self) -> int:
        return len(self.keys)

    @property
    def epoch_length(self) -> int | None:
        return self.length

    @cached_property
    def parameters(self) -> list[Any]:
        """A digest, as there may be many."""
        return ["Selected", self.below, self.length, digest_of(self.keys)]

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        found: Indices = self.keys[indices - epochs * self.length] + epochs * self.below
        return found

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return int(self.keys[place]) + epoch * self.below
