"""Record keys of spans, computed in blocks far larger than a span.

In: spans, mostly one after the other. Out: record keys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pipeline import Pipeline
from .plan import Span

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
        if not start <= span.start <= span.stop <= start + len(keys):
            start = span.start
            stop = min(max(span.stop, start + self._ahead), self._pipeline.total)
            keys = self._pipeline.sampler.record_keys(self._pipeline.positions(start, max(stop, span.stop)))
            self._block = start, keys
        return keys[span.start - start : span.stop - start]
