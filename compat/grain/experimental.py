"""`grain.experimental`."""

from ..adapters.iterators import get_next_index, set_next_index
from ..adapters.options import DatasetOptions, ExecutionTrackingMode
from ..adapters.transforms import FlatMap as FlatMapTransform
from ..adapters.transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "DatasetOptions",
    "ExecutionTrackingMode",
    "FlatMapTransform",
    "MapWithIndexTransform",
    "get_next_index",
    "set_next_index",
]
