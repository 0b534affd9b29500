"""Grain's orders of datasets, as the index maps and choices that headrace's dataset nodes use.

In: indices of a dataset. Out: indices of the dataset below; for a mix, also the index of the
dataset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ....chains.nodes.choices import Choice
from ....common.messages import shorten
from ....samplers.chain.index_maps import IndexMap, Indices
from ....samplers.grain.grain_order import shuffled, shuffled_one
from ....samplers.protocol import ENDLESS

WORD = 1 << 32


class _ByGroup(IndexMap):
    """Shuffle of groups of consecutive indices: each group in Grain's order for its seed.

    The seed of a group is `seed` plus the index of the group.

    Attributes:
        length: number of elements of an epoch.
        seed: in `[0, 2^32)`.
    """

    length: int
    seed: int

    # `change` stays None: Grain's programs get what Grain gives, without a word of ours.

    @property
    def group(self) -> int:
        """The number of indices in a group."""
        return self.length

    def many(self, indices: Indices) -> Indices:
        groups, places = np.divmod(indices, self.group)
        order = np.argsort(groups, kind="stable")
        numbers, starts = np.unique(groups[order], return_index=True)
        found = groups * self.group
        for number, (start, stop) in zip(
            numbers.tolist(), pairwise([*starts.tolist(), len(order)])
        ):
            chosen = order[start:stop]
            found[chosen] += shuffled(places[chosen], self.group - 1, (self.seed + number) % WORD)
        return found

    def one(self, index: int) -> int:
        number, place = divmod(index, self.group)
        return (
            shuffled_one(place, self.group - 1, (self.seed + number) % WORD) + number * self.group
        )


@dataclass(frozen=True)
class Shuffle(_ByGroup):
    """A shuffle of each epoch, with another order for each epoch.

    Attributes:
        length: number of elements of an epoch.
        seed: in `[0, 2^32)`.
    """

    length: int
    seed: int


@dataclass(frozen=True)
class WindowShuffle(_ByGroup):
    """A shuffle of each window of consecutive indices.

    Windows are counted without regard to epochs.

    Attributes:
        window: number of indices in a window.
        seed: in `[0, 2^32)`.
        length: number of elements of an epoch.
    """

    window: int
    seed: int
    length: int

    @property
    def group(self) -> int:
        return self.window


@dataclass(frozen=True)
class Mix(Choice):
    """A mix in proportion to weights.

    The index into each dataset only grows, also past the end of its epoch.

    Attributes:
        lengths: the length of each dataset.
        weights: a whole number for each dataset, from `whole_weights`.
    """

    lengths: tuple[int, ...]
    weights: tuple[int, ...]

    @cached_property
    def length(self) -> int:
        """The number of elements, as in Grain: no dataset delivers an element twice.

        It is at most `sys.maxsize`.
        """
        total = sum(self.weights)
        return min(
            ENDLESS,
            int(
                min(length / (weight / total) for length, weight in zip(self.lengths, self.weights))
            ),
        )

    @property
    def parameters(self) -> Any:
        return [list(self.lengths), list(self.weights)]

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return, for indices `int64[n]`, those of the datasets and those in them, `int64[n]` each.

        The first dataset takes its share (by weight) of all indices; the second takes its share of
        the remaining indices, and so on.
        """
        which = np.full(len(indices), -1, dtype=np.int64)
        inner = np.zeros(len(indices), dtype=np.int64)
        before, after, left = indices, indices + 1, sum(self.weights)
        for number, weight in enumerate(self.weights):
            others_before, others_after = (
                _share(before, left - weight, left),
                _share(after, left - weight, left),
            )
            taken = after - others_after
            chosen = (which < 0) & (before - others_before != taken)
            which[chosen], inner[chosen] = number, taken[chosen] - 1
            before, after, left = others_before, others_after, left - weight
        return which, inner

    def one(self, index: int) -> tuple[int, int]:
        before, after, left = index, index + 1, sum(self.weights)
        for number, weight in enumerate(self.weights):
            others_before, others_after = (
                before * (left - weight) // left,
                after * (left - weight) // left,
            )
            if before - others_before != (taken := after - others_after):
                return number, taken - 1
            before, after, left = others_before, others_after, left - weight
        raise AssertionError(
            f"no dataset of the mix contains element {index}. This is a fault in headrace. Report "
            "it, with the output of `headrace report PROGRAM.py`."
        )


def _share(counts: Indices, part: int, whole: int) -> Indices:
    """Return `counts * part // whole` for each count, without integer overflow."""
    times, rest = np.divmod(counts, whole)
    shared: Indices = times * part + rest * part // whole
    return shared


def whole_weights(weights: Sequence[float] | None, count: int) -> tuple[int, ...]:
    """Convert weights to whole numbers as Grain does.

    The smallest weight becomes 100, or 99 by rounding of floats; the others are scaled alike and
    cut to whole numbers.

    Args:
        weights: a positive number for each dataset; None for equal weights, which gives all 1.
        count: number of datasets.

    Raises:
        ValueError: if a weight is not positive and finite, or the number of weights is not `count`.

    >>> whole_weights([0.7, 0.3], 2)
    (233, 100)
    """
    if weights is None:
        return (1,) * count
    scale = 100 / min(weights) if len(weights) == count and min(weights) > 0 else np.inf
    scaled = [weight * scale for weight in weights]
    if not all(map(math.isfinite, scaled)):
        raise ValueError(
            "Must specify all non-zero proportions for mixing. The weights are "
            f"{shorten(list(weights))}. Pass {count} finite positive numbers of similar size, one "
            "for each dataset."
        )
    return tuple(map(int, scaled))
