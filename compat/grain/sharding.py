"""`grain.sharding`: headrace's versions of the names in this module of Grain."""

from ...samplers import NoSharding as NoSharding
from ...samplers import ShardByJaxProcess as ShardByJaxProcess
from ...samplers import ShardOptions as ShardOptions
