"""`grain.samplers`."""

from ...samplers import Sampler as Sampler
from ..adapters.loader.samplers import IndexSampler as IndexSampler
from ..adapters.loader.samplers import SequentialSampler as SequentialSampler
