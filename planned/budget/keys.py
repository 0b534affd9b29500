"""Keys of planned batches, split into their fields.

And the place where a run of planned batches begins.

A planned batch is one whose records were chosen from known lengths, before any record is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

DealtLayers = tuple[tuple[int, ...], ...]
"""History of runs on different numbers of shards.

The first item is a pair: the number of the first window that is not fully delivered, and the number
of positions before it. Each further item belongs to a run that stopped inside this window: the step
at which each of its shards stopped.
"""


class BatchKey(NamedTuple):
    """The fields of the keys of n planned batches, each field an array `int64[n]`.

    A window is a group of records whose batches are planned together.

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

    A window is a group of records whose batches are planned together.

    Attributes:
        window: number of the first window whose batches are planned for this run's number of
            shards.
        position: first position of this run.
        begun: keys `int64[steps, shards]` of the batches of earlier windows that an earlier run did
            not deliver. This run delivers them first.
    """

    window: int
    position: int
    begun: Ints
