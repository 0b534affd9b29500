"""`grain.sharding`."""

from ...samplers import NoSharding as NoSharding
from ...samplers import ShardByJaxProcess as ShardByJaxProcess
from ...samplers import ShardOptions as ShardOptions
