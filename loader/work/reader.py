"""Reads the records of spans from the source, and finds the one that cannot be read.

In: spans. Out: their records, in one call of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sources import reader_of
from ..plan.pipeline import Pipeline
from ..plan.record_keys import KeyBlocks
from ..plan.stages import Span
from .explain import READING, SAMPLER, explained


class Reader:
    """Reads the records of spans. Any number of threads may use one."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._read = reader_of(pipeline.source)
        self._keys = KeyBlocks(pipeline)

    def keys(self, span: Span) -> NDArray[np.int64]:
        """The record keys of a span."""
        return self._keys.of(span)

    def records(self, span: Span) -> Sequence[Any]:
        """The records of a span, in one call of the source."""
        return self._read(self.keys(span))

    def records_before_failure(self, span: Span, failure: Exception) -> tuple[Sequence[Any], Exception]:
        """The records of a span, read one by one, up to the first that cannot be read, and why it cannot.

        Args:
            span: could not be read in one call.
            failure: why not; it is the answer if every single record can be read.
        """
        records: list[Any] = []
        position, who = 0, SAMPLER
        try:
            for position in self._pipeline.positions(span.start, span.stop).tolist():
                who = SAMPLER
                (key,) = self._keys.checked(np.array([position], dtype=np.int64)).tolist()
                who = READING
                records.append(self._pipeline.source[key])
        except Exception as error:
            return records, explained(error, self._pipeline, position, who)
        return [], explained(failure, self._pipeline, self._pipeline.position(span.start), READING)
