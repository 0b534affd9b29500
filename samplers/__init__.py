"""Samplers: which record stands at a position. Pure index arithmetic."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from
from .balance import Balance
from .block_shuffle import BlockShuffle
from .changing.growth import GrowthOptions
from .index import IndexSampler, SequentialSampler
from .mix.sampler import MixSampler
from .protocol import RecordMetadata, Sampler
from .sharding import NoSharding, ShardByJaxProcess, ShardOptions

if TYPE_CHECKING:
    from .weighted.balanced import BalancedSampler
    from .weighted.sampler import WeightedSampler

__all__ = [
    "Balance",
    "BalancedSampler",
    "BlockShuffle",
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
        __name__, {"BalancedSampler": "weighted.balanced", "WeightedSampler": "weighted.sampler"}
    )  # a worker seldom needs them
