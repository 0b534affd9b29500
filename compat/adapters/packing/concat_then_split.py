"""Grain's packing end to end: documents are joined one after another and cut where a row ends.

In: dicts of arrays. Out: dicts of rows, with segment ids and positions.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....common.messages import short_repr, shorten
from ....common.validation import whole_number
from ....errors import PackError
from ..chains.iterators import Resumed
from .bin_packing import Element, Later, Packing, length_of


class BOSHandling(enum.Enum):
    """How the first token of each segment is treated."""

    DO_NOTHING = enum.auto()
    REPLACE_FIRST_TOKEN_WITH_BOS = enum.auto()


class ConcatThenSplitIterDataset(Packing):
    """A stream of rows that documents fill end to end.

    With one feature, which is cut, at most one row has padding. With several, a row ends when one
    of them is full.

    Args:
        parent: a stream of dicts of arrays, with the features of `length_struct`.
        length_struct: length of a row, for each feature.
        meta_features: features that are not cut and have no segment ids and positions.
        split_full_length_features: False keeps a document whole if it is exactly as long as a row.
        bos_handling: whether the first token of each segment is replaced.
        bos_features: features in which it is replaced.
        bos_token_id: the token that replaces it.

    Raises:
        ValueError: if `bos_handling`, `bos_features` and `bos_token_id` contradict each other, a
            length is not positive, or a feature is in both `meta_features` and `bos_features`.
        PackError: while iterating, if a document has other features than `length_struct`, or its
            meta features do not fit into a row.
    """

    def __init__(
        self,
        parent: Any,
        *,
        length_struct: Mapping[str, int],
        meta_features: Collection[str] = (),
        split_full_length_features: bool = True,
        bos_handling: BOSHandling = BOSHandling.DO_NOTHING,
        bos_features: Collection[str] = (),
        bos_token_id: int | None = None,
    ) -> None:
        super().__init__(parent)
        replaces = bos_handling is BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS
        if replaces != (bos_token_id is not None) or (bos_features and not replaces):
            raise ValueError(
                f"bos_handling={bos_handling}, bos_token_id={bos_token_id} and "
                f"bos_features={short_repr(sorted(bos_features))} do not fit together. To replace "
                "tokens, pass BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS, bos_token_id= and "
                "bos_features=. To leave them, pass none of the three."
            )
        if set(meta_features) & set(bos_features):
            raise ValueError(
                f"{sorted(set(meta_features) & set(bos_features))} are in both meta_features and "
                "bos_features. Name each in one of them."
            )
        for name, length in length_struct.items():
            whole_number(
                f"length_struct[{short_repr(name)}]", length, 1, None, "the length of a row"
            )
        self.length_struct, self.meta_features = dict(length_struct), tuple(meta_features)
        self.splits_full = split_full_length_features
        self.bos = dict.fromkeys(bos_features, bos_token_id)

    def __iter__(self) -> Any:
        parent = iter(self._parent)
        return Resumed(
            partial(self._resumed, parent),
            partial(_state, parent.state_later(), self._saved_starts(None), 0),
            parent,
        )

    def _resumed(self, parent: Any, state: dict[str, Any] | None) -> Iterator[tuple[Any, Later]]:
        """Yield rows, each with a function that returns the state after it.

        A state has the parent's state before the next document, the number of its tokens that were
        used, and the number of rows delivered since.

        Args:
            parent: an iterator over the documents.
            state: a state of headrace or of Grain; None: the current place of `parent`.
        """
        if state is None:
            return self._rows(parent, None, 0)
        ours = state if "starts" in state else _of_grains(state)
        parent.set_state(ours["parent"])
        starts = ours["starts"]
        if all(start < 0 for start in starts.values()):
            return self._rows(parent, None, ours["delivered"])
        whole = self._whole(next(parent), lambda: ours["parent"])
        cut = {name: start for name, start in starts.items() if name not in whole.numbers}
        return self._rows(parent, replace(whole, starts={**whole.starts, **cut}), ours["delivered"])

    def _rows(self, parent: Any, rest: _Piece | None, passed: int) -> Iterator[tuple[Any, Later]]:
        ended = False
        while not ended:
            before = parent.state_later() if rest is None else rest.before
            starts = None if rest is None else rest.starts
            rows, rest, ended = self._filled(parent, rest)
            for number, row in enumerate(rows, 1):
                if passed:
                    passed -= 1
                else:
                    yield row, partial(_state, before, self._saved_starts(starts), number)
            ended |= not rows

    def _saved_starts(self, starts: Mapping[str, int] | None) -> dict[str, int]:
        """Return for each feature the start of the unused rest of a document.

        It is -1 for all features if there is no rest, so that states have the same structure.

        Args:
            starts: the start for each feature; None if there is no rest.
        """
        return dict.fromkeys(self.length_struct, -1) if starts is None else dict(starts)

    def _filled(
        self, parent: Any, rest: _Piece | None
    ) -> tuple[list[dict[str, Any]], _Piece | None, bool]:
        """Fill the next row from the rest of a document and from new documents.

        Args:
            parent: an iterator over the documents.
            rest: the rest of a document, or None.

        Returns:
            a list of the row, followed by rows of documents that fill a row alone, which may be
            empty at the end; the rest of the last document, or None; and True if the parent has
            ended.

        Raises:
            PackError: if a document has other features than `length_struct`, or its meta features
                do not fit into a row.
        """
        pieces: list[_Piece] = []
        whole_rows: list[dict[str, Any]] = []
        room, ended = dict(self.length_struct), False
        if rest is not None:
            rest = self._put(rest, pieces, room)
        while rest is None and not ended:
            before = parent.state_later()
            features = next(parent, None)
            ended = features is None
            if features is None:
                break
            piece = self._whole(features, before)
            is_full = (
                max(piece.length(name) - length for name, length in self.length_struct.items()) == 0
            )
            if is_full and not self.splits_full:
                whole_rows.append(self._row([piece]))
            else:
                rest = self._put(piece, pieces, room)
        if not pieces and rest is not None and not whole_rows:
            found = {
                name: rest.length(name)
                for name in self.meta_features
                if rest.length(name) > self.length_struct[name]
            }
            raise PackError(
                f"the meta features of a document have {shorten(found, 120)} tokens, more than a "
                f"row of {shorten(self.length_struct, 120)}, and meta features are not cut. Raise "
                "their lengths in length_struct, or shorten them with map(…) before the packing."
            )
        return ([self._row(pieces)] if pieces else []) + whole_rows, rest, ended

    def _whole(self, features: Element, before: Later) -> _Piece:
        names = self.length_struct
        if not isinstance(features, Mapping) or set(features) != set(names):
            found = (
                sorted(features, key=str)
                if isinstance(features, Mapping)
                else type(features).__name__
            )
            raise PackError(
                f"Parent element has structure {shorten(found, 120)}, but length_struct has the "
                f"names {shorten(sorted(names), 120)}. Make each element a dict with exactly these "
                "features, with map(…) before the packing, or change length_struct."
            )
        stops = {name: length_of(features[name]) for name in names}
        numbers = frozenset(name for name in names if np.ndim(features[name]) == 0)
        return _Piece(features, before, dict.fromkeys(names, 0), stops, numbers)

    def _put(self, piece: _Piece, pieces: list[_Piece], room: dict[str, int]) -> _Piece | None:
        """Put as much of a piece into a row as fits, and return the rest of the piece, or None.

        Args:
            piece: a part of a document.
            pieces: the pieces in the row; the part that fits is appended.
            room: tokens left in the row, for each feature; updated.
        """
        over = {name: piece.length(name) > room[name] for name in room}
        uncut = piece.numbers.union(self.meta_features)  # are whole in both pieces
        if any(over[name] for name in uncut if name in over):
            return piece
        taken = {name: room[name] if over[name] else piece.length(name) for name in room}
        rest: _Piece | None = None
        if any(over.values()):
            points = {name: piece.starts[name] + taken[name] for name in room if name not in uncut}
            if not any(points.values()) and not piece.numbers.difference(self.meta_features):
                return piece
            rest = replace(piece, starts={**piece.starts, **points})
            piece = replace(piece, stops={**piece.stops, **points})
        pieces.append(piece)
        for name, count in taken.items():
            room[name] -= count
        return rest

    def _row(self, pieces: list[_Piece]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, length in self.length_struct.items():
            first = np.asarray(pieces[0].features[name])
            values, ids, positions = (
                np.zeros((length, *first.shape[1:]), first.dtype),
                *np.zeros((2, length), np.int32),
            )
            end = 0
            for number, piece in enumerate(pieces, 1):
                start, end = end, end + piece.length(name)
                values[start:end] = np.atleast_1d(piece.features[name])[
                    piece.starts[name] : piece.stops[name]
                ]
                ids[start:end], positions[start:end] = number, np.arange(end - start)
                # as in Grain, that of an empty piece stays in the padding
                if name in self.bos and start < length:
                    values[start] = self.bos[name]
            row[name] = values
            if name not in self.meta_features:
                row[f"{name}_segment_ids"], row[f"{name}_positions"] = ids, positions
        return row


@dataclass(frozen=True)
class _Piece:
    """A part of a document: for each feature the tokens from `starts` to `stops`.

    Attributes:
        features: the whole document.
        before: function that returns the parent's state before the document.
        starts: first token of the part, for each feature.
        stops: token after the last one of the part, for each feature.
        numbers: names of features that are single numbers; they belong to every part.
    """

    features: Element
    before: Later
    starts: Mapping[str, int]
    stops: Mapping[str, int]
    numbers: frozenset[str]

    def length(self, name: str) -> int:
        return self.stops[name] - self.starts[name]


def _state(before: Later, starts: dict[str, int], delivered: int) -> dict[str, Any]:
    return {"parent": before(), "starts": starts, "delivered": delivered}


def _of_grains(state: dict[str, Any]) -> dict[str, Any]:
    """Convert Grain's state to headrace's form: "parent", "starts" and "delivered".

    In Grain's, a start of -1 means that a feature was not cut.
    """
    cut = {name: start for name, (start, _) in state["remainder_slices"].items() if start >= 0}
    return {
        "parent": state["parent_state"],
        "starts": cut,
        "delivered": state["elements_from_buffer_after_checkpoint"],
    }
