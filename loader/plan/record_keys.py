"""Record keys of spans, computed in blocks far larger than a span.

In: spans, mostly one after the other. Out: record keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import RecordKeyError
from .pipeline import Pipeline
from .stages import Span

_NONE = np.empty(0, dtype=np.int64)


class KeyBlocks:
    """Remembers the block that was computed last.

    Threads may share one: they replace the pair of start and keys as a whole, and at worst compute a block twice.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._ahead = pipeline.sampler.block_size
        self._block: tuple[int, NDArray[np.int64]] = (0, _NONE)

    def of(self, span: Span) -> NDArray[np.int64]:
        """The record keys `int64[stop - start]` of a span."""
        start, keys = self._block
        if not (start <= span.start and span.stop <= start + len(keys)):
            start = span.start
            stop = min(max(span.stop, start + self._ahead), self._pipeline.total)
            keys = self.checked(self._pipeline.positions(start, max(stop, span.stop)))
            self._block = start, keys
        return keys[span.start - start : span.stop - start]

    def behind(self, local_positions: Sequence[int]) -> NDArray[np.int64]:
        """Record keys `int64[n]` at any local positions."""
        return self.checked(self._pipeline.positions_of(np.array(local_positions, dtype=np.int64)))

    def checked(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The record keys at global positions.

        Raises:
            RecordKeyError: the sampler gave one that the source does not have.
        """
        keys = self._pipeline.sampler.record_keys(positions)
        count = len(self._pipeline.source)
        if len(keys) and not (keys.min() >= 0 and keys.max() < count):
            wrong = keys[(keys < 0) | (keys >= count)][0]
            raise RecordKeyError(
                f"the sampler gave record key {wrong}, outside [0, {count}), the keys of the source; "
                "make the sampler for len(source) records."
            )
        return keys
