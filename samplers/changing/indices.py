"""An index map that omits records from a chain of datasets.

In: indices among the records that are kept. Out: indices of the dataset with all records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..chain.index_maps import IndexMap, Indices
from .sampler import ChangingSampler


@dataclass(frozen=True)
class LivingIndices(IndexMap):
    """Index map of a dataset without some elements: from an index among kept ones to one among all.

    Attributes:
        sampler: the sampler that omits the other elements.
    """

    sampler: ChangingSampler

    @property
    def length(self) -> int:
        return len(self.sampler)

    @property
    def epoch_length(self) -> int:
        return self.sampler.epoch_length

    @property
    def parameters(self) -> list[Any]:
        """The values that distinguish this map from other maps."""
        return ["LivingIndices", self.sampler.omitted.digest]

    def many(self, indices: Indices) -> Indices:
        return self.sampler.places(indices)
