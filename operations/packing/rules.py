"""By what rules documents are packed: a plain value, and the pieces that follow from the lengths of documents alone.

In: lengths. Out: pieces. Pure: the same whether the documents were read or not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .concat import concat_then_split
from .fit import best_fit, first_fit, in_rows, split
from .pieces import Ints, Pieces, no_pieces

Strategy = Literal["best_fit", "first_fit", "concat_then_split"]
TooLong = Literal["split", "cut", "error"]

FITS = {"best_fit": best_fit, "first_fit": first_fit}
STRATEGIES = (*FITS, "concat_then_split")
TOO_LONG = ("split", "cut", "error")


@dataclass(frozen=True)
class Rules:
    """The rules by which documents are packed."""

    capacity: tuple[int, ...]  # the length of a row, in each leaf
    strategy: Strategy  # which row a document goes to
    max_segments: int | None  # pieces that a row may have; None: any number
    too_long: TooLong  # what becomes of documents that are longer than a row

    def refused(self, lengths: Ints) -> Ints:
        """The numbers of the documents that are too long to be taken."""
        if self.too_long != "error":
            return np.zeros(0, np.int64)
        return np.flatnonzero((lengths > np.array(self.capacity)).any(axis=1))

    def pieces(self, lengths: Ints, rows: Ints | None = None) -> Pieces:
        """The rows of documents of these lengths, `int64[documents, leaves]`. One without any token is in none.

        Args:
            lengths: as above.
            rows: `rows_by_document` of the same lengths, if known: most of the time goes into these.
        """
        capacity = np.array(self.capacity, dtype=np.int64)
        numbers = np.flatnonzero(lengths.any(axis=1))
        if not len(numbers):
            return no_pieces(len(capacity))
        lengths = lengths[numbers]
        if self.too_long == "cut":
            lengths = np.minimum(lengths, capacity)
        if self.strategy == "concat_then_split":
            found = concat_then_split(lengths, capacity, self.max_segments)
        else:
            documents, starts, stops = split(lengths, capacity)
            if rows is None:
                rows = FITS[self.strategy](stops - starts, capacity, self.max_segments)
            found = in_rows(documents, starts, stops, rows)
        return dataclasses.replace(found, documents=numbers[found.documents])
