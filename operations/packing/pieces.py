"""Pieces of documents in packed rows: their places as arrays of numbers, without tokens.

Plans of rows consist of such pieces, from which the arrays of rows are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of documents, row by row.

    Attributes:
        documents: `int64[pieces]`, index of the document of each piece; pieces of a row are in the
            order of its segments.
        starts: `int64[pieces, leaves]`, first token of the piece in its document, in each leaf.
        stops: `int64[pieces, leaves]`, token after the last one. A piece may be empty in some
            leaves; in all leaves only if it is an end token alone.
        ends: `int64[rows]`, number of pieces in this and all earlier rows.
        planned: `int64[pieces, leaves]`, planned length of the whole document of each piece; None
            without a plan.
        eos: `bool[pieces, leaves]`, True where an end token follows the piece. None: nowhere.
    """

    documents: Ints
    starts: Ints
    stops: Ints
    ends: Ints
    planned: Ints | None = None
    eos: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.ends)

    @property
    def row_of_piece(self) -> Ints:
        """Row of each piece, `int64[pieces]`."""
        return np.repeat(np.arange(self.rows), self.counts)

    @property
    def rows_by_document(self) -> Ints:
        """Row of each piece, `int64[pieces]`, sorted by document, and within it by start."""
        return self.row_of_piece[np.lexsort((self.starts.sum(axis=1), self.documents))]

    @property
    def counts(self) -> Ints:
        """Number of pieces in each row, `int64[rows]`."""
        return np.diff(self.ends, prepend=0)

    @property
    def sizes(self) -> Ints:
        """Number of tokens of each piece, `int64[pieces, leaves]`, with its end token if any."""
        return self.stops - self.starts + (0 if self.eos is None else self.eos)

    def with_bos(self, sizes: Ints, bos_at: str) -> NDArray[np.bool_]:
        """Return `bool[pieces]`: True for pieces before which a first token is inserted in a leaf.

        Args:
            sizes: `int64[pieces]`, number of tokens of each piece in this leaf. Empty pieces get
                none.
            bos_at: "segments": each piece gets one. "rows": the first piece of each row gets one.
        """
        filled = sizes > 0
        if bos_at == "rows":
            places = np.flatnonzero(filled)
            _, first = np.unique(self.row_of_piece[places], return_index=True)
            filled = np.zeros(len(sizes), np.bool_)
            filled[places[first]] = True
        return filled

    @property
    def spans(self) -> Iterator[list[list[int]]]:
        """For each piece, `[start, stop, length of its document]` for each leaf."""
        assert self.planned is not None, "the lengths of documents are known"
        yield from np.stack([self.starts, self.stops, self.planned], axis=-1).tolist()

    def in_leaves(self, count: int) -> Pieces:
        """Repeat pieces that were planned with one leaf for `count` leaves of equal length."""
        starts, stops = (each.repeat(count, axis=1) for each in (self.starts, self.stops))
        planned = None if self.planned is None else self.planned.repeat(count, axis=1)
        eos = None if self.eos is None else self.eos.repeat(count, axis=1)
        return dataclasses.replace(self, starts=starts, stops=stops, planned=planned, eos=eos)

    def row(self, row: int) -> Pieces:
        """Return the pieces of the row with index `row`."""
        stop = int(self.ends[row])
        start = int(self.ends[row - 1]) if row else 0
        ends = np.array([stop - start])
        planned = None if self.planned is None else self.planned[start:stop]
        eos = None if self.eos is None else self.eos[start:stop]
        return Pieces(
            self.documents[start:stop],
            self.starts[start:stop],
            self.stops[start:stop],
            ends,
            planned,
            eos,
        )


def end_to_end(rows: Sequence[Pieces]) -> Pieces:
    """Join the pieces of several planned rows (at least one) to one `Pieces`."""
    each = zip(*((row.documents, row.starts, row.stops, row.planned) for row in rows))
    documents, starts, stops, planned = map(np.concatenate, each)
    ends = np.cumsum([count for row in rows for count in row.counts.tolist()])
    eos = (
        None
        if rows[0].eos is None
        else np.concatenate([row.eos for row in rows if row.eos is not None])
    )
    return Pieces(documents, starts, stops, ends, planned, eos)


def no_pieces(leaves: int) -> Pieces:
    """Return `Pieces` without a piece or a row, for this number of leaves."""
    none = np.zeros(0, np.int64)
    return Pieces(none, none.reshape(0, leaves), none.reshape(0, leaves), none)
