"""Which requests bring what is wanted. In: ranges of bytes. Out: fewer and larger ranges. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..opened import Range

GAP_BYTES = 64 << 10
"""Bytes between two ranges that are rather read than asked for apart: a request costs the time of more of them."""

REQUEST_BYTES = 8 << 20
"""Bytes of one request: enough to pay for it, few enough for several to run at the same time."""

BLOCK_BYTES = 1 << 19
"""Bytes of a block of the cache: so few that little comes along that is not wanted, and enough to pay for a file."""


def together(ranges: Sequence[Range]) -> list[Range]:
    """Ranges `(start, stop)` to ask for, ascending, which hold all of these ranges `(offset, length)`.

    >>> together([(500_000, 10), (0, 10), (100, 10), (105, 7)])
    [(0, 112), (500000, 500010)]
    """
    found: list[Range] = []
    for offset, length in sorted(ranges):
        if found and offset - found[-1][1] <= GAP_BYTES and offset + length - found[-1][0] <= REQUEST_BYTES:
            found[-1] = found[-1][0], max(found[-1][1], offset + length)
        elif length:
            found.append((offset, offset + length))
    return found


def blocks_of(offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> list[int]:
    """The numbers of the blocks that ranges touch, ascending.

    >>> blocks_of([BLOCK_BYTES - 1, 0, 5 * BLOCK_BYTES], [2, 1, 0])
    [0, 1]
    """
    starts, sizes = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
    filled = sizes > 0
    first, last = starts[filled] // BLOCK_BYTES, (starts + sizes - 1)[filled] // BLOCK_BYTES
    touched = {*first.tolist(), *last.tolist()}
    long = last - first > 1
    for low, high in zip(first[long].tolist(), last[long].tolist()):
        touched.update(range(low, high))
    return sorted(touched)


def runs_of(blocks: Sequence[int]) -> list[list[int]]:
    """Blocks that follow one another, each as many as one request brings.

    >>> runs_of([0, 1, 2, 7])
    [[0, 1, 2], [7]]
    """
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][-1] + 1 and len(runs[-1]) < REQUEST_BYTES // BLOCK_BYTES:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
