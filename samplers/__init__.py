"""Samplers: decide which record is read at each position of a run. Pure index arithmetic."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .balance import Balance
    from .block_shuffle import BlockShuffle
    from .bptt import BpttSampler
    from .changing.growth import GrowthOptions
    from .index import IndexSampler, SequentialSampler
    from .mix.sampler import MixSampler
    from .protocol import RecordMetadata, Sampler
    from .sharding import NoSharding, ShardByJaxProcess, ShardOptions
    from .weighted.balanced import BalancedSampler
    from .weighted.sampler import WeightedSampler

__all__ = [
    "Balance",
    "BalancedSampler",
    "BlockShuffle",
    "BpttSampler",
    "GrowthOptions",
    "IndexSampler",
    "MixSampler",
    "NoSharding",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "WeightedSampler",
]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "Balance": "balance",
            "BalancedSampler": "weighted.balanced",
            "BlockShuffle": "block_shuffle",
            "BpttSampler": "bptt",
            "GrowthOptions": "changing.growth",
            "IndexSampler": "index",
            "MixSampler": "mix.sampler",
            "NoSharding": "sharding",
            "RecordMetadata": "protocol",
            "Sampler": "protocol",
            "SequentialSampler": "index",
            "ShardByJaxProcess": "sharding",
            "ShardOptions": "sharding",
            "WeightedSampler": "weighted.sampler",
        },
    )
