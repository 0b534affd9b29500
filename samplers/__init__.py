"""Samplers: which record stands at a position. Pure index arithmetic."""

from .index import IndexSampler, SequentialSampler
from .protocol import RecordMetadata, Sampler
from .sharding import NoSharding, ShardByJaxProcess, ShardOptions

__all__ = [
    "IndexSampler",
    "NoSharding",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
]
