"""The parts of a mix that are plain shuffles, of which many are computed at once.

In: parts, and indices of their elements. Out: record keys within the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..permutation import Positions
from ..permutations import Shuffles
from ..protocol import VectorSampler

FEW = 512
"""So many elements of a part, and more, are worth a call of its own."""


class PartShuffles:
    """Those of the parts that are nothing but a shuffle of each epoch.

    Args:
        parts: orders in which the parts are read.
    """

    def __init__(self, parts: Sequence[VectorSampler]) -> None:
        self._number = {
            place: number for number, place in enumerate(p for p, part in enumerate(parts) if _is_plain(part))
        }
        plain = [parts[place] for place in self._number]
        sizes = [part.epoch_length for part in plain]
        self._sizes = np.array(sizes, np.int64)
        self._of_part = np.full(len(parts), -1)
        self._of_part[list(self._number)] = np.arange(len(plain))
        self._shuffles = Shuffles(sizes, [part.seed or 0 for part in plain])

    def has(self, part: int) -> bool:
        return part in self._number

    def keys(self, parts: Positions, indices: Positions) -> Positions:
        """The record at each index of its part."""
        which = self._of_part[parts]
        sizes = self._sizes[which]
        epochs = indices // sizes
        return self._shuffles.permute(indices - epochs * sizes, epochs, which)


def _is_plain(part: VectorSampler) -> bool:
    return bool(getattr(part, "is_one_shuffle", False))
