"""Make rows, trees of arrays of fixed length, from the documents of a window or planned rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...common.messages import first_few
from ...errors import PackError
from ..protocol import Allocate, Element, allocate_plainly
from ..trees import flatten
from .arrays import by_segment, fill, gathered, specs_of
from .documents import Columns, Documents
from .pieces import Pieces
from .settings import Path, Settings, name, value_at


class Packer:
    """Make rows from documents.

    Args:
        settings: settings of `Pack`.
        allocate: function that allocates arrays.

    Attributes:
        at: after a failure, index of the wrong document.
    """

    def __init__(self, settings: Settings, allocate: Allocate = allocate_plainly) -> None:
        self._settings = settings
        self._allocate = allocate
        self.at = 0

    def rows(self, elements: Sequence[Element]) -> list[Element]:
        """Return the rows that the documents of a window make.

        Args:
            elements: the documents.

        Raises:
            PackError: a document cannot be packed.
        """
        documents, columns = self._read(elements)
        return self._made(documents, columns, self._pieces_of(documents, columns))

    def pieces(self, elements: Sequence[Element]) -> Pieces:
        """Return the pieces in the rows that `rows` would make, with the lengths of the documents.

        Args:
            elements: the documents of a window.

        Raises:
            PackError: a document cannot be packed.
        """
        documents, columns = self._read(elements)
        pieces = self._pieces_of(documents, columns)
        return dataclasses.replace(pieces, planned=documents.lengths(columns)[pieces.documents])

    def _pieces_of(self, documents: Documents, columns: Columns) -> Pieces:
        lengths = documents.lengths(columns)
        packed = [leaf.path for leaf in documents.packed]
        rules = self._settings.rules(packed)
        for self.at in rules.refused(lengths)[:1].tolist():
            raise self._settings.too_long_error(lengths[self.at].tolist(), packed)
        return rules.pieces(lengths)

    def planned(self, elements: Sequence[Element], pieces: Pieces) -> list[Element]:
        """Return planned rows of the documents `pieces.documents`.

        Args:
            elements: the documents, one for each piece.
            pieces: pieces in the rows, and planned lengths of the documents.

        Raises:
            PackError: a document cannot be packed, or does not have the planned length.
        """
        documents, columns = self._read(elements)
        lengths, packed = documents.lengths(columns), [leaf.path for leaf in documents.packed]
        if pieces.starts.shape[1] == 1 and not isinstance(self._settings.length, Mapping):
            pieces = pieces.in_leaves(len(packed))  # one length was told: all leaves have it
        planned = pieces.planned
        assert planned is not None, "these rows were planned"
        if planned.shape[1] != len(packed):
            raise PackError(
                f"the rows were planned from the lengths of {planned.shape[1]} leaves, but the "
                f"documents have {first_few(list(map(name, packed)))}. Pass lengths= as a dict "
                "with the lengths of each of these leaves."
            )
        for self.at, leaf in np.argwhere(lengths != planned)[:1].tolist():
            raise PackError(
                f"document {pieces.documents[self.at]} has {lengths[self.at, leaf]} tokens in leaf "
                f"{name(packed[leaf])}, but {planned[self.at, leaf]} were planned, so the lengths "
                "that were passed, or that its source gives, are wrong. Pass lengths= of the "
                "documents that are packed, or pack the stream without lengths: "
                "to_iter_dataset().pack(…)."
            )
        return self._made(
            documents, columns, dataclasses.replace(pieces, documents=np.arange(len(elements)))
        )

    def _read(self, elements: Sequence[Element]) -> tuple[Documents, Columns]:
        self.at = 0
        documents = Documents(elements, self._settings)
        try:
            return documents, documents.columns()
        finally:
            self.at = documents.at

    def _made(self, documents: Documents, columns: Columns, pieces: Pieces) -> list[Element]:
        if not pieces.rows:
            return []
        specs = [specs_of(leaf, pieces.rows) for leaf in documents.packed]
        arrays = iter(self._allocate([spec for of_leaf in specs for spec in of_leaf]))
        made: dict[int, dict[Path, Any]] = {}
        for at, leaf in enumerate(documents.packed):
            own = (next(arrays), next(arrays), next(arrays))
            fill(own, leaf, columns[leaf.number], pieces, at, self._settings)
            made[leaf.number] = dict(zip(_names(leaf.path), own))
        for number in documents.meta:
            path = documents.paths[number]
            values, pad = (
                gathered(path, columns[number]),
                value_at(self._settings.pad_value, path, 0),
            )
            made[number] = {path: by_segment(values, pieces, self._settings.max_segments, pad)}
        found = {path: rows for number in documents.order for path, rows in made[number].items()}
        if len(found) < sum(map(len, made.values())):
            added = {path for leaf in documents.packed for path in _names(leaf.path)[1:]}
            taken = next(path for path in documents.paths if path in added)
            raise PackError(
                f"elements have a leaf {name(taken)}, which is also a name that Pack adds. Rename "
                "it before Pack."
            )
        return _as_elements(found)


def _names(path: Path) -> list[Path]:
    """Return the paths in a row of the three arrays of the leaf at `path`.

    They are tokens, segment ids and positions.
    """
    *before, last = path
    return [path, (*before, f"{last}_segment_ids"), (*before, f"{last}_positions")]


def _as_elements(found: dict[Path, Any]) -> list[Element]:
    """Convert columns to rows.

    Args:
        found: for each path, a column of items; row i has item i of each column, at this path.
    """
    numbers: dict[Any, Any] = {}
    for number, path in enumerate(found):
        inner = numbers
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = number
    order, structure = flatten(numbers)
    columns = list(found.values())
    return list(map(structure.unflatten, zip(*(columns[number] for number in order))))
