"""Choices, which say from which dataset the element at an index of a joined dataset comes.

In: indices of the joined dataset. Out: for each index, the index of a part (one of the datasets
that are joined), and an index in this part.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from ...common.identity.values import described, described_with_all_attributes, digest
from ...common.messages import short_repr
from ...samplers.chain.index_maps import Indices
from ...samplers.chain.order import ChainOrder
from ...samplers.mix.sampler import MixSampler
from ...samplers.protocol import ENDLESS, VectorSampler


class Choice(Protocol):
    """Base of choices, which say from which part the element at an index of a joined dataset comes.

    The parts are the datasets that are joined. A choice converts an index of the joined dataset to
    the index of a part, and an index in this part.
    """

    @property
    def length(self) -> int:
        """Number of elements in an epoch of the joined dataset."""

    @property
    def parameters(self) -> Any:
        """The values that distinguish this choice from others, as JSON values."""

    @property
    def mixes(self) -> Sequence[Any]:
        """The weights of the mix as plain values, if this choice is a mix; else ().

        States keep them to notice that the weights have changed.
        """
        return ()

    @property
    def selections(self) -> Sequence[Any]:
        """The attributes of a user's selection map, as plain values; () if there is no such map.

        States keep them to notice that the map has changed.
        """
        return ()

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        """Convert indices of the joined dataset to indices of parts, and indices in these parts.

        The parts are the datasets that are joined. The argument and both results are `int64[n]`.
        """

    def one(self, index: int) -> tuple[int, int]:
        """Convert one index of the joined dataset to the index of a part, and an index in it."""
        which, inner = self.many(np.array([index], dtype=np.int64))
        return int(which[0]), int(inner[0])

    def sampler(self, orders: Mapping[str, Any]) -> VectorSampler | None:
        """Return a sampler that draws the same records as this choice, in the same order.

        Return None if there is no such sampler.

        Args:
            orders: the sampler of each part, by name.
        """
        return None


@dataclass(frozen=True)
class OneAfterAnother(Choice):
    """A choice that concatenates: all of the first dataset, then all of the second, and so on.

    An epoch of the joined dataset consists of one epoch of each dataset.

    Attributes:
        lengths: the length of each dataset.
    """

    lengths: tuple[int, ...]

    @cached_property
    def _ends(self) -> Indices:
        return np.cumsum(self.lengths, dtype=np.int64)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    @property
    def parameters(self) -> Any:
        return list(self.lengths)

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        lengths = np.array(self.lengths, dtype=np.int64)
        epochs = indices // self.length
        places = indices - epochs * self.length
        which = np.searchsorted(self._ends, places, side="right")
        return which, places - (self._ends - lengths)[which] + epochs * lengths[which]


@dataclass(frozen=True, eq=False)
class ByMap(Choice):
    """A choice by a user's map from an index to a pair: index of a dataset, index in this dataset.

    Attributes:
        mapping: the user's `selection_map`.
        datasets: number of datasets.
    """

    mapping: Any
    datasets: int

    @property
    def length(self) -> int:
        return len(self.mapping)

    @property
    def parameters(self) -> Any:
        return [self.length, digest(described(self.mapping), 12)]

    @property
    def selections(self) -> list[Any]:
        return [described_with_all_attributes(self.mapping)]

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        places = np.array([self.one(index) for index in indices.tolist()], dtype=np.int64).reshape(
            -1, 2
        )
        return places[:, 0], places[:, 1]

    def one(self, index: int) -> tuple[int, int]:
        number, inner = self.mapping[index]
        if not -self.datasets <= number < self.datasets:
            raise IndexError(
                f"select_from_datasets: the map names dataset {short_repr(number)} at index "
                f"{index}, but there are {self.datasets} datasets. The map must name a dataset "
                f"from 0 to {self.datasets - 1}."
            )
        return operator.index(number) % self.datasets, operator.index(inner)


@dataclass(frozen=True, eq=False)
class ByWeights(Choice):
    """A choice that mixes datasets by weights.

    In the next epoch of the mix, each dataset continues after its last element of the previous
    epoch.

    Attributes:
        lengths: the length of each dataset, by name.
        weights: a list, a dict by name, or a schedule; None for equal weights. See `MixSampler`.
        when_exhausted: what happens when a dataset has run out: "first" ends the mix, "all"
            continues without the dataset, "repeat" continues with its next epoch.
        ramp: True changes weights linearly from one stage of a schedule to the next.
        records_per_step: number of elements in a step of a schedule.
        max_epochs: number of epochs after which a dataset leaves the mix, by name or in a list;
            None for no limits.
    """

    lengths: dict[str, int]
    weights: Any
    when_exhausted: Literal["first", "all", "repeat"]
    ramp: bool
    records_per_step: int
    max_epochs: Any = None

    def sampler(self, orders: Mapping[str, Any]) -> MixSampler:
        return MixSampler(
            orders,
            self.weights,
            when_exhausted=self.when_exhausted,
            max_epochs=self.max_epochs,
            ramp=self.ramp,
            records_per_step=self.records_per_step,
        )

    @cached_property
    def _mix(self) -> MixSampler:
        return self.sampler(
            {name: ChainOrder((), length, length, None) for name, length in self.lengths.items()}
        )

    @cached_property
    def length(self) -> int:
        return len(self._mix)

    @property
    def parameters(self) -> Any:
        return self._mix.fingerprint

    @property
    def mixes(self) -> list[Any]:
        return [[*self._mix.weights_values.values()]]

    @cached_property
    def _numbers(self) -> Indices:
        """The index in `lengths` of each dataset, in the order of `MixOrder.names`."""
        return np.array(list(map(list(self.lengths).index, self._mix.order.names)), dtype=np.int64)

    @cached_property
    def _drawn(self) -> Indices:
        """Number of elements that an epoch of the mix draws from each dataset, `int64[datasets]`.

        For an endless mix, all numbers are 0.
        """
        return (
            self._mix.order.counts(self.length)
            if self.length < ENDLESS
            else np.zeros_like(self._numbers)
        )

    def many(self, indices: Indices) -> tuple[Indices, Indices]:
        if len(indices) == 0:
            return indices, indices
        epochs = indices // self.length
        if self.length >= ENDLESS and indices.min() < 0:
            raise IndexError(
                f"index {indices.min()} is negative, but a mix that never ends has no last element "
                "to count from. Pass an index of at least 0."
            )
        parts, inner = self._mix.order.places(indices - epochs * self.length)
        return self._numbers[parts], inner + epochs * self._drawn[parts]
