"""`grain.samplers`."""

from ...samplers import Sampler
from ..adapters.samplers import IndexSampler, SequentialSampler

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]
