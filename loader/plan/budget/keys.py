"""The parts of which keys of planned batches consist, and the place where a run of planned batches begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class BatchKey(NamedTuple):
    """The parts of batch keys, each an array `int64[n]`.

    Attributes:
        window: number of the batch's window, counted over all epochs.
        start: the batch's first slot among the records of the window.
        records: number of records in the batch.
        shape: number of the batch's shape; 0 is the shortest.
    """

    window: Ints
    start: Ints
    records: Ints
    shape: Ints


class RunStart(NamedTuple):
    """The place where a run begins.

    Attributes:
        window: first window that is planned for this run.
        position: first position of this run.
        begun: keys `int64[steps, shards]` of the batches before that window, which an earlier run
            left over.
    """

    window: int
    position: int
    begun: Ints
