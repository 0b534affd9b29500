"""millrace: the input pipeline for JAX. Source + sampler + operations; see README.md."""

from .loader import DataLoader, DataLoaderIterator, ReadOptions, load
from .operations import (
    Batch,
    Filter,
    FlatMap,
    MapTransform,
    MapWithIndexTransform,
    Operation,
    RandomMapTransform,
    batch_and_pad,
    pad_batch,
)
from .samplers import (
    IndexSampler,
    NoSharding,
    RecordMetadata,
    Sampler,
    SequentialSampler,
    ShardByJaxProcess,
    ShardOptions,
)
from .sources import (
    DataSource,
    MemorySource,
    RangeDataSource,
)

__all__ = [
    "Batch",
    "DataLoader",
    "DataLoaderIterator",
    "DataSource",
    "Filter",
    "FlatMap",
    "IndexSampler",
    "MapTransform",
    "MapWithIndexTransform",
    "MemorySource",
    "NoSharding",
    "Operation",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "batch_and_pad",
    "load",
    "pad_batch",
]
