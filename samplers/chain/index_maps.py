"""Index maps: convert an index of a reordered dataset to the index of the dataset below it.

In: indices of the dataset above, `int64[n]` or one int; an index past the end of an epoch is in a
later epoch. Out: indices of the dataset below. Pure arithmetic with O(1) memory.
"""
# There is a method for one int since NumPy takes 0.1 ms for a single index.

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ...common.identity.values import digest_of
from ..permutation import permute, permute_one, unpermute
from ..protocol import ENDLESS

Indices = NDArray[np.int64]


Change = Literal["shuffles", "cuts", "freezes"]
"""How a map changes later epochs.

"shuffles": gives each epoch another order; "cuts": keeps a part of each epoch, at fixed places;
"freezes": repeats the first epoch.
"""


class IndexMap:
    """Base of index maps, which are dataclasses.

    An index map converts an index of a reordered dataset to an index of the dataset below, i.e. the
    dataset before the reordering.
    """

    fingerprint_name: ClassVar[str] = ""
    """Name of the map in states; "": the name of the class."""

    if TYPE_CHECKING:

        @property
        def length(self) -> int:
            """Number of elements in an epoch of the reordered dataset; `ENDLESS` for no end."""

    @property
    def epoch_length(self) -> int | None:
        """Number of elements of one pass over the reordered dataset.

        None if it is the same number as for the dataset below, i.e. before the reordering.
        """
        return self.length

    @property
    def keeps_indices(self) -> bool:
        """True if each index of the reordered dataset maps to itself in the dataset below."""
        return False

    @property
    def change(self) -> Change | None:
        """Effect of this reordering on the epochs of the dataset below; None if it has none.

        "shuffles": each epoch gets another order. "cuts": of each epoch, only the elements at
        certain indices are kept, the same indices in every epoch. "freezes": each epoch repeats the
        first one.
        """
        return None

    @property
    def parameters(self) -> list[Any]:
        """The values that distinguish this map from other maps, as JSON values."""
        fields = dataclasses.astuple(self)  # type: ignore[call-overload]
        return [self.fingerprint_name or type(self).__name__, *fields]

    @property
    def selections(self) -> Sequence[Any]:
        """Attributes of a user's own selection map, as plain values; () for all other index maps.

        States keep them to notice that the map has changed.
        """
        return ()

    def many(self, indices: Indices) -> Indices:
        """Convert indices of the reordered dataset to indices of the dataset below.

        Args:
            indices: `int64[n]`.

        Returns:
            `int64[n]`.
        """
        raise NotImplementedError

    def one(self, index: int) -> int:
        """Convert one index of the reordered dataset to the index of the dataset below."""
        return int(self.many(np.array([index], dtype=np.int64))[0])


FEW = 24
"""Up to this number of indices, they are shuffled one by one, which is faster."""


@dataclass(frozen=True)
class Shuffle(IndexMap):
    """Index map that shuffles the elements of each epoch.

    Attributes:
        length: number of elements of an epoch.
        seed: in `[0, 2^64)`.
        reseeds: True gives each epoch another order; False gives all epochs the same order.
    """

    length: int
    seed: int
    reseeds: bool = True

    @property
    def change(self) -> Change | None:
        return "shuffles" if self.reseeds else None

    def many(self, indices: Indices) -> Indices:
        if len(indices) <= FEW:
            return np.array(list(map(self.one, indices.tolist())), dtype=np.int64)
        epochs = indices // self.length
        starts = epochs * self.length
        return (
            permute(
                indices - starts,
                epochs if self.reseeds else np.zeros_like(epochs),
                self.length,
                self.seed,
            )
            + starts
        )

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return (
            permute_one(place, epoch if self.reseeds else 0, self.length, self.seed)
            + epoch * self.length
        )


