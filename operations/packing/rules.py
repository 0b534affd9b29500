"""Rules of packing. They compute the pieces in each row from the lengths of the documents."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .concat import concat_then_split
from .fit import best_fit, first_fit, in_rows, next_fit, split
from .pieces import Ints, Pieces, no_pieces

Strategy = Literal["best_fit", "first_fit", "next_fit", "concat_then_split"]
TooLong = Literal["split", "cut", "error"]

FITS = {"best_fit": best_fit, "first_fit": first_fit, "next_fit": next_fit}
STRATEGIES = (*FITS, "concat_then_split")
TOO_LONG = ("split", "cut", "error")


@dataclass(frozen=True)
class Rules:
    """Rules of packing.

    Attributes:
        capacity: length of a row in each leaf.
        strategy: how the row of a document is chosen.
        max_segments: maximum number of pieces in a row; None: no limit.
        too_long: what happens to documents that are longer than a row.
        bos: for each leaf True if a first token is inserted; (): in no leaf.
        bos_at: where it is inserted: "segments" or "rows".
        eos: for each leaf True if an end token is inserted after each document; (): in no leaf.
    """

    capacity: tuple[int, ...]
    strategy: Strategy
    max_segments: int | None
    too_long: TooLong
    bos: tuple[bool, ...] = ()
    bos_at: str = "segments"
    eos: tuple[bool, ...] = ()

    @property
    def _capacity(self) -> Ints:
        """Length of rows in each leaf, `int64[leaves]`, without a first token that rows get."""
        return np.array(self.capacity, np.int64) - (
            self._added(self.bos) if self.bos_at == "rows" else 0
        )

    @property
    def _bos(self) -> Ints:
        """Number of tokens inserted before each piece in each leaf, `int64[leaves]`, 0 or 1."""
        return self._added(self.bos if self.bos_at == "segments" else ())

    def _added(self, where: tuple[bool, ...]) -> Ints:
        return np.array(where or [0] * len(self.capacity), np.int64)

    def refused(self, lengths: Ints) -> Ints:
        """Return the indices of documents that are too long; none unless `too_long` is "error".

        Args:
            lengths: `int64[documents, leaves]`.
        """
        if self.too_long != "error":
            return np.zeros(0, np.int64)
        room = self._capacity - self._bos - self._added(self.eos)
        return np.flatnonzero((lengths > room).any(axis=1))

    def pieces(self, lengths: Ints, rows: Ints | None = None) -> Pieces:
        """Return the pieces of documents with these lengths, by rows.

        Documents without a token are in no row.

        Args:
            lengths: `int64[documents, leaves]`.
            rows: `Pieces.rows_by_document` of the same documents, if known. Otherwise computing it
                takes most of the time.
        """
        capacity, bos, eos = self._capacity, self._bos, self._added(self.eos)
        numbers = np.flatnonzero(lengths.any(axis=1))
        if not len(numbers):
            return no_pieces(len(capacity))
        lengths = lengths[numbers]
        if self.too_long == "cut":
            lengths = np.minimum(lengths, capacity - bos - eos)
        ended = lengths + np.where(lengths > 0, eos, 0)
        if self.strategy == "concat_then_split":
            found = concat_then_split(ended, capacity, self.max_segments, bos)
        else:
            documents, starts, stops = split(ended, capacity - bos)
            if rows is None:
                sizes = stops - starts
                rows = FITS[self.strategy](
                    np.where(sizes > 0, sizes + bos, 0), capacity, self.max_segments
                )
            found = in_rows(documents, starts, stops, rows)
        if self.eos:
            found = _without_eos(found, lengths[found.documents])
        return dataclasses.replace(found, documents=numbers[found.documents])

    def costed_sizes(self, pieces: Pieces) -> Ints:
        """Return each piece's number of tokens, with inserted ones, `int64[pieces, leaves]`."""
        sizes = pieces.sizes
        for leaf in np.flatnonzero(self.bos).tolist():
            sizes[:, leaf] += pieces.with_bos(sizes[:, leaf], self.bos_at)
        return sizes


def _without_eos(found: Pieces, lengths: Ints) -> Pieces:
    """Return pieces without end tokens, and mark where they go.

    End tokens had counted as the last token of each document.

    Args:
        found: pieces with end tokens.
        lengths: `int64[pieces, leaves]`, length of the document of each piece, without its end
            token.

    >>> starts, stops = np.array([[0], [2]]), np.array([[2], [4]])
    >>> whole = Pieces(np.array([0, 0]), starts, stops, np.array([1, 2]))
    >>> without = _without_eos(whole, np.array([[3], [3]]))
    >>> without.stops.tolist(), without.eos.tolist()
    ([[2], [3]], [[False], [True]])
    """
    eos = (found.stops > lengths) & (found.stops > found.starts)
    starts, stops = np.minimum(found.starts, lengths), np.minimum(found.stops, lengths)
    return dataclasses.replace(found, starts=starts, stops=stops, eos=eos)
