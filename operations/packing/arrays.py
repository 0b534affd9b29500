"""Make the arrays of rows from pieces of documents: tokens, segment ids and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import PackError
from ..protocol import ArraySpec
from .documents import PackedLeaf
from .pieces import Ints, Pieces
from .settings import Path, Settings, name

Array = NDArray[Any]


def specs_of(leaf: PackedLeaf, rows: int) -> list[ArraySpec]:
    """Return shape and dtype of the three arrays of a leaf for `rows` rows.

    These are tokens, segment ids and positions.
    """
    shape = (rows, leaf.capacity)
    ids = ArraySpec(shape, np.dtype(np.int32))
    return [ArraySpec((*shape, *leaf.tail), np.result_type(leaf.dtype)), ids, ids]


@dataclass(frozen=True, slots=True)
class ConcatenatedRows:
    """Rows of one leaf as one list: for each row its pieces of documents, then a gap (padding).

    Attributes:
        lengths: number of tokens of each piece and each gap, in order.
        pieces: indices of the pieces in `lengths`.
        gaps: indices of the gaps in `lengths`.
    """

    lengths: Ints
    pieces: Ints
    gaps: Ints

    @classmethod
    def of(cls, sizes: Ints, pieces: Pieces, capacity: int) -> ConcatenatedRows:
        """Return the list of pieces and gaps of all rows, for pieces with these sizes.

        Args:
            sizes: `int64[pieces]`, number of tokens of each piece in this leaf.
            pieces: the pieces, by rows.
            capacity: length of a row.
        """
        at_pieces = np.arange(len(sizes)) + pieces.row_of_piece
        at_gaps = pieces.ends + np.arange(pieces.rows)
        until = np.concatenate([[0], np.cumsum(sizes)])[pieces.ends]
        lengths = np.empty(len(sizes) + pieces.rows, np.int64)
        lengths[at_pieces] = sizes
        lengths[at_gaps] = capacity - np.diff(until, prepend=0)
        return cls(lengths, at_pieces, at_gaps)

    def join(self, out: Array, parts: Sequence[Array], filler: Array) -> None:
        """Write the tokens of pieces into `out`, `[rows, length, …]`, and fill gaps from `filler`.

        Args:
            out: array to write to.
            parts: tokens of each piece.
            filler: padding for a whole row.
        """
        line: list[Any] = [None] * len(self.lengths)
        for at, part in zip(self.pieces.tolist(), parts):
            line[at] = part
        for at, length in zip(self.gaps.tolist(), self.lengths[self.gaps].tolist()):
            line[at] = filler[:length]
        np.concatenate(line, out=out.reshape(-1, *out.shape[2:]))

    def number(self, out: Array, segments: Ints) -> None:
        """Write the segment number of each token into `out`; 0 in gaps.

        Args:
            out: array to write to.
            segments: segment number of each piece, from 1 in each row.
        """
        numbers = np.zeros(len(self.lengths), np.int32)
        numbers[self.pieces] = segments
        out.reshape(-1)[:] = np.repeat(numbers, self.lengths)

    def begins(self, some: NDArray[np.bool_]) -> Ints:
        """Return the index of the first token of each of some pieces.

        It is counted over the tokens and gaps of all rows.

        Args:
            some: `bool[pieces]`, True for these pieces.
        """
        begins = np.cumsum(self.lengths) - self.lengths
        return begins[self.pieces[some]]


def fill(
    arrays: Sequence[Array],
    leaf: PackedLeaf,
    column: Sequence[Array],
    pieces: Pieces,
    at: int,
    settings: Settings,
) -> None:
    """Write the rows of a leaf into arrays: tokens, segment ids and positions.

    Args:
        arrays: the three arrays that `specs_of` describes.
        leaf: the leaf.
        column: the value of the leaf in each document.
        pieces: pieces in the rows.
        at: index of the leaf among the packed leaves.
        settings: settings of `Pack`.
    """
    tokens, ids, positions = arrays
    starts, stops = pieces.starts[:, at], pieces.stops[:, at]
    each = zip(pieces.documents.tolist(), starts.tolist(), stops.tolist())
    parts = [column[document][start:stop] for document, start, stop in each]
    sizes = stops - starts
    if leaf.eos is not None and pieces.eos is not None:
        sizes = sizes + _put(parts, leaf.eos, pieces.eos[:, at], last=True)
    first = pieces.with_bos(sizes, settings.bos_at) if leaf.bos is not None else None
    if leaf.bos is not None and first is not None and not settings.bos_replaces:
        sizes = sizes + _put(parts, leaf.bos, first, last=False)
    line = ConcatenatedRows.of(sizes, pieces, leaf.capacity)
    line.join(tokens, parts, np.full((leaf.capacity, *leaf.tail), leaf.pad, tokens.dtype))
    line.number(ids, segments_of(pieces))
    ramp = np.arange(leaf.capacity, dtype=np.int32)
    line.join(positions, [ramp[:size] for size in sizes.tolist()], np.zeros_like(ramp))
    if leaf.bos is not None and first is not None and settings.bos_replaces:
        tokens.reshape(-1, *leaf.tail)[line.begins(first)] = leaf.bos


def _put(
    parts: list[Array], token: Array, where: NDArray[np.bool_], last: bool
) -> NDArray[np.bool_]:
    """Insert a token into some parts, in place.

    Return `where`, which is also the number of tokens inserted into each part.

    Args:
        parts: tokens of each piece.
        token: token to insert.
        where: `bool[pieces]`, True for each part that gets the token.
        last: True: at the end of the part. False: at its beginning.
    """
    for number in np.flatnonzero(where).tolist():
        part = parts[number]
        one = np.broadcast_to(token, (1, *part.shape[1:]))
        parts[number] = np.concatenate([part, one] if last else [one, part])
    return where


def segments_of(pieces: Pieces) -> Ints:
    """Return the number of each piece in its row, from 1, `int64[pieces]`."""
    counts = pieces.counts
    return 1 + np.arange(len(pieces.documents)) - np.repeat(pieces.ends - counts, counts)


def gathered(path: Path, values: Sequence[Any]) -> Array:
    """Return an array of the values of a leaf that is not packed, from all documents.

    It has numbers or objects.

    Args:
        path: path of the leaf, for the message.
        values: value of each document.

    Raises:
        PackError: the values are arrays of several shapes.
    """
    if not isinstance(values[0], (np.ndarray, np.generic, bool, int, float, complex)):
        objects = np.empty(len(values), object)
        for number, value in enumerate(values):  # all at once would take lists apart
            objects[number] = value
        return objects
    try:
        return np.stack([np.asarray(value) for value in values])
    except ValueError:
        shapes = sorted({np.shape(value) for value in values}, key=len)
        raise PackError(
            f"meta feature {name(path)} has the shapes {shapes[0]} and {shapes[-1]}. Map it to the "
            "same shape in all documents before Pack."
        ) from None


def by_segment(values: Array, pieces: Pieces, most: int | None, pad: Any) -> Sequence[Array]:
    """Return, for each row, the values of its segments (the pieces of documents in it).

    Args:
        values: value of each document.
        pieces: pieces in the rows.
        most: number of values in each row, after padding; None: no padding.
        pad: padding for numbers; objects are padded with None.
    """
    values = values[pieces.documents]
    if most is None:
        return np.split(values, pieces.ends[:-1])
    out = np.full(
        (pieces.rows, most, *values.shape[1:]),
        None if values.dtype.hasobject else pad,
        values.dtype,
    )
    out[pieces.row_of_piece, segments_of(pieces) - 1] = values
    return list(out)