@dataclass(frozen=True)
class ShuffledWindows(IndexMap):
    """Index map that shuffles the elements within each window of consecutive elements.

    Each epoch has another order. The last window of an epoch may be smaller.

    Attributes:
        length: number of elements of an epoch.
        window: number of elements of a window.
        seed: in `[0, 2^64)`.
    """

    length: int
    window: int
    seed: int

    fingerprint_name: ClassVar[str] = "WindowShuffle"  # as states know it
    change: ClassVar[Change] = "shuffles"

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
        for chosen, size in (
            (~last, self.window),
            (last, self.length - (self._windows - 1) * self.window),
        ):
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
class BlockPermutation(IndexMap):
    """Index map that permutes blocks of consecutive elements, in another order in each epoch.

    Elements within a block keep their order. One block may be smaller.

    Attributes:
        length: number of elements of an epoch.
        block: number of elements of a block.
        seed: in `[0, 2^64)`.
    """

    length: int
    block: int
    seed: int

    fingerprint_name: ClassVar[str] = "BlockShuffle"  # as states know it
    change: ClassVar[Change] = "shuffles"

    @property
    def _blocks(self) -> int:
        return -(-self.length // self.block)

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        small, missing = self._small_blocks(epochs), self._blocks * self.block - self.length
        starts = epochs * self.length
        places: Indices = indices - starts
        # As if the small block were whole.
        places += np.where(places >= small + self.block - missing, missing, 0)
        blocks = places // self.block
        return (
            permute(blocks, epochs, self._blocks, self.seed) * self.block
            + places
            - blocks * self.block
            + starts
        )

    def _small_blocks(self, epochs: Indices) -> Indices:
        """Return the index within each epoch at which the dataset's last block begins.

        This block may have fewer elements than the others.

        Args:
            epochs: `int64[n]`, numbers of epochs.

        Returns:
            `int64[n]`, an index for each epoch.
        """
        distinct, which = np.unique(epochs, return_inverse=True)
        last = np.full_like(distinct, self._blocks - 1)
        begins = unpermute(last, distinct, self._blocks, self.seed) * self.block
        return np.take(begins, which)


@dataclass(frozen=True)
class Repeat(IndexMap):
    """Index map that treats several epochs of a dataset as one.

    Attributes:
        below: number of elements of one epoch of the dataset.
        epochs: number of epochs; None for no end.
        reseeds: True (default): the epochs of the dataset are read one after another. False: the
            first epoch is read again and again.
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
class Slice(IndexMap):
    """Index map that selects every `step`-th element of each epoch of a dataset.

    Attributes:
        below: number of elements of an epoch of the dataset.
        start: index, in the epoch, of the first selected element.
        step: difference between the indices of consecutive selected elements; below 0 for a
            reversed order, never 0.
        length: number of selected elements of an epoch.
    """

    below: int
    start: int
    step: int
    length: int

    @classmethod
    def of(cls, part: slice, below: int, length: int | None = None) -> Slice:
        """Return the map for a Python slice of a dataset.

        A slice with a positive step to the end of an endless dataset is endless, unless it starts
        in the second half of the indices, as a negative start does.

        Args:
            part: the slice.
            below: length of the dataset.
            length: length with which the slice's bounds are computed, if the dataset is endless;
                None (default): `below`.
        """
        length = below if length is None else length
        start, stop, step = part.indices(length)
        rest_is_endless = below >= ENDLESS and stop >= length and step > 0 and start < length // 2
        return cls(
            below, start, step, ENDLESS if rest_is_endless else len(range(start, stop, step))
        )

    @property
    def epoch_length(self) -> int | None:
        return self.length if self.length < ENDLESS else None

    @property
    def change(self) -> Change | None:
        """Return "cuts" if the map keeps only some consecutive elements of a finite dataset.

        Return None otherwise.
        """
        # Every n-th element is a shard's part, which may well change when a run resumes.
        return "cuts" if abs(self.step) == 1 and self.length < self.below < ENDLESS else None

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        return (
            self.start + (indices - epochs * self.length) * self.step + epochs * self._epoch_below
        )

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return self.start + place * self.step + epoch * self._epoch_below

    @property
    def _epoch_below(self) -> int:
        """Number of elements in an epoch of the sliced dataset; 0 if it never ends."""
        # An endless dataset has no next epoch: the same elements come again.
        return self.below if self.below < ENDLESS else 0


@dataclass(frozen=True, eq=False)
class Selected(IndexMap):
    """Index map that selects elements by their indices within an epoch, the same in each epoch.

    Attributes:
        below: number of elements in an epoch of the dataset from which elements are selected.
        keys: `int64[length]`, the indices of the selected elements within an epoch of this dataset.
    """

    below: int
    keys: Indices

    change: ClassVar[Change] = "cuts"

    @property
    def length(self) -> int:
        return len(self.keys)

    @cached_property
    def parameters(self) -> list[Any]:
        """The values that distinguish this map from others, with a digest of `keys`."""
        return ["Selected", self.below, self.length, digest_of(self.keys)]

    def many(self, indices: Indices) -> Indices:
        epochs = indices // self.length
        found: Indices = self.keys[indices - epochs * self.length] + epochs * self.below
        return found

    def one(self, index: int) -> int:
        epoch, place = divmod(index, self.length)
        return int(self.keys[place]) + epoch * self.below
