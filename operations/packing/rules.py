"""By what rules documents are packed: a plain value, and the pieces that follow from the lengths of documents alone.

In: lengths. Out: pieces. Pure: the same whether the documents were read or not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .concat import concat_then_split
from .fit import best_fit, first_fit
from .pieces import Ints, Pieces, no_pieces

Strategy = Literal["best_fit", "first_fit", "concat_then_split"]
TooLong = Literal["split", "cut", "error"]

STRATEGIES = {"best_fit": best_fit, "first_fit": first_fit, "concat_then_split": concat_then_split}
TOO_LONG = ("split", "cut", "error")


@dataclass(frozen=True)
class Rules:
    """How documents are packed.

    Attributes:
        capacity: the length of a row, in each leaf.
        strategy: which row a document goes to.
        max_segments: pieces that a row may have; None: any number.
        too_long: what becomes of documents that are longer than a row.
    """

    capacity: tuple[int, ...]
    strategy: Strategy
    max_segments: int | None
    too_long: TooLong

    def refused(self, lengths: Ints) -> Ints:
        """The numbers of the documents that are too long to be taken."""
        if self.too_long != "error":
            return np.zeros(0, np.int64)
        return np.flatnonzero((lengths > np.array(self.capacity)).any(axis=1))

    def pieces(self, lengths: Ints) -> Pieces:
        """Where documents of these lengths, `int64[documents, leaves]`, stand. One without any token stands nowhere."""
        capacity = np.array(self.capacity, dtype=np.int64)
        numbers = np.flatnonzero(lengths.any(axis=1))
        if not len(numbers):
            return no_pieces(len(capacity))
        lengths = lengths[numbers]
        if self.too_long == "cut":
            lengths = np.minimum(lengths, capacity)
        found = STRATEGIES[self.strategy](lengths, capacity, self.max_segments)
        return dataclasses.replace(found, documents=numbers[found.documents])
