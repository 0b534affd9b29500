"""`grain.samplers`: headrace's versions of the names in this module of Grain."""

from ...samplers import Sampler as Sampler
from ..adapters.loader.records import IndexSampler as IndexSampler
from ..adapters.loader.records import SequentialSampler as SequentialSampler
