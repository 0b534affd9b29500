"""Grain's packing end to end: documents are put one after the other, and cut where a row ends.

In: dicts of arrays. Out: dicts of rows, with segment ids and positions.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import PackError
from ..chains.iterators import DatasetIterator
from .bin_packing import Element, length_of
from .packing import Packing


class BOSHandling(enum.Enum):
    """Treatment of the first token of each segment."""

    DO_NOTHING = enum.auto()
    REPLACE_FIRST_TOKEN_WITH_BOS = enum.auto()


class ConcatThenSplitIterDataset(Packing):
    """Rows without padding, but for the last one.

    Args:
        parent: dicts of arrays, with the features of `length_struct`.
        length_struct: length of the rows of each feature.
        meta_features: are not cut, and get no segment ids and positions.
        split_full_length_features: False keeps documents whole that are as long as a row.
        bos_handling: whether the first token of each segment is replaced.
        bos_features: features in which it is.
        bos_token_id: by what.

    Raises:
        ValueError: the arguments about BOS do not fit one another.
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
                f"bos_handling={bos_handling}, bos_token_id={bos_token_id}: pass bos_token_id= and bos_features= to replace "
                "tokens, and neither to leave them."
            )
        if set(meta_features) & set(bos_features):
            raise ValueError(
                f"{sorted(set(meta_features) & set(bos_features))} are both in meta_features and bos_features."
            )
        self.length_struct, self.meta_features = dict(length_struct), tuple(meta_features)
        self.splits_full = split_full_length_features
        self.bos = dict.fromkeys(bos_features, bos_token_id)

    def __iter__(self) -> Any:
        return ConcatThenSplitIterator(iter(self._parent), self)


@dataclass(frozen=True)
class _Piece:
    """The rest of a document: of each feature the tokens from `starts` to `stops`."""

    features: Element
    before: Callable[[], dict[str, Any]]
    starts: Mapping[str, int]
    stops: Mapping[str, int]

    def length(self, name: str) -> int:
        return self.stops[name] - self.starts[name]

    def tokens(self, name: str) -> Any:
        feature = np.atleast_1d(self.features[name])
        return feature[self.starts[name] : self.stops[name]]

    def cut(self, points: Mapping[str, int]) -> tuple[_Piece, _Piece]:
        """Two pieces; features without a point are whole in both."""
        left = _Piece(self.features, self.before, self.starts, {**self.stops, **points})
        return left, _Piece(self.features, self.before, {**self.starts, **points}, self.stops)


class ConcatThenSplitIterator(DatasetIterator[Any]):
    """Its state is where the parent stood when the rest of one document at most was left; what was cut off it; rows since."""

    def __init__(self, parent: DatasetIterator[Any], pack: ConcatThenSplitIterDataset) -> None:
        super().__init__(parent)
        self._pack = pack
        self._clear()

    def _clear(self) -> None:
        self._ready: deque[dict[str, Any]] = deque()
        self._rest: _Piece | None = None
        self._ended = False
        self._note()

    def _note(self) -> None:
        """Keep the parts of the state."""
        self._before = self._parent.state_later() if self._rest is None else self._rest.before
        self._starts = None if self._rest is None else dict(self._rest.starts)
        self._delivered = 0

    def __next__(self) -> Any:
        if not self._ready:
            if self._ended:
                raise StopIteration
            self._note()
            self._fill()
        if not self._ready:
            raise StopIteration
        self._delivered += 1
        return self._ready.popleft()

    def _fill(self) -> None:
        """Make one row, and those of documents that are rows already."""
        pieces: list[_Piece] = []
        room = dict(self._pack.length_struct)
        if self._rest is not None:
            self._rest = self._put(self._rest, pieces, room)
        while self._rest is None and (piece := self._take()):
            self._rest = self._put(piece, pieces, room)
        if pieces:
            self._ready.appendleft(self._row(pieces))
        elif self._rest is not None and not self._ready:
            raise PackError(
                f"a document's meta features do not fit into rows of {self._pack.length_struct}; raise their lengths."
            )

    def _take(self) -> _Piece | None:
        """The next document that is to be put together with others."""
        while True:
            before = self._parent.state_later()
            features = next(self._parent, None)
            if features is None:
                self._ended = True
                return None
            piece = self._whole(features, before)
            if self._pack.splits_full or not self._is_full(piece):
                return piece
            self._ready.append(self._row([piece]))

    def _whole(self, features: Element, before: Callable[[], dict[str, Any]]) -> _Piece:
        names = self._pack.length_struct
        if not isinstance(features, Mapping) or set(features) != set(names):
            found = sorted(features) if isinstance(features, Mapping) else type(features).__name__
            raise PackError(f"a document has {found}, and length_struct {sorted(names)}; each feature needs a length.")
        stops = {name: length_of(features[name]) for name in names}
        return _Piece(features, before, dict.fromkeys(names, 0), stops)

    def _is_full(self, piece: _Piece) -> bool:
        over = [piece.length(name) - length for name, length in self._pack.length_struct.items()]
        return max(over) == 0

    def _put(self, piece: _Piece, pieces: list[_Piece], room: dict[str, int]) -> _Piece | None:
        """Put as much of a piece into a row as there is room for; gives what is left."""
        over = {name: piece.length(name) > room[name] for name in room}
        if any(over[name] for name in self._pack.meta_features if name in over):
            return piece
        taken = {name: room[name] if over[name] else piece.length(name) for name in room}
        rest: _Piece | None = None
        if any(over.values()):
            points = {name: piece.starts[name] + taken[name] for name in room if name not in self._pack.meta_features}
            if not any(points.values()):
                return piece
            piece, rest = piece.cut(points)
        pieces.append(piece)
        for name, count in taken.items():
            room[name] -= count
        return rest

    def _row(self, pieces: list[_Piece]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, length in self._pack.length_struct.items():
            first = np.asarray(pieces[0].features[name])
            values, ids, positions = np.zeros((length, *first.shape[1:]), first.dtype), *np.zeros((2, length), np.int32)
            end = 0
            for number, piece in enumerate(pieces, 1):
                start, end = end, end + piece.length(name)
                values[start:end] = piece.tokens(name)
                ids[start:end], positions[start:end] = number, np.arange(end - start)
                if name in self._pack.bos and end > start:
                    values[start] = self._pack.bos[name]
            row[name] = values
            if name not in self._pack.meta_features:
                row[f"{name}_segment_ids"], row[f"{name}_positions"] = ids, positions
        return row

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._before(), "starts": self._starts, "delivered": self._delivered}

    def set_state(self, state: dict[str, Any]) -> None:
        """Accepts Grain's states, too. Rows since the parent's state are made anew."""
        state = state if "starts" in state else _of_grains(state)
        self._parent.set_state(state["parent"])
        self._clear()
        if state["starts"] is not None:
            before = self._before
            whole = self._whole(next(self._parent), before)
            self._rest = _Piece(whole.features, before, {**whole.starts, **state["starts"]}, whole.stops)
        for _ in range(state["delivered"]):
            next(self)
        self._before, self._starts, self._delivered = (lambda: state["parent"]), state["starts"], state["delivered"]


def _of_grains(state: dict[str, Any]) -> dict[str, Any]:
    """Grain's state as ours: there, -1 is for what was not cut; meta features have no slices."""
    cut = {name: start for name, (start, _) in state["remainder_slices"].items() if start >= 0}
    return {
        "parent": state["parent_state"],
        "starts": cut or None,
        "delivered": state["elements_from_buffer_after_checkpoint"],
    }
