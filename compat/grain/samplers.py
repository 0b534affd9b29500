"""`grain.samplers`."""

from ...samplers import Sampler
from ..adapters.loader.samplers import IndexSampler, SequentialSampler

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]
