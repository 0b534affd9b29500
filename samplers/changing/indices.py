"""An index map of a chain from which records are left out.

In: indices of what is left. Out: indices of the dataset with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..index_maps import Indices
from .sampler import ChangingSampler


@dataclass(frozen=True)
class LivingIndices:
    """The indices, in a dataset, of its elements that are not left out.

    Attributes:
        sampler: that leaves them out.
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
        """The values that tell it from others."""
        return ["LivingIndices", self.sampler.omitted.digest]

    def many(self, indices: Indices) -> Indices:
        return self.sampler.places(indices)

    def one(self, index: int) -> int:
        return int(self.many(np.array([index], dtype=np.int64))[0])
