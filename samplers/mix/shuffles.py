"""Compute the record keys of elements of many parts of a mix in one call, if each part is a plain shuffle.

In: for each element, the number of its part, and its index in the part's order. Out: record keys
within the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..permutation import Positions
from ..permutations import Shuffles
from ..protocol import VectorSampler

FEW = 512
"""From this number of elements of one part on, the part is computed by a call of its own."""


class PartShuffles:
    """The parts of a mix whose order is one shuffle per epoch and nothing else; other parts are left out.

    Args:
        parts: the samplers of all parts, in the order of their numbers.
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
        """Return the record key, within its part, of each element.

        Args:
            parts: `int64[n]`, the number of the part, one for which `has` is True.
            indices: `int64[n]`, the index of the element in the order of its part.
        """
        which = self._of_part[parts]
        sizes = self._sizes[which]
        epochs = indices // sizes
        return self._shuffles.permute(indices - epochs * sizes, epochs, which)


def _is_plain(part: VectorSampler) -> bool:
    return bool(getattr(part, "is_one_shuffle", False))
