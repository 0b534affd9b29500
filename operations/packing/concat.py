"""Pack documents one after the other, and split a document where a row is full."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from .pieces import Ints, Pieces


def concat_then_split(lengths: Ints, capacity: Ints, most: int | None, bos: Ints) -> Pieces:
    """Return pieces of documents that follow each other.

    A row ends when some leaf of a document does not fit, or at `most`. The rest of this document
    begins the next row. A piece is only made if it has a token besides an inserted first token.

    Args:
        lengths: `int64[documents, leaves]`; each document has at least one token.
        capacity: `int64[leaves]`, length of a row in each leaf.
        most: maximum number of pieces in a row; None: no limit.
        bos: `int64[leaves]`, number of tokens inserted before each piece, 0 or 1.
    """
    before = np.where(lengths > 0, bos, 0)
    lengths = lengths + before  # the first token of a document counts as one of it
    ends = np.cumsum(lengths, axis=0)  # all tokens have numbers, leaf by leaf
    begins = ends - lengths
    firsts, counts, places = _rows(
        begins, ends, capacity.tolist(), most or len(lengths), bos.tolist()
    )
    stops_of_pieces = np.cumsum(counts)
    documents = np.repeat(firsts - stops_of_pieces + counts, counts) + np.arange(counts.sum())
    begin = begins[documents]
    starts = np.maximum(begin, np.repeat(places[:-1], counts, axis=0)) - begin
    stops = np.minimum(ends[documents], np.repeat(places[1:], counts, axis=0)) - begin
    starts, stops = (np.maximum(each - before[documents], 0) for each in (starts, stops))
    return Pieces(documents, starts, stops, stops_of_pieces)


def _rows(
    begins: Ints, ends: Ints, capacity: list[int], most: int, bos: list[int]
) -> tuple[Ints, Ints, Ints]:
    """Return first document and number of pieces of each row, and the tokens at which rows begin.

    The last one is `int64[rows + 1, leaves]`. Tokens are numbered over all documents.

    Args:
        begins: `int64[documents, leaves]`, index of each document's first token.
        ends: `int64[documents, leaves]`, index of the token after its last one.
        capacity: length of a row in each leaf.
        most: maximum number of pieces in a row.
        bos: number of tokens inserted before each piece in each leaf, 0 or 1.
    """
    begin_of, ends_of = [*begins.tolist(), ends[-1].tolist()], ends.T.tolist()
    firsts, counts, place = list[int](), list[int](), [0] * len(capacity)
    places, document, some_bos = [place], 0, any(bos)
    while document < len(begins):
        full = [tokens + length for tokens, length in zip(place, capacity)]
        if some_bos:  # what is left of a document has a first token of its own, which has no number
            inside = zip(begin_of[document], place, begin_of[document + 1])
            full = [
                end - (one and first < at < stop)
                for end, one, (first, at, stop) in zip(full, bos, inside)
            ]
        # The first that does not fit.
        last = min(bisect_right(leaf, tokens) for leaf, tokens in zip(ends_of, full))
        count, begin = last - document, begin_of[last]
        if count >= most:
            last, count = document + most, most
            place = begin_of[last]
        elif last == len(begins):
            place = begin
        else:
            former, place = place, [min(tokens, leaf[last]) for tokens, leaf in zip(full, ends_of)]
            if some_bos:  # a first token does not stand alone
                place = [
                    at - (one and at == first + 1) for at, one, first in zip(place, bos, begin)
                ]
            count += any(now > max(first, at) for now, first, at in zip(place, begin, former))
        firsts.append(document)
        counts.append(count)
        places.append(place)
        document = last
    return np.array(firsts), np.array(counts), np.array(places)
