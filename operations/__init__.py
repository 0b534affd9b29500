"""Operations: records to records, and records to batches."""

from .batch import Batch
from .padding import batch_and_pad, pad_batch
from .protocol import Operation
from .transforms import Filter, FlatMap, MapTransform, MapWithIndexTransform, RandomMapTransform

__all__ = [
    "Batch",
    "Filter",
    "FlatMap",
    "MapTransform",
    "MapWithIndexTransform",
    "Operation",
    "RandomMapTransform",
    "batch_and_pad",
    "pad_batch",
]
