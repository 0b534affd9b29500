"""Rows known before anything is read: from the lengths of documents alone.

In: lengths. Out: the number of rows; of each row, the pieces in it.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from ...wording import shown
from .pieces import Ints, Pieces
from .rules import Rules

KEPT_DOCUMENTS = 1 << 20
"""Documents of windows whose pieces are kept; with more, all are forgotten. Chosen: some 40 MB."""


class PackPlan:
    """What `Pack` makes of documents of known lengths: the same rows in the same order.

    Args:
        lengths: `int64[documents, leaves]`; not copied.
        rules: how documents are packed.
        window: documents that are packed together.

    >>> from millrace.operations import Pack
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
    def rows(self) -> int:
        """Number of rows. Found once, window by window, in one to three seconds for a million documents."""
        return int(self._ends[-1])

    def row(self, row: int) -> Pieces:
        """The pieces of one row, with the numbers of their documents.

        Takes some ten microseconds. With more than a million documents, the window may have to be packed first: with 1,000
        documents, that takes from 0.6 milliseconds ("best_fit" without `max_segments`) to 3 ("first_fit").

        Raises:
            IndexError: there is no such row.
        """
        if not 0 <= row < self.rows:
            raise IndexError(f"row {shown(row)} is outside the {self.rows} rows that the documents make.")
        window = int(np.searchsorted(self._ends, row, side="right")) - 1
        pieces = self._pieces(window).row(row - int(self._ends[window]))
        documents = pieces.documents + window * self._window
        return dataclasses.replace(pieces, documents=documents, planned=self._lengths[documents])

    @cached_property
    def _ends(self) -> Ints:
        """`int64[windows + 1]`: rows before each window, and of all."""
        windows = -(-len(self._lengths) // self._window)
        return np.cumsum([0, *(self._pieces(window).rows for window in range(windows))])

    def _pieces(self, window: int) -> Pieces:
        """The pieces of a window. Any number of threads may ask."""
        pieces = self._kept.get(window)
        if pieces is None:
            start = window * self._window
            pieces = self._rules.pieces(self._lengths[start : start + self._window])
            if len(self._kept) * self._window >= KEPT_DOCUMENTS:
                self._kept = {}
            self._kept[window] = pieces
        return pieces
