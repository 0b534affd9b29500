"""Batches straight from a source of columns: one `np.take` a leaf, nothing per record.

In: the record keys of a span. Out: its batches. Stands in for reading and for the first operation, a plain `Batch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..operations import Batch
from ..operations.protocol import Allocate, ArraySpec, Element
from ..operations.trees import flatten
from .pipeline import Pipeline


class ColumnReader:
    """Takes batches from the columns of `source`, as `batch` would make them of its records."""

    def __init__(self, columns: Any, batch: Batch, allocate: Allocate) -> None:
        leaves, self._structure = flatten(columns)
        self._leaves: list[NDArray[Any]] = leaves
        self._batch = batch
        self._allocate = allocate

    @classmethod
    def of(cls, pipeline: Pipeline, allocate: Allocate) -> ColumnReader | None:
        """One for this pipeline, if its source has columns and it batches them before anything else."""
        first = pipeline.operations[0] if pipeline.operations else None
        columns = getattr(pipeline.source, "columns", None)
        if columns is None or type(first) is not Batch or first.batch_fn is not None:
            return None
        reader = cls(columns, first, allocate)
        native = all(leaf.dtype == np.result_type(leaf.dtype) and not leaf.dtype.hasobject for leaf in reader._leaves)
        return reader if native else None

    @property
    def batch_size(self) -> int:
        """Records in a batch."""
        return self._batch.batch_size

    def batches(self, keys: NDArray[np.int64]) -> list[Element]:
        """The batches of a span, in order."""
        size = self._batch.batch_size
        cut = len(keys) - len(keys) % size if self._batch.drop_remainder else len(keys)
        return [self._batch_of(keys[start : start + size]) for start in range(0, cut, size)]

    def _batch_of(self, keys: NDArray[np.int64]) -> Element:
        arrays = self._allocate([ArraySpec((len(keys), *leaf.shape[1:]), leaf.dtype) for leaf in self._leaves])
        for leaf, array in zip(self._leaves, arrays):
            # The keys are within bounds, as the pipeline was checked: "clip" only spares the buffer that "raise" needs.
            np.take(leaf, keys, axis=0, out=array, mode="clip")
        return self._structure.unflatten(arrays)
