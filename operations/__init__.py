"""Operations: records to records, and records to batches."""

from .batch import Batch
from .pack import Pack
from .padding import batch_and_pad, pad_batch
from .protocol import Operation
from .several import Together, WindowShuffle
from .transforms import Filter, FlatMap, MapTransform, MapWithIndexTransform, RandomMapTransform

__all__ = [
    "Batch",
    "Filter",
    "FlatMap",
    "MapTransform",
    "MapWithIndexTransform",
    "Operation",
    "Pack",
    "RandomMapTransform",
    "Together",
    "WindowShuffle",
    "batch_and_pad",
    "pad_batch",
]
