"""`grain.transforms`."""

from ..adapters.selection import DatasetSelectionMap
from ..adapters.transforms import Batch, Filter, FlatMap, Map, MapWithIndex, RandomMap, Transformation, Transformations

__all__ = [
    "Batch",
    "DatasetSelectionMap",
    "Filter",
    "FlatMap",
    "Map",
    "MapWithIndex",
    "RandomMap",
    "Transformation",
    "Transformations",
]
