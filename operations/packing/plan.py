"""Plan of packed rows. It is made from the lengths of documents, before any document is read."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.costs import Cost, costs_of
from ...common.messages import short_repr
from .pieces import Ints, Pieces
from .rules import Rules

# About 40 MB.
KEPT_DOCUMENTS = 1 << 20
"""Maximum number of documents whose pieces are kept in memory.

If there are more, all are dropped.
"""


class WindowTable(NamedTuple):
    """Facts about all windows (documents packed together), from which one is computed quickly.

    Attributes:
        rows: `int64[windows + 1]`, number of rows before each window; the last item is the number
            of all rows.
        pieces: `int64[windows + 1]`, number of pieces before each window; the last item is the
            number of all pieces.
        rows_by_document: `[pieces]`, `Pieces.rows_by_document` of all windows, in two or four bytes
            each.
    """

    rows: Ints
    pieces: Ints
    rows_by_document: NDArray[Any]


class PackPlan:
    """Plan of the rows that `Pack` makes of documents of known lengths.

    Args:
        lengths: `int64[documents, leaves]`; not copied, so they must not change.
        rules: rules of packing.
        window: number of documents that are packed together.

    >>> from headrace.operations import Pack
    >>> plan = Pack(4, window=3).plan([3, 2, 1, 4])
    >>> plan.rows, plan.row(0).documents.tolist(), plan.row(2).documents.tolist()
    (3, [0, 2], [3])
    """

    def __init__(self, lengths: Ints, rules: Rules, window: int) -> None:
        self._lengths = lengths
        self._rules = rules
        self._window = window
        self._kept: dict[int, Pieces] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self._lengths)

    @property
    def digest(self) -> str:
        """Digest of the lengths, twelve hexadecimal digits."""
        return hashlib.sha256(np.ascontiguousarray(self._lengths).tobytes()).hexdigest()[:12]

    @property
    def rows(self) -> int:
        """Number of rows.

        The first access packs all windows: one to three seconds for a million documents.
        """
        return int(self._windows.rows[-1])

    def costs(self, cost: Cost | None = None) -> NDArray[np.float64]:
        """Return the cost of each row, `float64[rows]`: the sum over its segments in all leaves.

        Args:
            cost: function that takes the lengths of segments, `int64[n]`, and returns their costs.
                None: the length itself.

        Raises:
            TypeError: `cost` is not a function, or does not return numbers.
            LengthsError: a cost is negative or not finite.
        """
        windows = [self._made(window) for window in range(len(self._windows.rows) - 1)]
        lengths = [
            np.zeros((0, self._lengths.shape[1]), np.int64),
            *map(self._rules.costed_sizes, windows),
        ]
        rows = [
            each.row_of_piece + before for each, before in zip(windows, self._windows.rows.tolist())
        ]
        segments = np.concatenate(lengths)
        of_segments = costs_of(segments.ravel(), cost).reshape(segments.shape).sum(axis=1)
        of_pieces = np.concatenate([np.zeros(0, np.int64), *rows])
        return np.bincount(of_pieces, weights=of_segments, minlength=self.rows).astype(
            np.float64, copy=False
        )

    def row_of(self, document: int) -> int | None:
        """Return the first row with a piece of a document, or None if no row has one.

        Args:
            document: index of the document.
        """
        window, number = divmod(document, self._window)
        pieces = self._pieces(window)
        found = np.flatnonzero(pieces.documents == number)
        return (
            int(self._windows.rows[window] + pieces.row_of_piece[found].min())
            if len(found)
            else None
        )

    def row(self, row: int) -> Pieces:
        """Return the pieces of one row, with the indices of their documents.

        A call takes about 10 µs if the pieces of the row's window are cached. Otherwise it takes
        0.1 ms for a window of 1,000 documents, or up to 1 ms with "concat_then_split". The first
        call packs all windows.

        Raises:
            IndexError: the row does not exist.
        """
        if not 0 <= row < self.rows:
            raise IndexError(
                f"row {short_repr(row)} does not exist: the documents make {self.rows} rows. Pass "
                "an index of 0 or more, below this number."
            )
        before = self._windows.rows
        window = int(np.searchsorted(before, row, side="right")) - 1
        pieces = self._pieces(window).row(row - int(before[window]))
        documents = pieces.documents + window * self._window
        return dataclasses.replace(pieces, documents=documents, planned=self._lengths[documents])

    @cached_property
    def _windows(self) -> WindowTable:
        rows, found = [0], [np.zeros(0, np.uint32)]
        for window in range(-(-len(self._lengths) // self._window)):
            pieces = self._rules.pieces(self._lengths_of(window))
            rows.append(pieces.rows)
            found.append(pieces.rows_by_document.astype(np.uint32))
        narrow = max(rows) <= 1 << 16
        by_document = np.concatenate(
            found, dtype=np.uint16 if narrow else np.uint32, casting="unsafe"
        )
        return WindowTable(np.cumsum(rows), np.cumsum([len(each) for each in found]), by_document)

    def _lengths_of(self, window: int) -> Ints:
        return self._lengths[window * self._window : (window + 1) * self._window]

    def _pieces(self, window: int) -> Pieces:
        """Return the pieces of all rows of the window number `window`. Thread-safe."""
        pieces = self._kept.get(window)
        if pieces is None:
            pieces = self._made(window)
            if len(self._kept) * self._window >= KEPT_DOCUMENTS:
                self._kept = {}
            self._kept[window] = pieces
        return pieces

    def _made(self, window: int) -> Pieces:
        start, stop = self._windows.pieces[window : window + 2].tolist()
        return self._rules.pieces(
            self._lengths_of(window), self._windows.rows_by_document[start:stop]
        )
