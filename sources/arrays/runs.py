"""Divide the keys of a read into runs of rows, each of which is read at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Run = tuple[int, int, list[int], list[int]]
"""First row of a run, the row after its last, the wanted rows, and their index in the keys."""

GAP_BYTES = 1 << 16
"""Maximum gap in bytes between two rows that one call reads of an array without chunks.

The rows between them are read too.
"""


def runs_of(keys: npt.NDArray[np.int64], chunk: int | None, row_bytes: int) -> Iterator[Run]:
    """Divide keys into runs of rows that one read brings.

    Args:
        keys: `int64[n]`, in any order, with duplicates.
        chunk: number of rows in a chunk; None: the array has no chunks.
        row_bytes: bytes of a row.

    Yields:
        the first row of the run; the row after its last, for the last chunk perhaps beyond the
        array; the rows that are wanted, ascending; and the index into `keys` of each of them. With
        chunks, a run is a whole chunk.

    >>> list(runs_of(np.array([9, 1, 4, 1]), 4, 8))
    [(0, 4, [1, 1], [1, 3]), (4, 8, [4], [2]), (8, 12, [9], [0])]
    """
    by_row = np.argsort(keys, kind="stable")
    rows = keys[by_row]
    if chunk is None:
        cuts = np.flatnonzero(np.diff(rows) > 1 + GAP_BYTES // row_bytes) + 1
    else:
        cuts = np.flatnonzero(np.diff(rows // chunk)) + 1
    wanted, places, begin = rows.tolist(), by_row.tolist(), 0
    for end in [*cuts.tolist(), len(wanted)]:
        first, stop = wanted[begin], wanted[end - 1] + 1
        if chunk is not None:
            first, stop = first // chunk * chunk, (first // chunk + 1) * chunk
        yield first, stop, wanted[begin:end], places[begin:end]
        begin = end
