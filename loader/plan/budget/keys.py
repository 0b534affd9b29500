"""Keys of planned batches, split into their fields; and the place where a run of planned batches begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class BatchKey(NamedTuple):
    """Planned batches: their keys, split into four fields, each an array `int64[n]`.

    A window is the batches that are planned together.

    Attributes:
        window: number of the batch's window, counted over all epochs.
        start: index, among the records of the window, of the batch's first record.
        records: number of records in the batch.
        shape: index of the batch's shape; 0 is the shortest.
    """

    window: Ints
    start: Ints
    records: Ints
    shape: Ints


class RunStart(NamedTuple):
    """The place where a run of planned batches begins.

    Attributes:
        window: first window (batches that are planned together) that is planned for this run.
        position: first position of this run.
        begun: keys `int64[steps, shards]` of the batches before that window, which an earlier run did
            not deliver.
    """

    window: int
    position: int
    begun: Ints
