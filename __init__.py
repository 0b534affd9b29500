"""millrace: the input pipeline for JAX. Source + sampler + operations; see README.md."""

from . import checkpoint
from .loader import DataLoader, DataLoaderIterator, DeviceLoader, ReadOptions, device_put, load, shard_options_for
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
    ArrayRecordDataSource,
    DataSource,
    MemorySource,
    ParquetDataSource,
    RangeDataSource,
    TfdsDataSource,
)

__all__ = [
    "ArrayRecordDataSource",
    "Batch",
    "DataLoader",
    "DataLoaderIterator",
    "DataSource",
    "DeviceLoader",
    "Filter",
    "FlatMap",
    "IndexSampler",
    "MapTransform",
    "MapWithIndexTransform",
    "MemorySource",
    "NoSharding",
    "Operation",
    "ParquetDataSource",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "TfdsDataSource",
    "batch_and_pad",
    "checkpoint",
    "device_put",
    "load",
    "pad_batch",
    "shard_options_for",
]
