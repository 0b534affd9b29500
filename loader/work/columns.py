"""Batches straight from a source of columns: one `np.take` a leaf, nothing per record.

In: the record keys of a span. Out: its batches. Stands in for reading and for the first operation, a plain `Batch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...operations import Batch
from ...operations.protocol import Allocate, ArraySpec, Element
from ...operations.trees import flatten
from ..plan.pipeline import Pipeline


class ColumnReader:
    """Takes batches from the columns of `source`, as `batch` would make them of its records."""

    def __init__(self, columns: Any, batch: Batch, allocate: Allocate) -> None:
        leaves, self._structure = flatten(columns)
        self._leaves: list[NDArray[Any]] = leaves
        self._allocate = allocate
        self.batch_size = batch.batch_size
        self._drop_remainder = batch.drop_remainder
        self._specs = self._specs_of(batch.batch_size)

    def _specs_of(self, rows: int) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec((rows, *leaf.shape[1:]), leaf.dtype) for leaf in self._leaves)

    @classmethod
    def of(cls, pipeline: Pipeline, allocate: Allocate) -> ColumnReader | None:
        """One for this pipeline, if it batches columns."""
        batch = pipeline.operations[0] if pipeline.operations else None
        if pipeline.columns is None or not isinstance(batch, Batch):
            return None
        return cls(pipeline.columns, batch, allocate)

    def batches(self, keys: NDArray[np.int64]) -> list[Element]:
        """The batches of a span, in order."""
        size = self.batch_size
        if len(keys) == size:
            return [self._batch_of(keys)]
        cut = len(keys) - len(keys) % size if self._drop_remainder else len(keys)
        return [self._batch_of(keys[start : start + size]) for start in range(0, cut, size)]

    def _batch_of(self, keys: NDArray[np.int64]) -> Element:
        specs = self._specs if len(keys) == self.batch_size else self._specs_of(len(keys))
        arrays = self._allocate(specs)
        for leaf, array in zip(self._leaves, arrays):
            # The keys are within bounds, as the pipeline was checked: "clip" only spares the buffer that "raise" needs.
            leaf.take(keys, 0, array, "clip")
        return self._structure.unflatten(arrays)
