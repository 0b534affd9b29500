"""An index map that omits records from a chain of datasets.

In: indices among the records that are kept. Out: indices of the dataset with all records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..index_maps import Indices
from .sampler import ChangingSampler


@dataclass(frozen=True)
class LivingIndices:
    """Index map from the kept elements of a dataset to all its elements.

    An index among the kept elements is mapped to the index in the dataset.

    Attributes:
        sampler: the sampler that omits the other elements.
    """

    sampler: ChangingSampler

    keeps_indices: ClassVar[bool] = False
    change: ClassVar[None] = None

    @property
    def length(self) -> int:
        return len(self.sampler)

    @property
    def epoch_length(self) -> int:
        return self.sampler.epoch_length

    @property
    def parameters(self) -> list[Any]:
        """The values that distinguish this map from others."""
        return ["LivingIndices", self.sampler.omitted.digest]

    def many(self, indices: Indices) -> Indices:
        return self.sampler.places(indices)

    def one(self, index: int) -> int:
        return int(self.many(np.array([index], dtype=np.int64))[0])
