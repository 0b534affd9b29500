"""Choose a row with enough space for each piece of a document.

Only documents longer than a row are split. A piece fits into a row if there is space for it in all
leaves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from .pieces import Ints, Pieces

# With 1,000 documents of 500 tokens on average (exponential, uniform, lognormal, gamma, normal
# lengths) and rows of 2,048, best fit alone fills 99.5 to 99.8 %; but its last rows have forty
# pieces, and with at most 16, it fills 97.7 to 99.5 %. The best of it and these shares then fills
# 99.5 to 99.7 %; with at most 8, 98.0 to 99.5 %.
SPREADS = (0.5, 0.75, 0.85)
"""Shares of all tokens, in the longest pieces, that are first spread evenly over the rows.

The other pieces then fill the rows.

Each share is tried if the number of pieces in a row is limited. The result with the fewest rows
counts.
"""

Choose = Callable[[list[Ints], list[int], int], int]
"""Type of a function that chooses the row of a piece.

It takes, for each leaf, the free space in each row; the size of the piece in each leaf; and the
number of rows, of which the last one is empty.
"""


def best_fit(sizes: Ints, capacity: Ints, most: int | None) -> Ints:
    """Return the row of each piece, `int64[pieces]`.

    The longest piece is placed first, and each where it leaves the least space.

    With `most`, the longest pieces are first spread over all rows, if that needs fewer rows.

    Args:
        sizes: `int64[pieces, leaves]`, number of tokens of each piece.
        capacity: `int64[leaves]`, length of a row in each leaf.
        most: maximum number of pieces in a row; None: no limit.
    """
    share = (sizes / capacity).max(axis=1)
    order = np.argsort(-share, kind="stable")
    tokens = np.cumsum(share[order])
    bins = Bins(sizes, capacity, most)
    bins.put_tightly(order)
    for spread in SPREADS if most is not None else ():
        if bins.count == bins.fewest:
            break
        others = Bins(sizes, capacity, most)
        long = int(np.searchsorted(tokens, spread * tokens[-1]))
        others.put_tightly(np.concatenate([others.spread(order[:long]), order[long:]]))
        bins = min(bins, others, key=lambda one: one.count)
    return bins.rows()


def first_fit(sizes: Ints, capacity: Ints, most: int | None) -> Ints:
    """Return the row of each piece, `int64[pieces]`: in their order, the first with enough space.

    Args:
        sizes: `int64[pieces, leaves]`, number of tokens of each piece.
        capacity: `int64[leaves]`, length of a row in each leaf.
        most: maximum number of pieces in a row; None: no limit.
    """
    bins = Bins(sizes, capacity, most)
    bins.put(np.arange(len(sizes)), _first)
    return bins.rows()


def next_fit(sizes: Ints, capacity: Ints, most: int | None) -> Ints:
    """Return the row of each piece, `int64[pieces]`: that of the piece before, or a new one.

    Args:
        sizes: `int64[pieces, leaves]`, number of tokens of each piece.
        capacity: `int64[leaves]`, length of a row in each leaf.
        most: maximum number of pieces in a row; None: no limit.
    """
    bins = Bins(sizes, capacity, most)
    bins.put(np.arange(len(sizes)), _last)
    return bins.rows()


def _fullest(spaces: list[Ints], size: list[int], rows: int) -> int:
    left = spaces[0][:rows] - size[0]  # in the fullest leaf
    for space, tokens in zip(spaces[1:], size[1:]):
        np.minimum(left, space[:rows] - tokens, out=left)
    # What is below 0 does not fit, and is the largest of numbers so.
    return int(left.view(np.uint64).argmin())


def _first(spaces: list[Ints], size: list[int], rows: int) -> int:
    fits = spaces[0][:rows] >= size[0]
    for space, tokens in zip(spaces[1:], size[1:]):
        fits &= space[:rows] >= tokens
    return int(fits.argmax())


def _last(spaces: list[Ints], size: list[int], rows: int) -> int:
    last = max(rows - 2, 0)
    return last if all(space[last] >= tokens for space, tokens in zip(spaces, size)) else rows - 1


def split(lengths: Ints, capacity: Ints) -> tuple[Ints, Ints, Ints]:
    """Split documents into pieces that are not longer than a row.

    Args:
        lengths: `int64[documents, leaves]`.
        capacity: `int64[leaves]`, length of a row in each leaf.

    Returns:
        the document of each piece, `int64[pieces]`; its first token, and the token after its last
        one, in each leaf, `int64[pieces, leaves]` each.
    """
    counts = (-(-lengths // capacity)).max(axis=1)
    documents = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.minimum(number[:, None] * capacity, lengths[documents])
    return documents, starts, np.minimum(starts + capacity, lengths[documents])


def in_rows(documents: Ints, starts: Ints, stops: Ints, rows: Ints) -> Pieces:
    """Return pieces sorted by row. Within a row they keep their order.

    Args:
        documents: document of each piece.
        starts: `int64[pieces, leaves]`, first token of each piece in its document.
        stops: `int64[pieces, leaves]`, token after the last one of each piece.
        rows: row of each piece.
    """
    by_row = np.argsort(rows, kind="stable")
    return Pieces(documents[by_row], starts[by_row], stops[by_row], np.cumsum(np.bincount(rows)))


class Bins:
    """Rows that are being filled.

    Args:
        sizes: `int64[pieces, leaves]`, lengths of the pieces.
        capacity: `int64[leaves]`, length of a row in each leaf.
        most: maximum number of pieces in a row; None: no limit.
    """

    def __init__(self, sizes: Ints, capacity: Ints, most: int | None) -> None:
        self._sizes = sizes
        self._capacity = capacity
        self._most = most or len(sizes)
        self._spaces = np.tile(capacity[:, None], len(sizes) + 1)  # one row is always empty
        self._filled = np.zeros(len(sizes) + 1, np.int64)
        self._rows = np.zeros(len(sizes), np.int64)
        self._openers: list[int] = []  # the piece that each row began with

    @property
    def count(self) -> int:
        """Number of rows that have a piece."""
        return len(self._openers)

    @property
    def fewest(self) -> int:
        """Lower bound of the number of rows that all pieces need."""
        tokens = (-(-self._sizes.sum(axis=0) // self._capacity)).max()
        return max(int(tokens), -(-len(self._sizes) // self._most))

    def spread(self, order: Ints) -> Ints:
        """Spread pieces over `fewest` rows. Return the indices of the pieces that did not fit.

        Each round puts one piece into each row: the longest piece into the emptiest row.

        Args:
            order: indices of the pieces, the longest first.
        """
        count = min(len(order), self.fewest)
        self._openers = order[:count].tolist()
        left = [order[:0]]
        for start in range(0, len(order), max(count, 1)):
            pieces = order[start : start + count]
            room = (self._spaces[:, :count] / self._capacity[:, None]).min(axis=0)
            rows = np.argsort(-room, kind="stable")[: len(pieces)]
            fits = (self._sizes[pieces] <= self._spaces[:, rows].T).all(axis=1) & (
                self._filled[rows] < self._most
            )
            self._take(pieces[fits], rows[fits])
            left.append(pieces[~fits])
        return np.concatenate(left)

    def _take(self, pieces: Ints, rows: Ints) -> None:
        self._rows[pieces] = rows
        self._filled[rows] += 1
        self._spaces[:, rows] -= self._sizes[pieces].T

    def put_tightly(self, order: Ints) -> None:
        """Place pieces one by one, each where it leaves the least space in the row's fullest leaf.

        Args:
            order: indices of the pieces, in the order in which they are placed.
        """
        if len(self._spaces) == 1:
            self._put_by_space(order)  # takes a third of the time
        else:
            self.put(order, _fullest)

    def _put_by_space(self, order: Ints) -> None:
        """Place pieces as `put_tightly` does, but faster.

        Called only if documents have a single packed leaf (array).

        Args:
            order: indices of the pieces, in the order in which they are placed.
        """
        base, filled, openers = len(self._filled), self._filled.tolist(), self._openers
        row_of, sizes = self._rows, self._sizes[:, 0].tolist()
        spaces = self._spaces[0].tolist()
        # A number for a space and a row.
        open_rows = sorted(
            spaces[row] * base + row for row in range(len(openers)) if filled[row] < self._most
        )
        whole = int(self._capacity[0]) * base
        for piece in order.tolist():
            need = sizes[piece] * base
            at = bisect_left(open_rows, need)
            if at < len(open_rows):
                space = open_rows.pop(at) - need
            else:
                space = whole + len(openers) - need
                openers.append(piece)
            row = space % base
            row_of[piece] = row
            filled[row] += 1
            if space >= base and filled[row] < self._most:
                insort(open_rows, space)

    def put(self, order: Ints, choose: Choose) -> None:
        """Place pieces one by one, each into the row that `choose` returns for it.

        Args:
            order: indices of the pieces, in the order in which they are placed.
            choose: function that returns the row of a piece.
        """
        spaces, filled, openers, sizes = (
            list(self._spaces),
            self._filled.tolist(),
            self._openers,
            self._sizes.tolist(),
        )
        self._spaces[:, self._filled >= self._most] = -1
        taken = []
        for piece in order.tolist():
            size = sizes[piece]
            row = choose(spaces, size, len(openers) + 1)
            if row == len(openers):
                openers.append(piece)
            taken.append(row)
            filled[row] += 1
            for space, tokens in zip(spaces, size):
                space[row] = space[row] - tokens if filled[row] < self._most else -1
        self._rows[order] = taken

    def rows(self) -> Ints:
        """Return the row of each piece, `int64[pieces]`.

        Rows are numbered by the index of the piece put into each first.
        """
        return np.argsort(np.argsort(self._openers))[self._rows]
