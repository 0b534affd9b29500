"""Grain's names over our engine: `import headrace.compat.grain as grain`.

Programs run with the import changed and nothing else. Orders and random numbers are Grain's.
"""

from ..adapters.chains.iter_dataset import IterDataset
from ..adapters.chains.iterators import DatasetIterator
from ..adapters.chains.map_dataset import MapDataset
from ..adapters.loader.data_loader import DataLoader, DataLoaderIterator, load
from ..adapters.loader.records import Record, RecordMetadata
from ..adapters.options import MultiprocessingOptions, ReadOptions, config
from . import checkpoint, constants, experimental, multiprocessing, python, samplers, sharding, sources, transforms

__all__ = [
    "DataLoader",
    "DataLoaderIterator",
    "DatasetIterator",
    "IterDataset",
    "MapDataset",
    "MultiprocessingOptions",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "checkpoint",
    "config",
    "constants",
    "experimental",
    "load",
    "multiprocessing",
    "python",
    "samplers",
    "sharding",
    "sources",
    "transforms",
]
